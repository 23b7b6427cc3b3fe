"""Never two launches, whatever the timing: consoles that launch, ask, take over, freeze and die, in virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from types import SimpleNamespace
from typing import cast

import pytest

from console.base.errors import NightdeckError
from console.cluster.model import Cluster, Node
from console.plan.model import Plan
from console.services.controls import Controls
from console.services.launch import Launch
from tests.services.fakes import ManualClock
from tests.services.lease_nodes import Machine, VirtualConsole
from tests.services.virtual import run_virtually

NODES = ("dgx1", "dgx2", "dgx3")
CLUSTER = Cluster(name="c", file="", nodes=tuple(Node(name=n, host=n) for n in NODES))


def plan_of(deployment: str) -> Plan:
    ranks = tuple(
        SimpleNamespace(
            rank=i,
            node=n,
            container=f"r{i}",
            is_head=i == 0,
            mkdirs=(),
            argv=("docker", "run", deployment),
            engine_argv=(),
            env={},
        )
        for i, n in enumerate(NODES)
    )
    return cast(Plan, SimpleNamespace(ranks=ranks, deployment=deployment, secrets=frozenset()))


class Operator:
    """Somebody at a console, who wants a deployment of their own and does not always wait for others."""

    def __init__(self, name: str, machines: list[Machine], rng: random.Random) -> None:
        self.name = name
        self.rng = rng
        self.console = VirtualConsole(machines)
        self.controls = Controls(
            self.console,
            NODES,
            name,
            ManualClock(),
            told=lambda _severity, _text: None,
            acted=lambda _what, _detail: None,
            changed=lambda: None,
        )
        self.launched = 0

    async def sit(self) -> None:
        for turn in range(3):
            await asyncio.sleep(self.rng.random() * 6.0)
            how = self.rng.choice(("launch", "launch", "take over", "lasting", "ask"))
            try:
                if how in ("lasting", "ask"):
                    await (self.controls.hold() if how == "lasting" else self.controls.ask())
                    await asyncio.sleep(self.rng.random() * 4.0)
                await self.launch(f"{self.name}{turn}", take_over=how == "take over")
                if how in ("lasting", "ask"):
                    await self.controls.release()
            except NightdeckError:
                continue
        await self.controls.close()

    async def launch(self, deployment: str, *, take_over: bool) -> None:
        """What the hub does: the controls, a census, whatever lives is in the way, then a start on every node."""
        async with self.controls.during("launching", take_over=take_over) as lease:
            if sorted(lease.held) != list(NODES):
                return  # a node that does not answer is none to launch on
            there = await self.census()
            if there and not take_over:
                return
            for node in NODES:
                await self.console.link(node).run(["remove", *there], timeout=30.0)
            if await self.census():
                return
            launch = Launch(
                plan_of(deployment), self.console, CLUSTER, ManualClock(), lambda _event: None, lambda: lease.fences
            )
            await launch.run()
            self.launched += 1

    async def census(self) -> set[str]:
        rows = await asyncio.gather(*(self.console.link(n).run(["census"], timeout=30.0) for n in NODES))
        return {d for row in rows for d in json.loads(row.stdout)}


async def _mishaps(operator: Operator, sitting: asyncio.Task[None], rng: random.Random) -> None:
    """One console freezes for a while, one dies in the middle of what it does, one is told to abort."""
    await asyncio.sleep(rng.random() * 12.0)
    match rng.choice(("nothing", "freeze", "freeze", "die", "abort")):
        case "freeze":
            operator.console.moving.clear()
            await asyncio.sleep(rng.choice((2.0, 20.0, 60.0)) * rng.random())
            operator.console.moving.set()
        case "die":
            operator.console.dead = True
            sitting.cancel()
        case "abort":
            sitting.cancel()


async def _scene(seed: int, *, fence: bool = True, run_lock: bool = True) -> tuple[set[str], int]:
    """Deployments that lived at once on any node, and how many launches there were."""
    rng = random.Random(seed)
    machines = [Machine(n, rng, fence=fence, run_lock=run_lock) for n in NODES]
    operators = [Operator(name, machines, rng) for name in ("ann", "bob", "cy")]
    sitting = [asyncio.create_task(o.sit()) for o in operators]
    mishaps = [asyncio.create_task(_mishaps(o, s, rng)) for o, s in zip(operators, sitting, strict=True)]
    ends = await asyncio.gather(*sitting, *mishaps, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end
    await asyncio.sleep(60.0)
    return set().union(*(m.most for m in machines)), sum(o.launched for o in operators)


@pytest.mark.parametrize("rounds", [100, pytest.param(3000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_never_two_launches_whatever_the_timing(rounds: int) -> None:
    launched = 0
    for seed in range(rounds):
        at_once, some = run_virtually(_scene(seed))
        assert not at_once, f"seed {seed}: {sorted(at_once)} lived at once"
        launched += some
    assert launched >= rounds  # the controls are of use: somebody gets to launch


@pytest.mark.parametrize("without", ["fence", "run_lock"])
def test_each_part_of_the_node_s_program_is_needed(without: str) -> None:
    """Without it the same scenes do end with two launches: the test above could fail."""
    scenes = (run_virtually(_scene(seed, **{without: False})) for seed in range(400))
    assert any(at_once for at_once, _ in scenes)
