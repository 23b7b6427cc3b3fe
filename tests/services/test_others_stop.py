"""An end that another console brings about is told as its stop, any other end as what it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from console.services.others_stop import ASK_AGAIN_S, OthersStop, stops
from console.services.tasks import Owner
from console.telemetry.sample import Containers
from console.transport.base import TransportError, Trouble
from tests.services.fakes import ManualClock

AT = 1_796_004_000.0 + 2 * 3600  # some day, 04:00:00 UTC
BEFORE, AFTER = AT - 600, AT + 5


@pytest.mark.parametrize(
    ("holder", "launched_at", "expected"),
    [
        ("ann@desk, stopping since 04:00:00 UTC", BEFORE, True),
        ("ann@desk, stopping since 04:00:00 UTC", AFTER, True),
        ("ann@desk, restarting since 04:00:00 UTC", BEFORE, True),
        ("ann@desk, restarting since 04:00:00 UTC", AFTER, False),
        ("ann@desk, restarting since 00:00:01 UTC", AT - 4 * 3600 - 60, True),
        ("ann@desk, launching stopping since 04:00:00 UTC", BEFORE, False),
        ("ann@desk, running the night x since 04:00:00 UTC", BEFORE, False),
        ("somebody who does not say", BEFORE, False),
        ("", BEFORE, False),
    ],
)
def test_who_stops_what(holder: str, launched_at: float, expected: bool) -> None:
    assert AT % 86400 == 4 * 3600
    assert stops(holder, launched_at) is expected


class Asked:
    def __init__(self, said: str | Exception) -> None:
        self.said = said
        self.times = 0
        self.go = asyncio.Event()

    async def __call__(self, launched_at: float) -> str:
        self.times += 1
        await self.go.wait()
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def answer(why: str) -> Containers:
    return Containers((), "", why)


@pytest.mark.parametrize(
    "said", ["ann@desk, stopping since 04:00:00 UTC", "", TransportError(Trouble.LOST, "cut", node="dgx1")]
)
async def test_what_comes_meanwhile_waits_for_the_word(said: str | Exception) -> None:
    asked, clock, told = Asked(said), ManualClock(), asyncio.Event()
    heard: list[tuple[str, dict[str, str]]] = []

    def tell(by: str, kept: Mapping[str, Containers]) -> None:
        heard.append((by, {node: str(one.why) for node, one in kept.items()}))
        told.set()

    failed: list[str] = []
    owner = Owner(lambda name, error: failed.append(f"{name}: {error}"))
    try:
        others = OthersStop(asked, clock, owner)
        assert not others.keeps("dgx1", answer("1"), BEFORE, ends=False, told=tell), "nothing ended"
        assert others.keeps("dgx1", answer("2"), BEFORE, ends=True, told=tell)
        assert others.keeps("dgx2", answer("3"), BEFORE, ends=True, told=tell)
        assert others.keeps("dgx1", answer("4"), BEFORE, ends=False, told=tell), "the last word of each node counts"
        asked.go.set()
        async with asyncio.timeout(10):
            await told.wait()
        assert heard == [(said if isinstance(said, str) else "", {"dgx1": "4", "dgx2": "3"})]
        assert not others.keeps("dgx3", answer("5"), BEFORE, ends=True, told=tell), "one end brings others about"
        clock.now += ASK_AGAIN_S
        assert others.keeps("dgx3", answer("6"), BEFORE, ends=True, told=tell)
    finally:
        await owner.close()
    assert failed == []
