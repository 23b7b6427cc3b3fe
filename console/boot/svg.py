"""Two small charts as SVG text: lines over time, and stages as bars. Nothing in them is loaded from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 860
# Hues that a colour-blind reader can tell apart (Okabe and Ito, then Tol's), neighbours as different as can be.
HUES: Final = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442"),
    *("#332288", "#44aa99", "#882255", "#ddcc77"),
)

Points = Sequence[tuple[float, float]]


def memory_chart(series: Mapping[str, Points], *, seconds: float, marks: Sequence[tuple[float, str]] = ()) -> str:
    """The least memory available of each node, GiB over seconds since the launch; the lowest node stands out.

    marks: moments with a word (ready, failed). Empty text where there is nothing to draw."""
    rows = {node: points for node, points in series.items() if points}
    if not rows:
        return ""
    left, right, top, height = 60, 96, 14, 190
    span = max(seconds, 1.0, *(p[-1][0] for p in rows.values()), *(at for at, _ in marks))
    highest = max(v for points in rows.values() for _, v in points)
    top_value = _nice(highest)
    lowest_node = min(rows, key=lambda n: min(v for _, v in rows[n]))

    def x(at: float) -> float:
        return left + max(0.0, at) / span * (WIDTH - left - right)

    def y(value: float) -> float:
        return top + height - max(0.0, value) / top_value * height

    out = [_open(top + height + 30, f"least memory available, the lowest on {lowest_node}")]
    for i in range(5):
        value, unit = top_value * i / 4, " GiB" if i == 4 else ""
        out.append(f'<line class="grid" x1="{left}" x2="{WIDTH - right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        out.append(f'<text class="tick" x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}{unit}</text>')
    for i in range(5):
        at = span * i / 4
        out.append(
            f'<text class="tick" x="{x(at):.1f}" y="{top + height + 18}" text-anchor="middle">{_clock(at)}</text>'
        )
    for at, word in marks:
        out.append(f'<line class="mark" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top}" y2="{top + height}"/>')
        out.append(f'<text class="tick" x="{x(at) + 4:.1f}" y="{top + 10}">{escape(word)}</text>')
    for node, points in sorted(rows.items(), key=lambda item: item[0] == lowest_node):
        line = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        kind = "low" if node == lowest_node else "line"
        out.append(f'<polyline class="{kind}" points="{line}"><title>{escape(node)}</title></polyline>')
        if len(points) == 1:
            out.append(f'<circle class="{kind}" cx="{x(points[0][0]):.1f}" cy="{y(points[0][1]):.1f}" r="2"/>')
    value = min(v for _, v in rows[lowest_node])
    out.append(
        f'<text class="label" x="{WIDTH - right + 6}" y="{y(rows[lowest_node][-1][1]) + 4:.1f}">'
        f"{escape(lowest_node)} {value:.1f}</text></svg>"
    )
    return "".join(out)


def stage_chart(boots: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """Seconds in each stage, a bar a boot, with the sum at its end. Empty text where no boot has stages."""
    rows = [(name, {k: v for k, v in stages.items() if v > 0}) for name, stages in boots]
    rows = [(name, stages) for name, stages in rows if stages]
    if not rows:
        return ""
    names = list(dict.fromkeys(stage for _, stages in rows for stage in stages))
    left, right, step = 96, 84, 24
    longest = max(sum(stages.values()) for _, stages in rows)
    across = max(1, (WIDTH - left) // 150)
    legend = 20 * ((len(names) + across - 1) // across)
    out = [_open(step * len(rows) + legend + 18, "seconds in each stage")]
    for i, (name, stages) in enumerate(rows):
        at, top = float(left), i * step + 6
        out.append(f'<text class="label" x="{left - 8}" y="{top + 12}" text-anchor="end">{escape(name)}</text>')
        for stage in names:
            seconds = stages.get(stage, 0.0)
            if not seconds:
                continue
            width = seconds / longest * (WIDTH - left - right)
            out.append(
                f'<rect x="{at:.1f}" y="{top}" width="{max(width - 1, 0.6):.1f}" height="16" '
                f'fill="{_hue(names, stage)}"><title>{escape(stage)} {seconds:.1f} s</title></rect>'
            )
            at += width
        out.append(f'<text class="tick" x="{at + 6:.1f}" y="{top + 12}">{_clock(sum(stages.values()))}</text>')
    for i, stage in enumerate(names):
        px, py = left + (i % across) * 150, step * len(rows) + 16 + 20 * (i // across)
        out.append(f'<rect x="{px}" y="{py}" width="12" height="12" fill="{_hue(names, stage)}"/>')
        out.append(f'<text class="tick" x="{px + 18}" y="{py + 10}">{escape(stage)}</text>')
    return "".join(out) + "</svg>"


def _hue(names: Sequence[str], stage: str) -> str:
    n = names.index(stage)
    # A second round of the hues is lighter, so that no two stages look the same.
    return HUES[n % len(HUES)] if n < len(HUES) else HUES[n % len(HUES)] + "80"


def _open(height: float, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(title, quote=True)}">'
    )


def _nice(value: float) -> float:
    for step in (4, 8, 16, 32, 64, 128, 256, 512, 1024):
        if value <= step:
            return float(step)
    return value


def _clock(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds else "0"
    s = round(seconds)
    if s >= 3600:
        return f"{s // 3600}:{s % 3600 // 60:02}:{s % 60:02}"
    return f"{s // 60}:{s % 60:02}"
