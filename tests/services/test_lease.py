"""One holds the controls: real locks on nodes, whatever the timing, and none that outlives its holder."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from pathlib import Path

import pytest

from console.services.lease import Lease, LeaseHeld
from console.transport.base import TransportError, Trouble
from tests.services.fakes import FakeFleet, FakeLink
from tests.services.machines import Machines

NODES = ("dgx1", "dgx2", "dgx3")


async def test_the_second_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    one, two = Machines(tmp_path, NODES), Machines(tmp_path, NODES)
    async with Lease(one, NODES, "ann@desk, launching glm", since="02:58") as lease:
        assert sorted(lease.held) == sorted(NODES)
        with pytest.raises(LeaseHeld) as refused:
            async with Lease(two, NODES, "bob@couch"):
                raise AssertionError("two hold the controls")
        assert refused.value.node == "dgx1"
        assert refused.value.holder == "ann@desk, launching glm since 02:58"
        assert "[" not in str(refused.value)
    async with Lease(two, NODES, "bob@couch") as again:
        assert len(again.held) == 3


async def test_a_refused_lease_keeps_nothing(tmp_path: Path) -> None:
    """dgx3 is held by a console of another cluster: whoever wants all three gets none."""
    one, two = Machines(tmp_path, NODES), Machines(tmp_path, NODES)
    async with Lease(one, ["dgx3"], "ann@desk"):
        with pytest.raises(LeaseHeld, match="dgx3"):
            async with Lease(two, NODES, "bob@couch"):
                pass
        async with Lease(two, ["dgx1", "dgx2"], "bob@couch") as free:
            assert len(free.held) == 2


async def test_a_killed_holder_leaves_no_lock_and_its_console_takes_it_up_again(tmp_path: Path) -> None:
    one, two = Machines(tmp_path, NODES), Machines(tmp_path, NODES)
    changed = asyncio.Event()
    async with Lease(one, ["dgx1"], "ann@desk", changed=changed.set) as lease:
        before = lease.fences["dgx1"]
        os.kill(int(before[0]), signal.SIGKILL)
        async with asyncio.timeout(20):
            while lease.lost or lease.fences.get("dgx1", before) == before:
                changed.clear()
                await changed.wait()
        assert lease.held == ("dgx1",) and not lease.taken_by
        with pytest.raises(LeaseHeld):
            async with Lease(two, ["dgx1"], "bob@couch"):
                pass


async def test_a_killed_holder_whose_lock_went_to_another_has_lost_it(tmp_path: Path) -> None:
    one, two = Machines(tmp_path, NODES), Machines(tmp_path, NODES)
    changed = asyncio.Event()
    async with Lease(one, ["dgx1"], "ann@desk", changed=changed.set) as lease:
        async with Lease(two, ["dgx1"], "bob@couch, at the console", since="03:01", mode="take"):
            async with asyncio.timeout(20):
                while not lease.taken_by:
                    changed.clear()
                    await changed.wait()
        assert lease.taken_by == "bob@couch, at the console since 03:01"


async def test_two_names_of_one_machine_are_one_lock(tmp_path: Path) -> None:
    fleet = Machines(tmp_path, ["a", "b"])
    fleet._links["b"]._folder = tmp_path / "a"
    async with Lease(fleet, ["a", "b"], "ann@desk") as lease:
        assert sorted(lease.held) == ["a", "b"]


async def test_nodes_that_cannot_be_asked_are_named() -> None:
    dead = FakeLink("dgx1")
    fleet = FakeFleet([dead])
    async with Lease(fleet, ["dgx1"], "ann@desk") as lease:
        assert (lease.held, lease.missing) == ((), {"dgx1": "no more streams"})
    assert TransportError(Trouble.REFUSED, "x", node="n").trouble is Trouble.REFUSED


async def test_who_may_hold_anything_is_text_alone(tmp_path: Path) -> None:
    """A name is data: nothing in it is read by the node's shell, and no line of it passes for another."""
    fleet = Machines(tmp_path, NODES[:1])
    evil = "$(touch owned) `touch owned`\nheld\n'; touch owned; '"
    async with Lease(fleet, ["dgx1"], evil):
        with pytest.raises(LeaseHeld, match="touch owned"):
            async with Lease(Machines(tmp_path, NODES[:1]), ["dgx1"], "bob"):
                pass
    assert not list(tmp_path.rglob("owned")) and not Path("owned").exists()  # noqa: ASYNC240


async def _race(root: Path, rng: random.Random) -> tuple[int, int]:
    """Several consoles at once, cancelled and killed at random: how many were inside at most, and how often at all."""
    inside, most, entered = 0, 0, 0

    async def console(name: str, delay: float, stay: float, cancel_after: float | None) -> None:
        nonlocal inside, most, entered

        async def work() -> None:
            nonlocal inside, most, entered
            await asyncio.sleep(delay)
            try:
                async with Lease(Machines(root, NODES), NODES, name) as lease:
                    assert len(lease.held) == 3
                    inside, entered = inside + 1, entered + 1
                    most = max(most, inside)
                    try:
                        await asyncio.sleep(stay)
                    finally:
                        inside -= 1
            except LeaseHeld:
                return

        task = asyncio.create_task(work())
        if cancel_after is not None:
            await asyncio.sleep(cancel_after)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()  # type: ignore[misc]

    await asyncio.gather(
        *(
            console(
                f"c{n}", rng.random() * 0.03, rng.random() * 0.03, rng.random() * 0.05 if rng.random() < 0.3 else None
            )
            for n in range(3)
        )
    )
    return most, entered


@pytest.mark.parametrize("rounds", [15, pytest.param(100, marks=pytest.mark.slow)])
async def test_never_two_inside_whatever_the_timing(tmp_path: Path, rounds: int) -> None:
    rng = random.Random(rounds)
    total = 0
    for n in range(rounds):
        most, entered = await _race(tmp_path / str(n), rng)
        assert most <= 1, f"round {n}: {most} consoles held the controls at once"
        total += entered
    assert total >= rounds // 2  # the lock is of use: somebody gets in


async def test_it_costs_little_on_open_connections(tmp_path: Path) -> None:
    fleet = Machines(tmp_path, [f"n{i}" for i in range(8)])
    started = time.perf_counter()
    async with Lease(fleet, fleet.names, "ann@desk"):
        took = time.perf_counter() - started
    assert took < 3.0  # eight processes of this one machine; a node has its own cores
