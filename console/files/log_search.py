"""A kept log of millions of lines: its end at once, and what is in it as fast as the disk gives it."""

from __future__ import annotations

import mmap
import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from console.base.errors import UsageError
from console.files.archive import read_log
from console.files.atomic import trouble
from console.files.packed import Member, last_first, members, unpack

# A search looks at so much at a time; lines that cross from one piece into the next are joined.
_PIECE: Final = 1 << 20
# Whoever takes lines from a search may stop at any of them: so much is unpacked ahead.
_AHEAD: Final = 4
LONGEST_LINE: Final = 1 << 20

_LETTER: Final = re.compile(rb"\\.|[A-Z]", re.DOTALL)


class Query:
    """What is looked for. text: as it is, or a regular expression (regex). ignore_case: ASCII letters.

    Raises UsageError for an expression that is none."""

    def __init__(self, text: str, *, regex: bool = False, ignore_case: bool = False) -> None:
        if not text:
            raise UsageError("there is nothing to look for")
        source = (text if regex else re.escape(text)).encode("utf-8", "replace")
        self._fold = ignore_case
        try:
            self._pattern = re.compile(source, re.IGNORECASE if ignore_case else re.NOFLAG)
        except re.error as error:
            raise UsageError(f"{text!r} is no regular expression: {error}") from error
        if ignore_case:
            self._lower()

    def _lower(self) -> None:
        """Lower case throughout, in the text too, is six times as fast as the engine's own ignoring of it (measured).
        What follows a backslash is no letter. Where that makes another expression of it, the engine does it."""
        lower = _LETTER.sub(lambda m: m.group() if m.group()[:1] == b"\\" else m.group().lower(), self._pattern.pattern)
        try:
            self._pattern = re.compile(lower)
        except re.error:  # such as a group's name
            self._fold = False

    def lines(self, data: bytes | mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(begin, end) of each line with a match, between start and end, which lie at ends of lines."""
        if self._fold:
            data, shift = data[start:end].lower(), start
            begin, stop = 0, end - start
        else:
            shift, begin, stop = 0, start, end
        while True:
            found = self._pattern.search(data, begin, stop)
            if found is None:
                return
            at = found.start()
            head = data.rfind(b"\n", begin, at) + 1 or begin
            tail = data.find(b"\n", at, stop)
            tail = stop if tail < 0 else tail
            yield head + shift, tail + shift
            begin = tail + 1
            if begin >= stop:
                return


def tail(file: Path, count: int) -> list[bytes]:
    """The last `count` lines, oldest first, without their ends. Packed or not. Raises DiskError."""
    if count <= 0:
        return []
    try:
        if file.suffix != ".gz":
            return _plain_tail(file, count)
        if members(file):
            return _packed_tail(file, count)
    except OSError as error:
        raise trouble("cannot be read", file, error) from error
    held = b""
    last: deque[bytes] = deque(maxlen=count)
    for block in read_log(file):
        *whole, held = (held + block).split(b"\n")
        last.extend(whole)
    return [*last, held][-count:] if held else list(last)


def _plain_tail(file: Path, count: int) -> list[bytes]:
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if not size:
            return []
        data = b""
        at = size
        while at and data.count(b"\n") <= count:
            start = max(0, at - max(1 << 16, len(data)))
            data = os.pread(stream.fileno(), at - start, start) + data
            at = start
    return _lines(data)[-count:]


def _packed_tail(file: Path, count: int) -> list[bytes]:
    data = b""
    for block in last_first(file):
        data = block + data
        if data.count(b"\n") > count:
            break
    return _lines(data)[-count:]


def _lines(data: bytes) -> list[bytes]:
    rows = data.split(b"\n")
    if not rows[-1]:
        rows.pop()
    return rows


def search(file: Path, query: Query) -> Iterator[bytes]:
    """Every line with a match, in order, without its end, cut at 1 MiB. Packed or not. Raises DiskError."""
    try:
        if file.suffix != ".gz":
            yield from _plain(file, query)
            return
        found = members(file)
        if found:
            yield from _packed(file, found, query)
            return
    except OSError as error:
        raise trouble("cannot be read", file, error) from error
    rest = b""
    for block in read_log(file):
        data = rest + block
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        yield from _of(data, end, query)
    yield from _of(rest, len(rest), query)


def _of(data: bytes, end: int, query: Query) -> Iterator[bytes]:
    for a, b in query.lines(data, 0, end):
        yield data[a : min(b, a + LONGEST_LINE)]


def _plain(file: Path, query: Query) -> Iterator[bytes]:
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if not size:
            return
        with mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as data:
            at = 0
            while at < size:
                end = size if size - at <= _PIECE else data.rfind(b"\n", at, at + _PIECE) + 1
                if end <= at:  # one line is longer than a piece
                    end = data.find(b"\n", at + _PIECE) + 1 or size
                for a, b in query.lines(data, at, end):
                    yield bytes(data[a : min(b, a + LONGEST_LINE)])
                at = end


def _packed(file: Path, found: list[Member], query: Query) -> Iterator[bytes]:
    """Members are unpacked beside each other, and searched as they come."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="unpack")
    waiting: deque[Future[bytes]] = deque()
    rest = iter(found)
    try:
        for member in rest:
            waiting.append(pool.submit(unpack, descriptor, member))
            if len(waiting) >= _AHEAD:
                break
        while waiting:
            data = waiting.popleft().result()
            following = next(rest, None)
            if following is not None:
                waiting.append(pool.submit(unpack, descriptor, following))
            yield from _of(data, len(data), query)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        os.close(descriptor)
