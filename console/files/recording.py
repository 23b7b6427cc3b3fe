"""A session in one file: gzip members of JSON lines, a header first, each later member with a checkpoint to begin at.

Format, version 2. Any gunzip makes JSON lines of it. The first line is the header, an object: `kind`, `v`, and what the
writer gives. Every other line is a row: [seconds since the start, kind, ...]. A member's gzip header has an extra field
`ND` of four bytes, little-endian: the member's whole length, 0 while it is being written. Each member after the first
begins with one or more rows of kind `checkpoint`, so reading may begin at any member. Version 1 is one member, without
the field and without checkpoints; it is read from its start. A crash at any byte leaves whole lines up to the last
flush. A line of more than 8 MiB is none of ours: the reader leaves it out and goes on after it.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from console.base.errors import UsageError
from console.files.atomic import DiskError, trouble

KIND: Final = "nightdeck recording"
VERSION: Final = 2
# Between two flushes a crash may take the last seconds; a flush costs a few bytes of compression.
FLUSH_S: Final = 2.0
MAX_LINE: Final = 8 << 20
# A member, and so the way from one checkpoint to the next: to seek is to read no more than a few of them.
MEMBER_S: Final = 300.0
MEMBER_BYTES: Final = 16 << 20
_HEAD: Final = struct.Struct("<4sIBBH2sHI")
_MAGIC: Final = b"\x1f\x8b\x08\x04"
_TAIL: Final = struct.Struct("<II")
_SIZE_AT: Final = _HEAD.size - 4
_ANY: Final = 47  # zlib's wbits for gzip or zlib, told by the header
_CHECKPOINT: Final = re.compile(rb'\[(\d{1,12}(?:\.\d{1,6})?),"checkpoint",')
_AT_ONCE: Final = 1 << 20  # plain bytes of one step of the inflating
_FIRST: Final = 4096  # bytes of a member that hold its first row's time
Told = Callable[[str], None]


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
        self._flushed = 0.0
        self.lines = 0
        self._begin(0.0)
        self.write({"kind": KIND, "v": VERSION, **header}, 0.0)

    def _begin(self, now: float) -> None:
        self._zip = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._crc, self._plain, self._rows, self._began = 0, 0, 0, now
        self._at = self._file.tell()
        self._file.write(_HEAD.pack(_MAGIC, 0, 0, 255, 8, b"ND", 4, 0))

    def due(self, now: float) -> bool:
        """Whether the next row is to be a checkpoint, by `checkpoint`."""
        if self.lines <= 1:
            self._began = now
            return False
        return now - self._began >= MEMBER_S or self._rows >= MEMBER_BYTES

    def checkpoint(self, row: object, now: float) -> None:
        """End the member and begin another with this row; more of the checkpoint by `write`. Raises DiskError."""
        try:
            self._end()
            self._begin(now)
        except OSError as error:
            raise trouble("cannot be written", self.path, error) from error
        self._flushed = now - FLUSH_S
        self.write(row, now, part=True)

    def write(self, row: object, now: float, *, part: bool = False) -> None:
        """One line. now: any clock in seconds that does not go back; it decides when to flush. part: of a checkpoint,
        which brings the next one no nearer. Raises DiskError."""
        data = json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        try:
            out = self._zip.compress(data)
            self._crc, self._plain = zlib.crc32(data, self._crc), self._plain + len(data)
            self._rows += 0 if part else len(data)
            if self.lines == 0 or now - self._flushed >= FLUSH_S:
                out += self._zip.flush(zlib.Z_SYNC_FLUSH)
                self._flushed = now
            if out:
                self._file.write(out)
        except OSError as error:
            raise trouble("cannot be written", self.path, error) from error
        self.lines += 1

    def _end(self) -> None:
        self._file.write(self._zip.flush() + _TAIL.pack(self._crc, self._plain & 0xFFFFFFFF))
        os.pwrite(self._file.fileno(), struct.pack("<I", self._file.tell() - self._at), self._at + _SIZE_AT)

    def close(self) -> None:
        """Raises DiskError; twice does no harm."""
        if self._file.closed:
            return
        try:
            self._end()
        except OSError as error:
            raise trouble("cannot be written", self.path, error) from error
        finally:
            self._file.close()


def read_recording(path: Path, *, told: Told = lambda why: None) -> Iterator[Any]:
    """The header, then each line's value, as far as the file can be read; a line that is no JSON is left out.

    told: hears of what cannot be read, where it would have come. Raises UsageError for what is no recording or of a
    newer version, DiskError where it cannot be read."""
    rows = read_from(path, 0, told=told)
    head = next(rows, None)
    if not isinstance(head, dict) or head.get("kind") != KIND:
        raise UsageError("is no recording", where=str(path))
    if not isinstance(head.get("v"), int) or head["v"] > VERSION:
        raise UsageError("was made by a newer version", where=str(path), remedy=f"this one reads version {VERSION}")
    yield head
    yield from rows


def read_from(path: Path, at: int, *, told: Told = lambda why: None) -> Iterator[Any]:
    """Each line's value from a member on. at: its place, by `checkpoints`. Raises DiskError."""
    try:
        with path.open("rb") as source:
            for line in _lines(source, at, told):
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError):
                    continue
    except OSError as error:
        raise trouble("cannot be read", path, error) from error


def checkpoints(path: Path) -> tuple[tuple[float, int], ...]:
    """(seconds since the start, place in the file) of every checkpoint, in order; () for a file without.

    Reads a few KiB of each member. Raises DiskError."""
    found: list[tuple[float, int]] = []
    try:
        with path.open("rb") as source:
            fd, at = source.fileno(), 0
            while (size := _member_size(fd, at)) is not None:
                first = zlib.decompressobj(_ANY)
                try:
                    match = _CHECKPOINT.match(first.decompress(os.pread(fd, _FIRST, at), 64)) if at else None
                except zlib.error:
                    match = None
                if match is not None and (not found or float(match[1]) >= found[-1][0]):
                    found.append((float(match[1]), at))
                if size == 0:
                    break
                at += size
    except OSError as error:
        raise trouble("cannot be read", path, error) from error
    return tuple(found)


def _member_size(fd: int, at: int) -> int | None:
    """What the header at this place says, 0 for a member that was never ended; None where there is no such header."""
    head = os.pread(fd, _HEAD.size, at)
    if len(head) < _HEAD.size:
        return None
    magic, _, _, _, extra, name, length, size = _HEAD.unpack(head)
    if (magic, extra, name, length) != (_MAGIC, 8, b"ND", 4) or 0 < size <= _HEAD.size:
        return None
    return int(size)


def _lines(source: BinaryIO, at: int, told: Told) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    too_long = False
    for data in _inflated(source, at, told):
        if data is None:  # a gap: half a line before it and after it is none
            parts, size, too_long = [], 0, False
            continue
        *whole, rest = data.split(b"\n")
        for line in whole:
            if not too_long:
                parts.append(line)
                yield b"".join(parts)
            parts, size, too_long = [], 0, False
        if too_long:
            continue
        parts.append(rest)
        size += len(rest)
        if size > MAX_LINE:
            told(f"a line of more than {MAX_LINE >> 20} MiB is left out")
            parts, too_long = [], True


def _inflated(source: BinaryIO, at: int, told: Told) -> Iterator[bytes | None]:
    """Plain bytes, member after member; None where a damaged one was left for the next."""
    while True:
        size = _member_size(source.fileno(), at)
        fault = yield from _one(source, at)
        if isinstance(fault, int):
            at = fault
            source.seek(at)
            if not source.read(1):
                return
            continue
        following = at + size if size else None
        if following is None or _member_size(source.fileno(), following) is None:
            told(f"{fault}; it is read as far as it goes")
            return
        told(f"{fault}; it is read on from the next checkpoint")
        at = following
        yield None


def _one(source: BinaryIO, at: int) -> Generator[bytes, None, int | str]:
    """The plain bytes of the member at a place; returns where it ends, or what is wrong with it.

    zlib gives nothing of a block with a fault, so the one with the first fault is read again byte by byte."""
    source.seek(at)
    unzip = zlib.decompressobj(_ANY)
    read = 0
    while block := source.read(64 << 10):
        read += len(block)
        more = True
        while block or more:
            before = unzip.copy()
            try:
                data = unzip.decompress(block, _AT_ONCE)
            except zlib.error:
                yield _until_fault(before, block)
                return "a part of the recording is damaged"
            yield data
            if unzip.eof:  # what is left of the block stands in unconsumed_tail too, and would never grow less
                return at + read - len(unzip.unused_data)
            block, more = unzip.unconsumed_tail, len(data) >= _AT_ONCE
    return "the recording breaks off: it was cut, its console died, or it is still being written"


def _until_fault(unzip: Any, block: bytes) -> bytes:
    """What a block holds before its fault, in one piece: whoever splits it into lines does so once."""
    found = bytearray()
    for n in range(len(block)):
        try:
            found += unzip.decompress(block[n : n + 1])
        except zlib.error:
            break
    return bytes(found)


__all__ = ["DiskError", "RecordingWriter", "checkpoints", "read_from", "read_recording"]
