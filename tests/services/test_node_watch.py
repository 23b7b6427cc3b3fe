"""One node's watch where what hears its samples fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections.abc import AsyncIterator

import pytest

from console.cluster.model import Node
from console.services import node_watch
from console.services.node_watch import FAULT, QUIET, NodeWatch
from console.telemetry.frames import Frame, FrameReader
from console.telemetry.freshness import LATE_S, LOST_S
from console.telemetry.sample import Sample
from console.transport.base import Completed
from tests.services.fakes import FakeLink, FakeStream, ManualClock
from tests.telemetry.test_sampler import frame


def line(seq: int) -> bytes:
    body = json.dumps(frame(seq, float(seq)).data).encode()
    return b"ND1 %d %d %08x " % (seq, len(body), zlib.crc32(body)) + body + b"\n"


async def test_a_node_stays_watched_when_its_listener_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_watch, "_RETRY_S", (0.0,))
    link = FakeLink("dgx1", streams=[FakeStream([line(n), line(n + 1)], Completed(0, b"", b"")) for n in (1, 3, 5)])
    heard: list[Sample] = []
    troubles: list[tuple[str, str]] = []
    again = asyncio.Event()

    def hear(sample: Sample) -> None:
        heard.append(sample)
        if len(heard) == 1:
            raise ValueError("min() arg is an empty sequence")
        again.set()

    watch = NodeWatch(
        Node("dgx1", "dgx1"), link, b"", ManualClock(), heard=hear, trouble_changed=lambda *said: troubles.append(said)
    )
    task = asyncio.create_task(watch.run())
    try:
        async with asyncio.timeout(20):
            await again.wait()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert troubles[0] == (
        FAULT,
        "this console failed over what the node said: ValueError: min() arg is an empty sequence",
    )
    assert troubles[1] == ("", ""), "the next sample takes it back"
    assert len(heard) >= 2


class Silent(FakeStream):
    """Says what it has, and then nothing more, as a node whose cable was pulled."""

    async def blocks(self) -> AsyncIterator[bytes]:
        async for piece in super().blocks():
            yield piece
        await asyncio.Event().wait()


async def test_a_node_that_went_quiet_is_told_of_once_when_it_is_lost_and_taken_back() -> None:
    clock = ManualClock()
    heard = asyncio.Event()
    troubles: list[tuple[str, str]] = []
    link = FakeLink("dgx1", streams=[Silent([line(1)], Completed(0, b"", b""))])
    watch = NodeWatch(
        Node("dgx1", "dgx1"), link, b"", clock,
        heard=lambda _: heard.set(), trouble_changed=lambda *said: troubles.append(said),
    )  # fmt: skip
    watch.overdue(clock.now)
    assert troubles == [], "a node that never answered is another matter"
    task = asyncio.create_task(watch.run())
    try:
        async with asyncio.timeout(20):
            await heard.wait()
        for passed, told in ((LATE_S, 0), (LOST_S - 0.1, 0), (LOST_S, 1), (LOST_S + 1, 1)):
            watch.overdue(clock.now + passed)
            assert len(troubles) == told, passed
        word, why = troubles[0]
        assert word == QUIET and "not broken" in why and "dead" not in why
        view = watch.view(clock.now + LOST_S + 1, 3)
        assert (view.state, view.trouble, view.rank) == ("lost", QUIET, 3)
        watch._take(next(f for f in FrameReader().feed(line(2)) if isinstance(f, Frame)))
        assert troubles[1:] == [("", "")]
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
