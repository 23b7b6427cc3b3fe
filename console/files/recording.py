"""A session in one file: gzip of JSON lines, a header first, readable up to the last whole line after a crash."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from console.base.errors import UsageError
from console.files.atomic import DiskError, trouble

KIND: Final = "nightdeck recording"
VERSION: Final = 1
_GZIP: Final = 31  # zlib's wbits for a gzip wrapper with the largest window
# Between two flushes a crash may take the last seconds; a flush costs a few bytes of compression.
FLUSH_S: Final = 2.0
MAX_LINE: Final = 8 << 20


class RecordingWriter:
    """Writes lines as they come; the first error is told once, and nothing is written after it."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        """Raises UsageError where the file is there already, DiskError where it cannot be made."""
        self.path = path
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise UsageError("is there already", where=str(path), remedy="name a new file") from error
        except OSError as error:
            raise trouble("cannot be made", path, error) from error
        self._file: BinaryIO = os.fdopen(fd, "wb", buffering=0)
        self._zip = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._flushed = 0.0
        self.lines = 0
        self.write({"kind": KIND, "v": VERSION, **header}, 0.0)

    def write(self, row: object, now: float) -> None:
        """One line. now: any clock in seconds that does not go back; it decides when to flush. Raises DiskError."""
        data = json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        try:
            out = self._zip.compress(data)
            if self.lines == 0 or now - self._flushed >= FLUSH_S:
                out += self._zip.flush(zlib.Z_SYNC_FLUSH)
                self._flushed = now
            if out:
                self._file.write(out)
        except OSError as error:
            raise trouble("cannot be written", self.path, error) from error
        self.lines += 1

    def close(self) -> None:
        """Raises DiskError; twice does no harm."""
        if self._file.closed:
            return
        try:
            self._file.write(self._zip.flush())
        except OSError as error:
            raise trouble("cannot be written", self.path, error) from error
        finally:
            self._file.close()


def read_recording(path: Path) -> Iterator[Any]:
    """The header, then each line's value, as far as the file is whole; a line that is no JSON is left out.

    Raises UsageError for what is no recording or of a newer version, DiskError where it cannot be read."""
    rows = _values(path)
    try:
        head = next(rows, None)
        if not isinstance(head, dict) or head.get("kind") != KIND:
            raise UsageError("is no recording", where=str(path))
        if not isinstance(head.get("v"), int) or head["v"] > VERSION:
            raise UsageError("was made by a newer version", where=str(path), remedy=f"this one reads version {VERSION}")
        yield head
        yield from rows
    except OSError as error:
        raise trouble("cannot be read", path, error) from error


def _values(path: Path) -> Iterator[Any]:
    for line in _lines(path):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def _lines(path: Path) -> Iterator[bytes]:
    rest = b""
    for data in _inflated(path):
        rest += data
        *whole, rest = rest.split(b"\n")
        yield from whole
        if len(rest) > MAX_LINE:
            return


def _inflated(path: Path) -> Iterator[bytes]:
    """Plain bytes as far as the file is whole: zlib gives nothing of a block with a fault, so the one with the first
    fault is read again byte by byte."""
    unzip = zlib.decompressobj(_GZIP)
    with path.open("rb") as source:
        while block := source.read(64 << 10):
            while block:
                before = unzip.copy()
                try:
                    data = unzip.decompress(block, 1 << 20)
                except zlib.error:
                    yield from _until_fault(before, block)
                    return
                yield data
                block = unzip.unconsumed_tail


def _until_fault(unzip: Any, block: bytes) -> Iterator[bytes]:
    for n in range(len(block)):
        try:
            yield unzip.decompress(block[n : n + 1])
        except zlib.error:
            return


__all__ = ["DiskError", "RecordingWriter", "read_recording"]
