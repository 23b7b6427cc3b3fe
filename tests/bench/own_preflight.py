"""nightdeck's preflight: every fact of eight nodes, with and without open connections, and with nodes that hang."""

from __future__ import annotations

import asyncio
import time

from console.services.facts_book import FACTS_TIMEOUT_S
from tests.bench.ground import Ground
from tests.bench.measure import Measure, Unmeasurable
from tests.bench.own import RECIPE, nightdeck
from tests.bench.own_hub import gone, hub, watched

HUNG = (3, 6)


async def warm(ground: Ground) -> float:
    """The console is open: from the key to the findings."""
    start = time.perf_counter()
    plan = await hub().preflight(RECIPE)
    took = time.perf_counter() - start
    if any(f.code == "unreachable" for f in plan.findings):
        raise Unmeasurable("a node did not answer")
    return took


async def cold(ground: Ground) -> float:
    """From the prompt and back to it."""
    seconds, code, _, said = await nightdeck(ground, "preflight", RECIPE)
    if code not in (0, 1):  # 1: the bed's small hosts are blocked, which is an answer
        raise Unmeasurable(f"`nightdeck preflight` ended with {code}: {said.strip()[-120:]}")
    return seconds


async def hung(ground: Ground) -> float:
    """Two nodes stand still, their connections open: no later than the deadline."""
    start = time.perf_counter()
    await hub().preflight(RECIPE)
    took = time.perf_counter() - start
    if took > FACTS_TIMEOUT_S + 1:
        raise Unmeasurable(f"{took:.1f} s, which is beyond the deadline of {FACTS_TIMEOUT_S:.0f} s")
    return took


async def watched_and_frozen(ground: Ground) -> None:
    await watched(ground)
    for number in HUNG:
        await asyncio.to_thread(ground.bed[number].freeze)


async def thawed(ground: Ground) -> None:
    for number in HUNG:
        await asyncio.to_thread(ground.bed[number].thaw)
    await gone(ground)


PREFLIGHT = (
    Measure("nightdeck, console open: preflight", warm, watched, gone),
    Measure("nightdeck preflight, from the prompt", cold),
    Measure(f"nightdeck, console open, two nodes hung (deadline {FACTS_TIMEOUT_S:.0f} s)", hung, watched_and_frozen,
            thawed, most=2),
)  # fmt: skip
