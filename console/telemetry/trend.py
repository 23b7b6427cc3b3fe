"""When a node will be out of memory at this rate, and which node is the lowest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.base.absent import Absent
from console.base.units import GIB, age, duration, gib
from console.telemetry.history import Series, time_to_empty
from console.telemetry.sample import Float

# A boot allocates 80 GiB in five seconds and then stands still: only what falls over both windows is a trend.
SHORT_S: Final = 6
LONG_S: Final = 30
# Beyond this a forecast says nothing.
HORIZON_S: Final = 900.0
# Weights that load take memory as planned: with more than this left, a slope is no forecast.
NEAR_BYTES: Final = 16 * GIB
# A collapse takes seconds: falling faster than this, the last samples alone are believed at once.
FAST_BYTES_S: Final = GIB / 60
FAST_HORIZON_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Lowest:
    """The node with the least memory available; or, where one runs out within the horizon, the one that does first.
    seconds_to_empty: None while it does not fall. slope_bytes_s: how its memory changes, by the last half minute, in a
    fall by the last samples; None where too little is known. age_s: of its value, None while that is of now.
    not_counted: nodes that are lost or do not say."""

    node: str
    available_bytes: int
    seconds_to_empty: float | None = None
    slope_bytes_s: float | None = None
    age_s: float | None = None
    not_counted: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """`dgx3 out of memory in 0:40 at this rate`, else `lowest free 13.9 GiB dgx1 · 1 not counted`."""
        if self.seconds_to_empty is not None:
            return f"{self.node} out of memory in {duration(self.seconds_to_empty)} at this rate{self.left_out}"
        old = "" if self.age_s is None else f" ({age(self.age_s)} old)"
        return f"lowest free {gib(self.available_bytes)} {self.node}{old}{self.left_out}"

    @property
    def left_out(self) -> str:
        """` · 2 not counted`, or nothing."""
        return f" · {len(self.not_counted)} not counted" if self.not_counted else ""


def seconds_to_empty(available: Series, left: Float, now: float) -> Float:
    """Seconds until nothing is left, by the slower of the slopes of two windows; infinite while it does not fall, or
    while there is plenty; absent where too little is known."""
    slopes: list[float] = []
    for window in (SHORT_S, LONG_S):
        slope = available.slope(window, now)
        if isinstance(slope, Absent):
            return slope
        slopes.append(slope)
    if isinstance(left, Absent):
        return left
    seconds = time_to_empty(left, max(slopes))
    if isinstance(seconds, Absent) or seconds > HORIZON_S or left > NEAR_BYTES:
        return math.inf
    return seconds


def seconds_to_empty_now(available: Series, left: Float, now: float) -> Float:
    """As `seconds_to_empty`, or by the last samples alone where they fall fast and little is left: what an operator who
    looks is told at once, and no alarm waits for."""
    slow = seconds_to_empty(available, left, now)
    fast = available.newest_slope(now)
    if isinstance(fast, Absent) or isinstance(left, Absent) or fast > -FAST_BYTES_S or left > NEAR_BYTES:
        return slow
    seconds = time_to_empty(left, fast)
    if isinstance(seconds, Absent) or seconds > FAST_HORIZON_S:
        return slow
    return seconds if isinstance(slow, Absent) else min(slow, seconds)


def slope_now(available: Series, now: float) -> Float:
    """Change per second: of a fast fall by the last samples; else by the last half minute and the last seconds, the
    slower of both, 0 where they disagree."""
    fast = available.newest_slope(now)
    if not isinstance(fast, Absent) and fast <= -FAST_BYTES_S:
        return fast
    long, short = available.slope(LONG_S, now), available.slope(SHORT_S, now)
    if isinstance(long, Absent) or isinstance(short, Absent):
        return long
    return min(long, short, key=abs) if long * short > 0 else 0.0


def lowest(
    available: Mapping[str, int],
    empty: Mapping[str, Float],
    slopes: Mapping[str, Float] | None = None,
    *,
    ages: Mapping[str, float] | None = None,
    not_counted: Sequence[str] = (),
) -> Lowest | None:
    """available, slopes, ages: by node. None where no node says."""
    left_out = tuple(not_counted)
    soon = {n: s for n, s in empty.items() if not isinstance(s, Absent) and math.isfinite(s) and n in available}
    if soon:
        first = min(soon, key=lambda n: (soon[n], n))
        return Lowest(first, available[first], soon[first], _slope(slopes, first), None, left_out)
    if not available:
        return None
    node = min(available, key=lambda n: (available[n], n))
    old = (ages or {}).get(node)
    return Lowest(node, available[node], None, _slope(slopes, node), old, left_out)


def _slope(slopes: Mapping[str, Float] | None, node: str) -> float | None:
    value = (slopes or {}).get(node)
    return None if value is None or isinstance(value, Absent) else value
