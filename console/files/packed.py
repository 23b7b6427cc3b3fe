"""A packed log that is read from its end at once: gzip members of some MB, each with its own length in its header."""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

# Of the log, uncompressed; each member ends at the end of a line where it can.
MEMBER_BYTES: Final = 4 << 20
# RFC 1952: the extra field is made of subfields, each two letters, a length and its bytes; ours is the member's length.
_HEAD: Final = struct.Struct("<4sIBBH2sHI")
_MAGIC: Final = b"\x1f\x8b\x08\x04"
_EXTRA: Final = 8
_OURS: Final = b"ND"
_TAIL: Final = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class Member:
    """Where a member lies in the file."""

    at: int
    size: int


def pack(source: BinaryIO, target: BinaryIO, moved: Callable[[], None] = lambda: None) -> None:
    """Write `source` packed. Any gunzip reads it. moved: called at each member. Raises OSError."""
    rest = b""
    while True:
        block = source.read(MEMBER_BYTES)
        data = rest + block
        if not data:
            return
        end = data.rfind(b"\n") + 1 if block else len(data)
        end = end or len(data)
        rest = data[end:]
        target.write(_member(data[:end]))
        moved()


def _member(data: bytes) -> bytes:
    work = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = work.compress(data) + work.flush()
    size = _HEAD.size + len(body) + _TAIL.size
    head = _HEAD.pack(_MAGIC, 0, 0, 255, _EXTRA, _OURS, 4, size)
    return head + body + _TAIL.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)


def members(file: Path) -> list[Member]:
    """The members of a file that `pack` wrote, whole ones alone; empty for any other gzip file. Raises OSError."""
    found: list[Member] = []
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = os.fstat(descriptor).st_size
        at = 0
        while at < end:
            head = os.pread(descriptor, _HEAD.size, at)
            if len(head) < _HEAD.size:
                break
            magic, _, _, _, extra, name, length, size = _HEAD.unpack(head)
            if (magic, extra, name, length) != (_MAGIC, _EXTRA, _OURS, 4) or size <= _HEAD.size or at + size > end:
                break
            found.append(Member(at, size))
            at += size
    finally:
        os.close(descriptor)
    return found


def unpack(descriptor: int, member: Member) -> bytes:
    """A member's bytes; what a damage left of them. Raises OSError."""
    body = os.pread(descriptor, member.size - _HEAD.size - _TAIL.size, member.at + _HEAD.size)
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(body)
    except zlib.error:
        return b""


def blocks(file: Path) -> Iterator[bytes]:
    """Everything that can be read of a file that `pack` wrote, in order: a damaged member is passed over, and of half a
    last one, as a crash leaves it, what is there is given. Raises OSError."""
    found = members(file)
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for member in found:
            yield unpack(descriptor, member)
        at = found[-1].at + found[-1].size if found else 0
        rest = os.pread(descriptor, MEMBER_BYTES, at)
        if rest:
            with contextlib.suppress(zlib.error):
                yield zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(rest)
    finally:
        os.close(descriptor)


def last_first(file: Path) -> Iterator[bytes]:
    """The unpacked members, the last one first. Raises OSError."""
    found = members(file)
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for member in reversed(found):
            yield unpack(descriptor, member)
    finally:
        os.close(descriptor)
