"""When a node will be out of memory at this rate, and which node is the lowest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from console.base.absent import Absent
from console.base.units import GIB, duration, gib
from console.telemetry.history import Series, time_to_empty
from console.telemetry.sample import Float

# A boot allocates 80 GiB in five seconds and then stands still: only what falls over both windows is a trend.
SHORT_S: Final = 6
LONG_S: Final = 30
# Beyond this a forecast says nothing.
HORIZON_S: Final = 900.0
# Weights that load take memory as planned: with more than this left, a slope is no forecast.
NEAR_BYTES: Final = 16 * GIB


@dataclass(frozen=True, slots=True)
class Lowest:
    """The node with the least memory available; or, where one runs out within the horizon, the one that does first.
    seconds_to_empty: None while it does not fall. slope_bytes_s: how its memory changes, by the last half minute; None
    where too little is known."""

    node: str
    available_bytes: int
    seconds_to_empty: float | None = None
    slope_bytes_s: float | None = None

    @property
    def sentence(self) -> str:
        """`dgx3 out of memory in 0:40 at this rate`, else `lowest free 13.9 GiB dgx1`."""
        if self.seconds_to_empty is not None:
            return f"{self.node} out of memory in {duration(self.seconds_to_empty)} at this rate"
        return f"lowest free {gib(self.available_bytes)} {self.node}"


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


def lowest(
    available: Mapping[str, int], empty: Mapping[str, Float], slopes: Mapping[str, Float] | None = None
) -> Lowest | None:
    """available, slopes: by node. None where no node says."""
    soon = {n: s for n, s in empty.items() if not isinstance(s, Absent) and math.isfinite(s) and n in available}
    if soon:
        first = min(soon, key=lambda n: (soon[n], n))
        return Lowest(first, available[first], soon[first], _slope(slopes, first))
    if not available:
        return None
    node = min(available, key=lambda n: (available[n], n))
    return Lowest(node, available[node], slope_bytes_s=_slope(slopes, node))


def _slope(slopes: Mapping[str, Float] | None, node: str) -> float | None:
    value = (slopes or {}).get(node)
    return None if value is None or isinstance(value, Absent) else value
