"""Charts of text: rows of block signs on a fixed scale, a gap where nothing is known, a cursor. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from console.tui.glyphs import Glyphs
from console.tui.spans import Line, Span, fit

AXIS: Final = 7  # cells for the figures at the left
MARKS: Final = "oxs+*#%@"  # curves laid over each other, each with its own sign
OVER: Final = "o"  # the line of a second curve over an area
SAME: Final = "="  # where two of them are at one place


@dataclass(frozen=True, slots=True)
class Scale:
    """Ends of the vertical axis, and how a value is written there. The ends do not move with the data."""

    low: float
    high: float
    words: str = ""

    def share(self, value: float) -> float:
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low))) if self.high > self.low else 0.0


def area(
    values: Sequence[float | None],
    scale: Scale,
    rows: int,
    glyphs: Glyphs,
    role: str,
    labels: tuple[str, str],
    cursor: int | None = None,
    over: Sequence[float | None] = (),
) -> list[Line]:
    """One cell per value, filled from below. labels: what stands at the top and the bottom of the axis. over: a second
    curve on the same scale, a line of `OVER` drawn on top."""
    levels = glyphs.spark
    steps = len(levels)
    # Textual draws no sign for an empty cell of a value that is known but tiny: the lowest sign stands for it.
    heights = [None if v is None else max(1, round(scale.share(v) * rows * steps)) for v in values]
    out: list[Line] = []
    for row in range(rows):
        base = (rows - 1 - row) * steps
        label = labels[0] if row == 0 else labels[1] if row == rows - 1 else ""
        spans: list[Span] = [(fit(label, AXIS, ">") + " ", "dim")]
        cells = []
        for height in heights:
            left = 0 if height is None else height - base
            cells.append(" " if left <= 0 else levels[min(steps, left) - 1])
        roles = [role] * len(cells)
        for x, value in enumerate(over[: len(cells)]):
            if value is not None and rows - 1 - min(rows - 1, int(scale.share(value) * rows)) == row:
                cells[x], roles[x] = OVER, "power bold"
        if cursor is not None and 0 <= cursor < len(cells):
            cells[cursor] = cells[cursor] if cells[cursor] != " " else glyphs.pending
            roles[cursor] = "key reverse"
        out.append((*spans, *_joined(cells, roles)))
    return out


def _joined(cells: Sequence[str], roles: Sequence[str]) -> list[Span]:
    """Cells of one role next to each other as one span."""
    out: list[Span] = []
    for sign, role in zip(cells, roles, strict=True):
        if out and out[-1][1] == role:
            out[-1] = (out[-1][0] + sign, role)
        else:
            out.append((sign, role))
    return out


def overlay(
    curves: Sequence[tuple[str, Sequence[float | None], str]],
    scale: Scale,
    rows: int,
    width: int,
    labels: tuple[str, str],
) -> list[Line]:
    """Curves over each other as points: (sign, values, role); where two meet, `SAME` stands for both."""
    out: list[Line] = []
    grid: list[list[tuple[str, str]]] = [[(" ", "grid")] * width for _ in range(rows)]
    for sign, values, role in curves:
        for x, value in enumerate(values[:width]):
            if value is None:
                continue
            y = rows - 1 - min(rows - 1, int(scale.share(value) * rows))
            grid[y][x] = (sign, role) if grid[y][x][0] == " " else (SAME, "strong")
    for row, cells in enumerate(grid):
        label = labels[0] if row == 0 else labels[1] if row == rows - 1 else ""
        spans: list[Span] = [(fit(label, AXIS, ">") + " ", "dim")]
        out.append((*spans, *_joined([sign for sign, _ in cells], [role for _, role in cells])))
    return out


def extremes(values: Sequence[float | None]) -> tuple[float, float] | None:
    have = [v for v in values if v is not None]
    return (min(have), max(have)) if have else None
