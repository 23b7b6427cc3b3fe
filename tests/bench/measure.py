"""A measure: one async function that returns seconds, and what must be so before it and after it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.bench.ground import Ground
from tests.bench.table import Series

Step = Callable[[Ground], Awaitable[None]]


class Unmeasurable(Exception):
    """This measure cannot be taken here; the text says why and stands in the table."""


async def nothing(ground: Ground) -> None:
    """No preparation."""


@dataclass(frozen=True, slots=True)
class Measure:
    """take: does the work and returns its wall seconds; before and after are not counted.

    most: rounds at most, for the slow ones. limit: the measure that others of its table are compared with.
    """

    name: str
    take: Callable[[Ground], Awaitable[float]]
    before: Step = nothing
    after: Step = nothing
    most: int = 100
    limit: bool = False


async def series(measure: Measure, ground: Ground, rounds: int) -> Series:
    """Take a measure some rounds; the clean-up runs also when a round fails."""
    figures = Series(measure.name)
    for _ in range(min(rounds, measure.most)):
        try:
            await measure.before(ground)
            cpu = _cpu()
            seconds = await measure.take(ground)
            figures.cpu.append(_cpu() - cpu)
            figures.seconds.append(seconds)
        except Unmeasurable as reason:
            figures.why_not = str(reason)
            break
        finally:
            await measure.after(ground)
    return figures


def _cpu() -> float:
    """CPU seconds of this process and of the children that it has waited for (ssh, nightdeck)."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
