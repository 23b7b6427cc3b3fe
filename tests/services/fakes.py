"""Nodes that answer from a script: what services are tested against where no real transport is needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from console.transport.base import ByteChannel, Completed, Stream, TransportError, Trouble


class ManualClock:
    """A clock that a test moves."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self.now = wall

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@dataclass
class FakeStream:
    pieces: Sequence[bytes]
    end: Completed | TransportError

    async def blocks(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            await asyncio.sleep(0)
            yield piece
        if isinstance(self.end, TransportError):
            raise self.end

    async def send(self, data: bytes) -> None:
        raise AssertionError("not interactive")

    def result(self) -> Completed | None:
        return self.end if isinstance(self.end, Completed) else None


Runner = Callable[[Sequence[str]], Completed | TransportError]


@dataclass
class FakeLink:
    """`answer` decides what a command says; `streams` are given in turn. Every argv is remembered."""

    name: str
    answer: Runner = lambda argv: Completed(0, b"", b"")
    streams: list[FakeStream] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)
    delay: asyncio.Event | None = None

    @property
    def node(self) -> str:
        return self.name

    @property
    def connected(self) -> bool:
        return True

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20) -> Completed:
        self.asked.append(list(argv))
        if self.delay is not None:
            await self.delay.wait()
        answer = self.answer(argv)
        if isinstance(answer, TransportError):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AsyncIterator[Stream]:
        self.asked.append(list(argv))
        if not self.streams:
            raise TransportError(Trouble.REFUSED, "no more streams", node=self.name)
        yield self.streams.pop(0)

    async def open_tcp(self, host: str, port: int, *, timeout: float) -> ByteChannel:
        raise TransportError(Trouble.REFUSED, "connection refused", node=self.name)

    async def connect(self, *, timeout: float) -> None:
        return None

    async def close(self) -> None:
        return None


class FakeFleet:
    def __init__(self, links: Sequence[FakeLink]) -> None:
        self.links = {link.name: link for link in links}

    def link(self, node: str) -> FakeLink:
        return self.links[node]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.links)

    async def close(self) -> None:
        return None
