"""What the nodes said of themselves, kept for a while: asked whole, or what passes by itself asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from console.base.absent import Absent
from console.base.clock import Clock
from console.cluster.facts import NodeFacts
from console.cluster.launch_facts import LaunchFacts
from console.cluster.model import Cluster
from console.plan.launch_ask import asks
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

Facts = Mapping[str, NodeFacts | Absent]


class FactsBook:
    """The facts for one recipe at a time, as the hub's plans and launches need them. One question at a time."""

    def __init__(self, fleet: Fleet, cluster: Cluster, clock: Clock) -> None:
        self._fleet = fleet
        self._cluster = cluster
        self._clock = clock
        self._facts: Facts = {}
        self._at = -1e9
        self._for: tuple[str, str, str] = ("", "", "")
        self._lock = asyncio.Lock()

    def forget(self) -> None:
        """What was said does not hold any more."""
        self._at = -1e9

    async def ask(self, recipe: Recipe, *, fresh_s: float) -> Facts:
        """What is remembered where it is younger than `fresh_s` seconds and every node said it, else asked whole."""
        async with self._lock:
            if not self._holds(recipe, fresh_s):
                await self._ask(recipe)
            return self._facts

    async def renew(self, recipe: Recipe, *, fresh_s: float) -> Facts:
        """As `ask`, and what passes by itself asked again in any case. A node that booted meanwhile is asked whole."""
        async with self._lock:
            if not self._holds(recipe, fresh_s):
                await self._ask(recipe)
                return self._facts
            now = await self._gather(recipe, only=(*PASSING, *PASSING_AT_LAUNCH))
            whole = {name: renewed(old, now[name]) for name, old in self._facts.items()}
            if any(facts is None for facts in whole.values()):
                await self._ask(recipe)
            else:
                self._facts = {name: facts for name, facts in whole.items() if facts is not None}
            return self._facts

    def _holds(self, recipe: Recipe, fresh_s: float) -> bool:
        young = self._clock.monotonic() - self._at < fresh_s
        return young and _key(recipe) == self._for and not any(isinstance(f, Absent) for f in self._facts.values())

    async def _ask(self, recipe: Recipe) -> None:
        self._facts = await self._gather(recipe)
        self._at = self._clock.monotonic()
        self._for = _key(recipe)

    async def _gather(self, recipe: Recipe, only: tuple[str, ...] = ()) -> Facts:
        return await gather_facts(
            self._fleet,
            self._cluster,
            [recipe.docker_image],
            timeout=FACTS_TIMEOUT_S,
            wall=self._clock.wall,
            asks=asks(recipe, self._cluster),
            only=only,
        )


def _key(recipe: Recipe) -> tuple[str, str, str]:
    return recipe.docker_image, recipe.file, recipe.digest


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
