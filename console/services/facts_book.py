"""What the nodes said of themselves, kept for a while: asked whole, or what passes by itself asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from console.base.absent import Absent
from console.base.clock import Clock
from console.cluster.facts import NodeFacts
from console.cluster.launch_facts import LaunchFacts
from console.cluster.model import Cluster
from console.plan.launch_ask import asks
from console.plan.references import found_id
from console.recipe.model import Recipe
from console.services.facts import gather_facts
from console.transport.base import Fleet

FACTS_TIMEOUT_S: Final = 20.0
# What the end of a deployment changes: memory, ports, processes, containers. The rest holds for the moments of a stop.
PASSING: Final = ("boot_id", "uptime_s", "mem_available_bytes", "listening_ports")
PASSING_AT_LAUNCH: Final = (
    *("engines", "watchdogs", "consoles", "containers", "gpu_holders"),
    *("swap_total_bytes", "swap_free_bytes", "cma_total_bytes", "cma_free_bytes", "page_cache_bytes"),
    *("shm_total_bytes", "shm_free_bytes", "shm_leftovers"),
)
# What is asked of a node outside the launch, and only where a node in it lacks the image: who has it to give.
AT_A_GIVER: Final = ("image_ids", "storage_driver", "images")

Facts = Mapping[str, NodeFacts | Absent]


class FactsBook:
    """The facts for one recipe and its nodes at a time, as the hub's plans and launches need them. One question at a
    time. Of a large cluster only the nodes of the launch are asked: a question costs a node some processes, and each
    way to another node two more. told: how many of how many have answered while they are asked, None after it."""

    def __init__(
        self,
        fleet: Fleet,
        cluster: Cluster,
        clock: Clock,
        told: Callable[[tuple[int, int] | None], None] = lambda _looking: None,
    ) -> None:
        self._told = told
        self._fleet = fleet
        self._cluster = cluster
        self._clock = clock
        self._facts: Facts = {}
        self._at = -1e9
        self._for: tuple[object, ...] = ()
        self._lock = asyncio.Lock()

    def forget(self) -> None:
        """What was said does not hold any more."""
        self._at = -1e9

    async def ask(self, recipe: Recipe, *, fresh_s: float, ranks: Sequence[str] | None = None) -> Facts:
        """What is remembered where it is younger than `fresh_s` seconds and every node said it, else asked whole.
        ranks: the names of the launch's nodes; None: all of the cluster."""
        async with self._lock:
            if not self._holds(recipe, ranks, fresh_s):
                await self._ask(recipe, ranks)
            return self._facts

    async def renew(self, recipe: Recipe, *, fresh_s: float, ranks: Sequence[str] | None = None) -> Facts:
        """As `ask`, and what passes by itself asked again in any case. A node that booted meanwhile is asked whole."""
        async with self._lock:
            if not self._holds(recipe, ranks, fresh_s):
                await self._ask(recipe, ranks)
                return self._facts
            now = await self._gather(recipe, ranks, only=(*PASSING, *PASSING_AT_LAUNCH))
            whole = {name: renewed(old, now[name]) if name in now else old for name, old in self._facts.items()}
            if any(facts is None for facts in whole.values()):
                await self._ask(recipe, ranks)
            else:
                self._facts = {name: facts for name, facts in whole.items() if facts is not None}
            return self._facts

    def _holds(self, recipe: Recipe, ranks: Sequence[str] | None, fresh_s: float) -> bool:
        young = self._clock.monotonic() - self._at < fresh_s
        asked = [self._facts.get(name) for name in self._names(ranks)]
        return young and _key(recipe, ranks) == self._for and all(isinstance(f, NodeFacts) for f in asked)

    def _names(self, ranks: Sequence[str] | None) -> list[str]:
        return [n.name for n in self._cluster.nodes if ranks is None or n.name in ranks]

    async def _ask(self, recipe: Recipe, ranks: Sequence[str] | None) -> None:
        facts = dict(await self._gather(recipe, ranks))
        others = [n.name for n in self._cluster.nodes if n.name not in facts]
        if others and any(isinstance(f, NodeFacts) and not found_id(recipe.docker_image, f) for f in facts.values()):
            facts |= await self._gather(recipe, others, only=AT_A_GIVER)
        self._facts = facts
        self._at = self._clock.monotonic()
        self._for = _key(recipe, ranks)

    async def _gather(self, recipe: Recipe, ranks: Sequence[str] | None, only: tuple[str, ...] = ()) -> Facts:
        names = self._names(ranks)
        answered: set[str] = set()

        def heard(node: str) -> None:
            answered.add(node)
            self._told((len(answered), len(names)))

        self._told((0, len(names)))
        try:
            return await gather_facts(
                self._fleet,
                self._cluster,
                [recipe.docker_image],
                timeout=FACTS_TIMEOUT_S,
                nodes=ranks,
                wall=self._clock.wall,
                asks=asks(recipe, self._cluster, ranks),
                only=only,
                heard=heard,
            )
        finally:
            self._told(None)


def _key(recipe: Recipe, ranks: Sequence[str] | None) -> tuple[object, ...]:
    return recipe.docker_image, recipe.file, recipe.digest, None if ranks is None else tuple(ranks)


def renewed(old: NodeFacts | Absent, new: NodeFacts | Absent) -> NodeFacts | Absent | None:
    """The old facts with what passes as it is now; None where the old ones do not hold at all: another boot."""
    if isinstance(old, Absent) or isinstance(new, Absent):
        return new
    if old.boot_id != new.boot_id:
        return None
    launch: LaunchFacts | Absent = new.launch
    if not isinstance(launch, Absent) and not isinstance(old.launch, Absent):
        launch = replace(old.launch, **{name: getattr(launch, name) for name in PASSING_AT_LAUNCH})
    return replace(old, at=new.at, launch=launch, **{name: getattr(new, name) for name in PASSING})
