"""The four charts of a node over a window of time: memory, power, clock, network; what stands under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from console.tui.charts import AXIS, OVER, Scale, area, extremes
from console.tui.figures import GIB, gib, rate, whole
from console.tui.glyphs import Glyphs
from console.tui.spans import Line, Span, clip, fit, line_width

# (seconds, words); the history behind them: seconds for ten minutes, minutes for twelve hours
WINDOWS: Final = ((600.0, "10 min"), (3600.0, "1 h"), (43_200.0, "12 h"))
Read = Callable[[str, float, int], Sequence[float | None]]
"""(metric, seconds, points) -> values, oldest first."""


@dataclass(frozen=True, slots=True)
class Curve:
    """metric: of the hub's series. low, high: fixed ends of the axis in the metric's unit; high None: the node's own
    total, or the next power of ten above what was seen."""

    metric: str
    title: str
    role: str
    high: float | None
    words: Callable[[float], str]
    line: str = ""  # a second metric of the same unit, drawn as a line over the area


CURVES: Final = (
    Curve("mem_used", "memory used, GiB", "memory", None, lambda v: gib(v)),
    Curve(
        "gpu_power", "GPU power, W", "power", 140.0, lambda v: whole(v)
    ),  # inferred: the scale doubles where it is passed
    Curve("gpu_clock", "GPU clock, MHz", "gpu", 3003.0, lambda v: whole(v)),  # inferred likewise
    Curve("net_rx", "network, B/s: in", "network", 25e9, lambda v: rate(v), "net_tx"),  # 200 Gbit/s
)


def top_of(curve: Curve, values: Sequence[float | None], total: float | None) -> float:
    """The end of the axis. A curve above the usual end takes the next step of two, so it is never cut in silence."""
    high = curve.high
    if high is None:
        high = total or 128.0 * GIB
    seen = extremes(values)
    if curve.metric == "net_rx":
        # Fabrics differ by three powers of ten: the step that holds what was seen, one of few.
        high = next((s for s in (1e8, 1e9, 5e9, 25e9, 50e9) if seen is None or seen[1] <= s), 100e9)
    while seen is not None and seen[1] > high:
        high *= 2
    return high


def chart_lines(
    read: Read,
    window: int,
    width: int,
    rows: int,
    glyphs: Glyphs,
    *,
    total: float | None,
    back: int | None,
    wide: bool,
    last: str = "now",
) -> list[Line]:
    """Two by two where there is room, else one below the other. back: the cursor, cells before now; None: none.
    last: the word for the right edge, which in a replay is not now."""
    seconds, words = WINDOWS[window]
    columns = 2 if wide else 1
    cell = width // columns
    points = max(8, cell - AXIS - 3)
    blocks: list[list[Line]] = []
    for curve in CURVES:
        values = read(curve.metric, seconds, points)
        over = read(curve.line, seconds, points) if curve.line else []
        high = top_of(curve, [*values, *over], total)
        at = None if back is None else max(0, points - 1 - back)
        told = _told(curve, values, at, seconds, last)
        head: tuple[Span, ...] = ((fit("", AXIS) + " ", "dim"), (f"{curve.title} ", "title"), (told, "text"))
        if curve.line:
            head = (*head, (f"  out {OVER} ", "power bold"), (_told(curve, over, at, seconds, last), "text"))
        body = area(values, Scale(0.0, high), rows, glyphs, curve.role, (curve.words(high), "0"), at, over)
        blocks.append([clip(line, cell) for line in (head, *body)])
    axis = fit(f"-{words}", max(1, points - len(last))) + last
    foot = clip(((" " * (AXIS + 1) + axis, "dim"),), cell)
    out: list[Line] = []
    for i in range(0, len(blocks), columns):
        group = blocks[i : i + columns]
        for parts in zip(*group, strict=True):
            out.append(tuple(span for part in parts for span in part))
    out.append(tuple(foot) * columns)
    assert all(line_width(line) <= width for line in out)
    return out


def _told(curve: Curve, values: Sequence[float | None], at: int | None, seconds: float, last: str) -> str:
    """What the title says of the values: the one under the cursor, or their ends and the last."""
    if at is not None:
        value = values[at]
        ago = (len(values) - 1 - at) * seconds / len(values)
        return f"{_ago(ago)} ago: " + ("gap" if value is None else curve.words(value))
    seen = extremes(values)
    if seen is None:
        return "nothing known in this window"
    known = next((v for v in reversed(values) if v is not None), None)
    ends = f"{curve.words(seen[0])} to {curve.words(seen[1])}"
    return ends if known is None else f"{ends}, {last} {curve.words(known)}"


def _ago(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
