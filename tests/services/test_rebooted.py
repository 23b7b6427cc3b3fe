"""A node that is started again while a boot lives on it: told once, dated, and of no boot that ended before."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from console.base.clock import Clock
from console.boot.events import BootFailed, BootOpened, Event, NodeBack, RankRef, StopEnded, StopStarted
from console.cluster.model import Cluster, Node
from console.services.follower import Follower
from console.services.keeper import Keeper
from console.services.tasks import Owner
from console.telemetry.sample import Sample

T = 1_796_000_000.0


class At:
    """A clock that is set."""

    now = T

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - T


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ([], True),
        ([BootFailed(T + 101, "rank 0 on dgx1 ended with exit code 1", 0, "dgx1")], True),  # it took the boot with it
        ([BootFailed(T + 20, "rank 0 on dgx1 ended with exit code 1", 0, "dgx1")], False),
        ([StopStarted(T + 20), StopEnded(T + 25, "stopped")], False),
    ],
)
async def test_a_reboot_is_in_the_journal_with_its_time(before: list[Event], told: bool) -> None:
    clock, heard = At(), list[Event]()
    refs = tuple(RankRef(r, f"dgx{r + 1}", f"nd-r{r}") for r in range(2))
    event = BootOpened(T, "d", 1, "seed", "Seed", "a", "dgx1", refs, T, 3600.0, 8000, "m", adopted=True)
    owner = Owner(lambda name, error: pytest.fail(f"{name}: {error}"))
    with ThreadPoolExecutor(1) as thread:
        follower = Follower(
            event,
            fleet=cast(Any, None),
            cluster=Cluster("c", "f", tuple(Node(r.node, r.node) for r in refs)),
            clock=cast(Clock, clock),
            owner=owner,
            keeper=Keeper(None, thread, lambda error: None),
            heard=lambda _name, what: heard.append(what),
            lines=lambda *_: None,
        )
        for second in (10.0, 100.0):
            clock.now = T + second
            follower.sampled(Sample("dgx2", 1, second, 900.0, 0.0, uptime_s=900.0, heard_at=clock.now))
        for one in before:
            follower.apply(one)
        clock.now = T + 300.0
        follower.sampled(Sample("dgx2", 1, 300.0, 25.0, 0.0, uptime_s=25.0, heard_at=clock.now, rebooted=True))
        await asyncio.sleep(0)
    backs = [e for e in heard if isinstance(e, NodeBack)]
    assert backs == ([NodeBack(T + 300, "dgx2", True, T + 275.0, T + 100.0)] if told else [])
    rank = follower.state.ranks[1]
    assert (rank.rebooted_at, rank.alive_at) == ((T + 275.0, T + 100.0) if told else (None, None))
