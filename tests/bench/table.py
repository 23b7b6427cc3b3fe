"""Figures side by side: medians with their spread, and how many times a limit they are."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Series:
    """One measure's figures. seconds: wall time of each round; cpu: CPU seconds of this side, each round."""

    name: str
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    why_not: str = ""

    def text(self) -> str:
        """`0.60 (0.55-0.68, 7)`: median, least and most, rounds."""
        if not self.seconds:
            return self.why_not or "not measured"
        middle = statistics.median(self.seconds)
        spread = f"{figure(middle)} ({figure(min(self.seconds))}-{figure(max(self.seconds))}, {len(self.seconds)})"
        return f"{spread}, then: {self.why_not}" if self.why_not else spread

    def ratio(self, limit: Series | None) -> str:
        if limit is None or limit is self or not (limit.seconds and self.seconds):
            return ""
        return f"{statistics.median(self.seconds) / statistics.median(limit.seconds):.2f}x"

    def cpu_text(self) -> str:
        return figure(statistics.median(self.cpu)) if self.cpu else ""


def figure(seconds: float) -> str:
    """Three figures are all that such a machine can tell."""
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}"


def render(title: str, rows: Sequence[Series], limit: Series | None) -> str:
    """A table as text; the ratio is to `limit`, which must be one of the rows."""
    head = (title, "seconds: median (min-max, n)", "of the limit", "CPU-s here")
    cells = [head, *((row.name, row.text(), row.ratio(limit), row.cpu_text()) for row in rows)]
    widths = [max(len(cell[column]) for cell in cells) for column in range(4)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(cell, widths, strict=True)).rstrip() for cell in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
