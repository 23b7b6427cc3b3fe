"""A launch that ended before its head and a stop whose console is gone: concluded where nobody goes on with it."""

from __future__ import annotations

import asyncio

import pytest

from console.boot.events import BootOpened, ContainerSeen, Event, RankRef, StopStarted
from console.boot.reduce import opened, reduce
from console.boot.state import BootState, Phase
from console.boot.words import expected_now
from console.services.left_half import ASK_EACH_S, HEAD_AFTER_S, NEVER_STARTED, LeftHalf
from console.services.tasks import Owner
from console.transport.base import TransportError, Trouble
from tests.services.fakes import ManualClock


class Boot:
    """Two workers of three run; what its LeftHalf concludes is added up."""

    def __init__(self, said: str | Exception, *events: Event) -> None:
        self.clock = ManualClock()
        self.said, self.asked = said, 0
        at = self.clock.wall()
        refs = tuple(RankRef(r, f"dgx{r + 1}" if r else "", f"nd-r{r}" if r else "") for r in range(3))
        begun = BootOpened(at, "d", 1, "seed", "Seed", "a", "dgx1", refs, at, 3600.0, 8000, "m", adopted=True)
        self.state = opened(begun)
        for event in (*(ContainerSeen(at, r, "running", started_at=at) for r in (1, 2)), *events):
            self.add(event)
        self.owner = Owner(lambda name, error: pytest.fail(f"{name}: {error}"))
        stops, launches = self.stops, self.launches
        self.half = LeftHalf(stops, launches, lambda: self.state, self.add, self.clock, self.owner)

    def add(self, event: Event) -> None:
        self.state = reduce(self.state, event)

    async def launches(self) -> str:
        self.asked += 1
        if isinstance(self.said, Exception):
            raise self.said
        return self.said

    async def stops(self, launched_at: float) -> str:
        assert launched_at == self.state.launched_at
        return await self.launches()

    async def seconds(self, count: float, *, say: tuple[str, ...] = ("dgx1",), others: bool = False) -> None:
        for _ in range(int(count)):
            self.clock.now += 1.0
            self.half.look(say, others_stop=others)
            await asyncio.sleep(0)
            await asyncio.sleep(0)


async def test_a_launch_that_ended_before_its_head_is_over() -> None:
    boot = Boot("")
    await boot.seconds(HEAD_AFTER_S - 1)
    assert boot.state.phase is Phase.BOOTING and boot.asked == 0
    await boot.seconds(2 * ASK_EACH_S + 5)
    assert (boot.state.phase, boot.state.failed_why, boot.state.failed_rank) == (Phase.FAILED, NEVER_STARTED, 0)
    assert boot.state.cause is not None and boot.state.cause.action.startswith("stop what it started")
    assert expected_now(boot.state, str) == ""
    await boot.owner.close()


@pytest.mark.parametrize("said", ["ann@desk, launching flash", TransportError(Trouble.LOST, "cut", node="dgx1")])
async def test_while_somebody_may_launch_nothing_is_concluded(said: str | Exception) -> None:
    boot = Boot(said)
    await boot.seconds(HEAD_AFTER_S * 3)
    assert boot.asked > 3 and boot.state.phase is Phase.BOOTING
    await boot.owner.close()


async def test_nothing_is_concluded_of_a_head_that_nobody_could_see_or_that_runs() -> None:
    boot = Boot("")
    await boot.seconds(HEAD_AFTER_S * 3, say=("dgx2", "dgx3"))
    boot.add(ContainerSeen(boot.clock.wall(), 0, "running", started_at=boot.clock.wall(), node="dgx1"))
    await boot.seconds(HEAD_AFTER_S * 3)
    assert boot.asked == 0 and boot.state.phase is Phase.BOOTING
    await boot.owner.close()


async def test_whoever_looks_once_is_told_at_once_where_it_is_overdue() -> None:
    boot = Boot("")
    await boot.half.at_once(("dgx1",))
    assert boot.state.phase is Phase.BOOTING
    boot.clock.now += HEAD_AFTER_S + 1
    await boot.half.at_once(("dgx1",))
    assert boot.state.failed_why == NEVER_STARTED


async def test_a_stop_whose_console_gave_the_controls_back_has_ended() -> None:
    boot = Boot("ann@desk, stopping since 04:00:00 UTC", StopStarted(1_800_000_000.0, "ann@desk"))
    await boot.seconds(60, others=True)
    assert boot.asked >= 5 and not boot.state.half_stopped
    boot.said = ""
    await boot.seconds(2 * ASK_EACH_S + 5, others=True)
    ended: BootState = boot.state
    assert ended.half_stopped and ended.stop_result == "partly"
    await boot.owner.close()
