"""A quantity over time in fixed memory: each second of ten minutes, least and most of each minute of twelve hours."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from statistics import median
from typing import Final

from console.base.absent import Absent
from console.telemetry.sample import Float

FINE_S: Final = 600
COARSE_STEP_S: Final = 60
COARSE: Final = 720
_MAX_POINTS: Final = 40
_FALLS_NOT: Final = Absent("it does not fall")


class Series:
    """One quantity of one node: about 17 KB. Times are seconds on one clock, and do not go back."""

    __slots__ = ("_at", "_fine", "_least", "_most")

    def __init__(self) -> None:
        self._fine = array("d", [math.nan]) * FINE_S
        self._least = array("d", [math.nan]) * COARSE
        self._most = array("d", [math.nan]) * COARSE
        self._at: int | None = None

    def add(self, at: float, value: Float) -> None:
        """A value at a time; an absent one leaves a gap. A time before the last one is left out."""
        second = math.floor(at)
        if self._at is not None and second < self._at:
            return
        self._advance(second)
        if isinstance(value, Absent) or not math.isfinite(value):
            return
        self._fine[second % FINE_S] = value
        slot = second // COARSE_STEP_S % COARSE
        self._least[slot] = value if math.isnan(self._least[slot]) else min(self._least[slot], value)
        self._most[slot] = value if math.isnan(self._most[slot]) else max(self._most[slot], value)

    def _advance(self, second: int) -> None:
        before = self._at
        self._at = second
        if before is None:
            return
        for s in range(max(before + 1, second - FINE_S + 1), second + 1):
            self._fine[s % FINE_S] = math.nan
        old, new = before // COARSE_STEP_S, second // COARSE_STEP_S
        for minute in range(max(old + 1, new - COARSE + 1), new + 1):
            self._least[minute % COARSE] = self._most[minute % COARSE] = math.nan

    def recent(self, seconds: int, now: float) -> list[float | None]:
        """The last `seconds` (at most 600) one by one, the newest last; None where nothing was sampled."""
        count = min(seconds, FINE_S)
        end = math.floor(now)
        first = end - count + 1
        if self._at is None:
            return [None] * max(0, count)
        # What is kept of that: `known` seconds from `since` on, which may go round the end of the ring.
        since, until = max(first, self._at - FINE_S + 1), min(end, self._at)
        known = until - since + 1
        if known <= 0:
            return [None] * max(0, count)
        at = since % FINE_S
        ring = self._fine[at : at + known] + self._fine[: max(0, at + known - FINE_S)]
        values = [None if value != value else value for value in ring]
        return [None] * (since - first) + values + [None] * (end - until)

    def minutes(self, count: int, now: float) -> list[tuple[float, float] | None]:
        """Least and most of each of the last `count` minutes (at most 720), the newest last; None for a gap."""
        end = math.floor(now) // COARSE_STEP_S
        last = None if self._at is None else self._at // COARSE_STEP_S
        out: list[tuple[float, float] | None] = []
        for minute in range(end - min(count, COARSE) + 1, end + 1):
            inside = last is not None and last - COARSE < minute <= last
            least = self._least[minute % COARSE] if inside else math.nan
            out.append(None if math.isnan(least) else (least, self._most[minute % COARSE]))
        return out

    def lowest(self) -> Float:
        """The least value of the last twelve hours."""
        found = [v for v in self._least if not math.isnan(v)]
        return min(found) if found else Absent("never sampled")

    def slope(self, window_s: int, now: float) -> Float:
        """Change per second over the window, robust against single jumps: the median of slopes between pairs
        (Theil-Sen). Absent with fewer than five samples, or when they cover less than half of the window."""
        values = self.recent(window_s, now)
        points = [(i, v) for i, v in enumerate(values) if v is not None]
        if len(points) < 5 or points[-1][0] - points[0][0] < len(values) / 2 - 1:
            return Absent("too few samples for a trend")
        step = -(-len(points) // _MAX_POINTS)
        points = points[::-step][::-1]
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1 :]]
        return median(slopes)

    def newest_slope(self, now: float, *, count: int = 3, within_s: int = 20) -> Float:
        """Change per second over the last few samples, by least squares; quick, and moved by each of them. Absent with
        fewer than `count` of them in the last seconds."""
        points = [(float(i), v) for i, v in enumerate(self.recent(within_s, now)) if v is not None][-count:]
        if len(points) < count:
            return Absent("too few samples for a trend")
        return _least_squares(points)


def _least_squares(points: Sequence[tuple[float, float]]) -> float:
    at = sum(p[0] for p in points) / len(points)
    mean = sum(p[1] for p in points) / len(points)
    return sum((x - at) * (y - mean) for x, y in points) / sum((x - at) ** 2 for x, _ in points)


def time_to_empty(left: Float, slope: Float) -> Float:
    """Seconds until `left` is used up at `slope` (per second, negative when it falls)."""
    if isinstance(left, Absent):
        return left
    if isinstance(slope, Absent):
        return slope
    return _FALLS_NOT if slope >= 0 or not math.isfinite(left / slope) else max(0.0, left / -slope)
