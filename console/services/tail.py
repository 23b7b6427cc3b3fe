"""Following one rank's log across lost connections: no line lost, none doubled, order kept."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from console.base.clock import Clock
from console.services.scripts import follow_argv
from console.transport.base import Link, TransportError, Trouble

_STAMP_LIMIT = 40  # 2026-11-30T03:00:00.123456789Z; podman writes a zone, and both may write fewer digits
# The engine stamps stdout and stderr apart, so a line can carry an earlier stamp than the one before it. Resuming
# asks again for this long and drops what is already here, line by line.
OVERLAP_S = 5.0
_WINDOW_LINES = 200_000
_RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# Read, told apart and judged, a line costs some 0.1 ms, and all ranks' logs may come at once: after so many lines the
# rest of the console has its turn.
SLICE_LINES = 32


class Splitter:
    """Blocks of bytes into whole lines; what is not ended by a newline waits, bounded."""

    def __init__(self, limit: int = 1 << 20) -> None:
        self._rest = bytearray()
        self._limit = limit

    def feed(self, block: bytes) -> list[bytes]:
        self._rest += block
        *lines, rest = bytes(self._rest).split(b"\n") if b"\n" in block else (bytes(self._rest),)
        if len(rest) > self._limit:
            rest = rest[: self._limit]  # the rest of an endless line is dropped; its newline still ends it
        self._rest = bytearray(rest)
        return lines

    def reset(self) -> bytes:
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


class Resume:
    """What is needed to go on after a cut: the last stamp and the stamps of the lines within the overlap.

    A stamp stands for its line: the engine replays in its file's order, so of several lines with one stamp the first
    ones are those that are held, also where the held copy had a secret masked."""

    def __init__(self) -> None:
        self._recent: deque[bytes] = deque(maxlen=_WINDOW_LINES)
        self._last = b""
        self._second = b""
        self._edge = b""
        self._known: Counter[bytes] = Counter()

    def seed(self, lines: Sequence[bytes]) -> None:
        """Lines that are already held (a log file of an earlier run)."""
        for line in lines:
            self._remember(line)

    def since(self) -> str:
        """The stamp to ask from, empty for everything; arms the filter for what comes twice."""
        self._known = Counter(self._recent)
        when = _parse(self._last)
        if when is None:
            return ""
        start = when - timedelta(seconds=OVERLAP_S)
        return start.strftime("%Y-%m-%dT%H:%M:%SZ")

    def fresh(self, line: bytes) -> bool:
        """True for a line that was not here before; it is remembered."""
        key = stamp_of(line)
        if self._known:
            if self._known.get(key, 0) > 0:
                self._known[key] -= 1
                return False
            self._known.clear()  # the engine replays in its file's order: after the first new line all are new
        self._remember(line)
        return True

    def _remember(self, line: bytes) -> None:
        key = stamp_of(line)
        self._last = max(self._last, key)
        self._recent.append(key)
        if (second := self._last[:19]) != self._second:
            self._second = second
            floor = _parse(second)
            self._edge = _edge(floor) if floor is not None else b""
        while self._recent and self._recent[0] < self._edge:
            self._recent.popleft()


def stamp_of(line: bytes) -> bytes:
    """The engine's time stamp in front of a line, or nothing."""
    stamp = line[:_STAMP_LIMIT].split(b" ", 1)[0]
    return stamp if len(stamp) >= 20 and stamp[10:11] == b"T" and stamp[:4].isdigit() else b""


def _edge(floor: datetime) -> bytes:
    return (floor - timedelta(seconds=OVERLAP_S + 1)).strftime("%Y-%m-%dT%H:%M:%S").encode()


def _parse(stamp: bytes) -> datetime | None:
    """To the second: the overlap is far wider than what this cuts off."""
    try:
        return datetime.strptime(stamp[:19].decode("ascii"), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    except (ValueError, UnicodeDecodeError):
        return None


class Tail:
    """One container's log. sink: whole lines with their stamps, in order. state: `waiting`, `following`, `ended`
    (the container's log is complete), `gone` (the engine knows no such container), else the transport's trouble."""

    def __init__(
        self,
        link: Link,
        cli: str,
        container: str,
        sink: Callable[[list[bytes]], None],
        clock: Clock,
        *,
        follow: bool = True,
        resume: Resume | None = None,
    ) -> None:
        self._link = link
        self._cli = cli
        self._container = container
        self._sink = sink
        self._clock = clock
        self._follow = follow
        self._resume = resume if resume is not None else Resume()
        self.state = "waiting"
        self.why = ""
        self.cuts = 0
        self.done = asyncio.Event()

    async def run(self) -> None:
        """Returns when the log is complete or there is no such container; reconnects for ever otherwise."""
        tries = 0
        while True:
            try:
                delivered = await self._once()
            except TransportError as error:
                self.cuts += 1
                self.state, self.why = str(error.trouble), error.what
                if not self._follow:
                    self.done.set()
                    return
                slow = error.trouble in (Trouble.SILENT, Trouble.HOST_KEY, Trouble.AUTH, Trouble.CONFIG)
                await asyncio.sleep(_RETRY_S[-1] if slow else _RETRY_S[min(tries, len(_RETRY_S) - 1)])
                tries += 1
                continue
            if delivered or self.state in ("ended", "gone"):
                tries = 0
            if self.state in ("ended", "gone"):
                self.done.set()
                return
            await asyncio.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
            tries += 1

    async def _once(self) -> bool:
        splitter = Splitter()
        delivered = False
        last_words = b""
        argv = follow_argv(self._cli, self._container, self._resume.since(), follow=self._follow)
        async with self._link.stream(argv) as stream:
            self.state, self.why = "following", ""
            async for block in stream.blocks():
                whole = splitter.feed(block)
                for at in range(0, len(whole), SLICE_LINES):
                    lines = []
                    for line in whole[at : at + SLICE_LINES]:
                        if stamp_of(line):
                            if self._resume.fresh(line):
                                lines.append(line)
                        elif line.strip():
                            last_words = line
                    if lines:
                        delivered = True
                        self._sink(lines)
                        await asyncio.sleep(0)
            result = stream.result()
        rest = splitter.reset()
        if stamp_of(rest) and self._resume.fresh(rest):
            self._sink([rest])
        elif rest.strip():
            last_words = rest
        if result is not None and result.ok:
            self.state = "ended"
        elif b"o such container" in last_words or b"no container with name" in last_words:
            self.state = "gone"
        else:
            self.state = "interrupted"
        self.why = last_words[:300].decode("utf-8", "replace")
        return delivered
