"""Writes that a crash at any byte leaves whole: the old file or the new one, and lines that are all there or not."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from console.base.errors import NightdeckError


class DiskError(NightdeckError):
    """The journal or another of the console's own files cannot be written or read: no space, no permission."""


def trouble(action: str, path: Path, error: OSError) -> DiskError:
    """An OSError in the operator's words."""
    return DiskError(f"{action}: {error.strerror or type(error).__name__}", where=str(path))


def aside(path: Path, ending: str = "tmp") -> Path:
    """Where what is to take the place of `path` is written first: beside it, and of nobody else, since two threads of
    one console may write the same file at once."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.{ending}")


def write_whole(path: Path, data: bytes) -> None:
    """Put `data` in the place of the file at once, mode 0600. Raises DiskError; the old file then stands.

    A file of its own is written, flushed to the disk and renamed; the folder is flushed after.
    """
    temporary = aside(path)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):  # the error that is told is the first one
            temporary.unlink(missing_ok=True)
        raise trouble("cannot be written", path, error) from error


class Appender:
    """A file that only grows. Each `append` is there as a whole or, on a full disk, taken back."""

    def __init__(self, path: Path, *, lines: bool, again: bool = False) -> None:
        """Open or create, mode 0600. lines: where a crash left half a line, end it, so that the next stands alone;
        again: take it back instead, because whoever wrote it gives that line once more, whole."""
        self.path = path
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o600)
            size = os.fstat(self._descriptor).st_size
            if lines and size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                if again:
                    os.ftruncate(self._descriptor, _last_line(self._descriptor, size))
                else:
                    _write_all(self._descriptor, b"\n")
        except OSError as error:
            raise trouble("cannot be opened", path, error) from error

    def append(self, data: bytes, *, flush: bool = False) -> None:
        """Append. flush: to the disk itself, not only to the system. Raises DiskError; nothing of `data` then stays,
        unless the disk refuses to take it back too: whoever opens the file next finds part of a line."""
        size = None
        try:
            size = os.fstat(self._descriptor).st_size
            _write_all(self._descriptor, data)
            if flush:
                os.fsync(self._descriptor)
        except OSError as error:
            if size is not None:
                with contextlib.suppress(OSError):  # the error that is told is the first one
                    os.ftruncate(self._descriptor, size)
            raise trouble("cannot be appended to", self.path, error) from error

    def sync(self) -> None:
        """Everything appended so far to the disk itself. Raises DiskError."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise trouble("cannot be written", self.path, error) from error

    def close(self) -> None:
        """Raises DiskError: some file systems (NFS) tell only now that what was written did not arrive."""
        try:
            os.close(self._descriptor)
        except OSError as error:
            raise trouble("cannot be written", self.path, error) from error


def _last_line(descriptor: int, size: int) -> int:
    """Where the last, unfinished line begins."""
    at = size
    while at:
        start = max(0, at - 65_536)
        found = os.pread(descriptor, at - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
