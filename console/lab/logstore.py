"""What a container printed, with docker's time stamps, and everyone who follows it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from console.lab.clock import rfc3339_nano

STDOUT: Final = 1
STDERR: Final = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """One line as printed, its newline included where there was one. at: nanoseconds since the epoch."""

    number: int
    at: int
    stream: int
    data: bytes

    def stamped(self) -> bytes:
        return rfc3339_nano(self.at).encode() + b" " + self.data


class LogStore:
    """A ring of lines; the oldest go when it holds more than `limit_bytes`, as with docker's max-size."""

    def __init__(self, limit_bytes: int = 48 << 20) -> None:
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._limit = limit_bytes
        self._next = 0
        self._last_at = 0
        self._changed = asyncio.Event()
        self.closed = False

    def add(self, data: bytes, stream: int = STDOUT) -> None:
        """One line. Stamps rise strictly, so that --since can tell two lines of one moment apart."""
        self._last_at = max(time.time_ns(), self._last_at + 1)
        self._entries.append(Entry(self._next, self._last_at, stream, data))
        self._next += 1
        self._bytes += len(data)
        while self._bytes > self._limit and len(self._entries) > 1:
            self._bytes -= len(self._entries.popleft().data)
        self._wake()

    def text(self, line: str, stream: int = STDOUT) -> None:
        self.add(line.encode() + b"\n", stream)

    def reopen(self) -> None:
        self.closed = False

    def close(self) -> None:
        """The container ended: followers read what is left and end."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def snapshot(self, since: int | None = None, until: int | None = None, tail: int | None = None) -> list[Entry]:
        """Entries in order. since/until: nanoseconds, both inclusive. tail: at most so many, the newest."""
        found = [e for e in self._entries if (since is None or e.at >= since) and (until is None or e.at <= until)]
        return found if tail is None else found[len(found) - tail :] if tail < len(found) else found

    async def follow(self, since: int | None = None, tail: int | None = None) -> AsyncIterator[Entry]:
        """Entries so far, then each new one, until the container ends."""
        batch = self.snapshot(since, None, tail)
        position = self._next
        while True:
            for entry in batch:
                yield entry
            if position < self._next:
                pass
            elif self.closed:
                return
            else:
                await self._changed.wait()
            missed = self._next - position
            batch = list(self._entries)[-missed:] if missed else []
            position = self._next
