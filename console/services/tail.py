"""Following one rank's log across lost connections: no line lost, none doubled, order kept."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from console.base.clock import Clock
from console.services.scripts import follow_argv
from console.transport.base import Link, TransportError, Trouble

# docker's word of a logging driver that keeps nothing on the node: asking again changes nothing.
NO_LOGS = b"does not support reading"
_STAMP_LIMIT = 40  # 2026-11-30T03:00:00.123456789Z; podman writes a zone, and both may write fewer digits
# The engine stamps stdout and stderr apart, so a line can carry an earlier stamp than the one before it. Resuming
# asks again for this long and drops what is already here, line by line.
OVERLAP_S = 5.0
_WINDOW_LINES = 200_000
# These many are remembered however old they are: a clock that was set back has the engine replay older ones.
_KEPT_LINES = 20_000
_SECOND = 19
_RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# Read, told apart and judged, a line costs some 0.1 ms, and all ranks' logs may come at once: after so many lines the
# rest of the console has its turn.
SLICE_LINES = 32
# Long lines cost by their length, up to 0.6 us a byte.
SLICE_BYTES = 32 << 10


def slices(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Lines in portions, each small enough to be worked through between two pictures; a line is never cut."""
    start = size = 0
    for at, line in enumerate(lines):
        if at > start and (at - start >= SLICE_LINES or size + len(line) > SLICE_BYTES):
            yield lines[start:at]
            start, size = at, 0
        size += len(line)
    if start < len(lines):
        yield lines[start:]


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
    ones are those that are held, also where the held copy had a secret masked.

    A node's clock may be set back: then the lines to come carry stamps before those that are held, and asking from the
    latest stamp would pass them by. What counts is the last line's own stamp."""

    def __init__(self, window: int = _WINDOW_LINES) -> None:
        self._recent: deque[bytes] = deque(maxlen=window)
        self._window = window
        self._last = b""
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
        start = (when - timedelta(seconds=OVERLAP_S)).strftime("%Y-%m-%dT%H:%M:%S")
        middle = self._recent[len(self._recent) // 2].decode("ascii", "replace")
        if len(self._recent) == self._window and middle > start:
            # More lines than are remembered came within the overlap: what comes again must be among those that are.
            return middle
        return start + _zone(self._last)

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
        recent = self._recent
        recent.append(key)
        if key[:_SECOND] == self._last[:_SECOND]:
            self._last = key
            return
        self._last = key
        if len(recent) <= _KEPT_LINES:
            return
        floor = _parse(key)
        if floor is not None:
            edge = _edge(floor)
            while len(recent) > _KEPT_LINES and recent[0] < edge:
                recent.popleft()


def stamp_of(line: bytes) -> bytes:
    """The engine's time stamp in front of a line, or nothing."""
    stamp = line[:_STAMP_LIMIT].split(b" ", 1)[0]
    return stamp if len(stamp) >= 20 and stamp[10:11] == b"T" and stamp[:4].isdigit() else b""


def _zone(stamp: bytes) -> str:
    """`Z`, or the offset that podman and nerdctl write on a node that is not set to UTC."""
    tail = stamp[-6:].decode("ascii", "replace")
    return tail if tail[:1] in ("+", "-") and tail[3:4] == ":" else "Z"


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
    (the container's log is complete), `gone` (the engine knows no such container), `unkept` (the engine keeps no log of
    it), else the transport's trouble. room: waited for before more is read, where the sink's lines have to go on to
    something slower."""

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
        room: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._link = link
        self._cli = cli
        self._container = container
        self._sink = sink
        self._clock = clock
        self._follow = follow
        self._resume = resume if resume is not None else Resume()
        self._room = room
        self.state = "waiting"
        self.why = ""
        self.cuts = 0
        self.done = asyncio.Event()
        self._ended_at = 0.0

    def ended_before(self, moment: float) -> bool:
        """Whether the log came to its end earlier than that, on the console's monotonic clock."""
        return self.state == "ended" and self.done.is_set() and self._ended_at < moment

    async def run(self) -> None:
        """Returns when the log is complete or there is none; reconnects for ever otherwise."""
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
                slow = error.trouble in (Trouble.SILENT, Trouble.HOST_KEY, Trouble.AUTH, Trouble.CONFIG, Trouble.SHELL)
                await asyncio.sleep(_RETRY_S[-1] if slow else _RETRY_S[min(tries, len(_RETRY_S) - 1)])
                tries += 1
                continue
            over = self.state in ("ended", "gone", "unkept")
            if delivered or over:
                tries = 0
            if over:
                self._ended_at = self._clock.monotonic()
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
                for part in slices(splitter.feed(block)):
                    lines = []
                    for line in part:
                        if stamp_of(line):
                            if self._resume.fresh(line):
                                lines.append(line)
                        elif line.strip():
                            last_words = line
                    if lines:
                        delivered = True
                        self._sink(lines)
                        await asyncio.sleep(0)
                        if self._room is not None:
                            await self._room()
            result = stream.result()
        rest = splitter.reset()
        if stamp_of(rest) and result is not None and result.ok:
            if self._resume.fresh(rest):  # the log is complete, and its last line has no end
                self._sink([rest])
        elif rest.strip() and not stamp_of(rest):
            last_words = rest
        if result is not None and result.ok:
            self.state = "ended"
        elif b"o such container" in last_words or b"no container with name" in last_words:
            self.state = "gone"
        elif NO_LOGS in last_words:
            self.state = "unkept"
        else:
            self.state = "interrupted"
        self.why = last_words[:300].decode("utf-8", "replace")
        return delivered
