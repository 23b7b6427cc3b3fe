"""Several measurements of one thing: their middle and their width, and whether two of them differ at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """n: how many measurements; boots of one recipe differ 1.25 to 1.41 times (night-trials 6.7), so one proves
    nothing."""

    median: float
    low: float
    high: float
    n: int

    def as_json(self) -> dict[str, Any]:
        return {"median": round(self.median, 3), "min": round(self.low, 3), "max": round(self.high, 3), "n": self.n}


def spread(values: Iterable[float]) -> Spread | None:
    """None where there is nothing."""
    found = sorted(values)
    return Spread(median(found), found[0], found[-1], len(found)) if found else None


def spread_of_json(row: object) -> Spread | None:
    """A spread out of the journal; None for anything else."""
    if not isinstance(row, dict):
        return None
    parts = [row.get(k) for k in ("median", "min", "max", "n")]
    if not all(isinstance(p, (int, float)) and not isinstance(p, bool) for p in parts):
        return None
    return Spread(float(parts[0]), float(parts[1]), float(parts[2]), int(parts[3]))  # type: ignore[arg-type]


def merged(parts: Iterable[Spread]) -> Spread | None:
    """Several runs as one: the middle of their middles, as wide as the widest."""
    rows = list(parts)
    if not rows:
        return None
    return Spread(
        median(r.median for r in rows), min(r.low for r in rows), max(r.high for r in rows), sum(r.n for r in rows)
    )


def winner(a: Spread, b: Spread) -> str:
    """`b +12.0 %`, or why there is none: spreads that overlap, or a single measurement, prove nothing."""
    if a.n < 2 or b.n < 2:
        return "no winner: a single measurement proves nothing"
    if a.low <= b.high and b.low <= a.high:
        return "no winner: the spreads overlap"
    change = 100 * (b.median / a.median - 1) if a.median else 0.0
    return f"{change:+.1f} %"
