"""What a node prints where its probe should run: the reason for its loss, and nothing that steers a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from console.cluster.model import Node
from console.services.node_watch import NodeWatch
from console.transport.base import Completed, Stream
from tests.services.fakes import FakeLink, FakeStream, ManualClock

SAID = b"noise\n\x1b]0;owned\x07\x9b2J\xc2\x9b3J\xe2\x80\xaeno module \x1b[31mjson" + b"x" * 5000 + b"\n"


class NoProbe(FakeLink):
    @asynccontextmanager
    async def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AsyncIterator[Stream]:
        yield FakeStream([], Completed(1, b"", SAID))


async def test_its_last_words_are_clean_and_short() -> None:
    told: list[str] = []
    changed = asyncio.Event()

    def hook(trouble: str, why: str) -> None:
        told.append(why)
        changed.set()

    watch = NodeWatch(
        Node("n1", "n1"), NoProbe("n1"), "", ManualClock(), heard=lambda sample: None, trouble_changed=hook
    )
    task = asyncio.create_task(watch.run())
    async with asyncio.timeout(20):
        await changed.wait()
    task.cancel()
    assert "the probe ended: " in told[0] and "no module json" in told[0]
    assert told[0].isprintable() and len(told[0]) < 300
