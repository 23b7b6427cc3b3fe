"""A file of the operator's as text: bounded, regular, UTF-8, or an error that says what it is instead."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from console.base.errors import FileError

LARGEST: Final = 1 << 20  # bytes; a recipe is a few kilobytes


def read_text(path: Path, *, shown: str | None = None, largest: int = LARGEST) -> str:
    """The text of a file. Raises FileError for what is no regular file, too large, unreadable or not UTF-8.

    A pipe or a device is refused without waiting for it. `shown` is how errors name the file.
    """
    name = shown or str(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise FileError(_trouble(path, error), file=name) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
            raise FileError(f"must be a regular file, found {kind}", file=name)
        if status.st_size > largest:
            raise FileError(f"too large: {status.st_size} bytes, allowed are {largest}", file=name)
        data = _read(descriptor, largest + 1)
    except OSError as error:
        raise FileError(_trouble(path, error), file=name) from error
    finally:
        os.close(descriptor)
    if len(data) > largest:
        raise FileError(f"too large: more than {largest} bytes", file=name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        start = error.start
        line = data.count(b"\n", 0, start) + 1
        column = len(data[data.rfind(b"\n", 0, start) + 1 : start].decode("utf-8", "replace")) + 1
        message = f"not UTF-8: byte 0x{data[start]:02x} at offset {start}"
        raise FileError(message, file=name, line=line, column=column, remedy="save the file as UTF-8") from error


def _read(descriptor: int, most: int) -> bytes:
    chunks: list[bytes] = []
    while most > 0 and (chunk := os.read(descriptor, min(most, 1 << 16))):
        chunks.append(chunk)
        most -= len(chunk)
    return b"".join(chunks)


def _trouble(path: Path, error: OSError) -> str:
    if error.errno == errno.ENOENT and path.is_symlink():
        return "a link that points to nothing"
    if error.errno == errno.ENOENT:
        return "no such file"
    if error.errno == errno.ELOOP:
        return "a link that points to itself"
    return f"cannot be read: {error.strerror or type(error).__name__}"
