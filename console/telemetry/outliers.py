"""Which node is the worst in a column, and which stand apart from all the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from console.base.absent import Absent
from console.telemetry.sample import Float

# Makes the median absolute deviation comparable with a standard deviation (normal distribution).
_MAD_SCALE: Final = 1.4826
MIN_NODES: Final = 4


@dataclass(frozen=True, slots=True)
class Column:
    """worst: the node with the worst value, None where all are equal or unknown. outliers: nodes apart, worst first.

    median: of the known values; absent where none is known."""

    worst: str | None
    median: Float
    outliers: tuple[str, ...] = ()


def column(
    values: Mapping[str, Float], *, bad: Literal["low", "high"], min_spread: float, strength: float = 4.0
) -> Column:
    """values: by node. bad: which end is the bad one. An outlier is further than `strength` deviations from the median
    on the bad side, and at least `min_spread` (in the column's unit: a spread below it never matters)."""
    known = {node: v for node, v in values.items() if not isinstance(v, Absent)}
    if not known:
        return Column(None, Absent("no node tells it"))
    sign = 1.0 if bad == "high" else -1.0
    middle = median(known.values())
    order = sorted(known, key=lambda node: (-sign * known[node], node))
    worst = order[0] if known[order[0]] != known[order[-1]] else None
    if len(known) < MIN_NODES:
        return Column(worst, middle)
    spread = _MAD_SCALE * median(abs(v - middle) for v in known.values())
    limit = max(min_spread, strength * spread)
    return Column(worst, middle, tuple(n for n in order if sign * (known[n] - middle) > limit))
