"""One node's watch where what hears its samples fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib

import pytest

from console.cluster.model import Node
from console.services import node_watch
from console.services.node_watch import FAULT, NodeWatch
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
