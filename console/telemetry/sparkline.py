"""A history as one line of text: a fixed scale, and gaps where nothing was sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

BLOCKS: Final = "▁▂▃▄▅▆▇█"
ASCII: Final = "_.-=+*#@"


def sparkline(
    values: Sequence[float | None],
    *,
    low: float,
    high: float,
    width: int,
    keep: Literal["min", "max"] = "max",
    levels: str = BLOCKS,
) -> str:
    """Exactly `width` characters, the newest on the right; a space is a gap, never the lowest level.

    low/high: the ends of the scale, whatever the values are. keep: which of several values that share a character is
    drawn (`min` where low is bad: a cliff must not vanish)."""
    if width <= 0:
        return ""
    size = max(1, math.ceil(len(values) / width))
    groups = [values[max(0, end - size) : end] for end in range(len(values), 0, -size)][:width]
    groups.reverse()
    return "".join(_level(g, low, high, keep, levels) for g in groups).rjust(width)


def _level(values: Sequence[float | None], low: float, high: float, keep: str, levels: str) -> str:
    known = [v for v in values if v is not None and math.isfinite(v)]
    if not known or not high > low:
        return " "
    value = min(known) if keep == "min" else max(known)
    share = (value - low) / (high - low)
    return levels[min(len(levels) - 1, max(0, int(share * len(levels))))]
