"""Two boots as they were kept, compared in full: what was asked for, on what, and what came of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from console.boot.compare import Comparison
from console.tui.charts import AXIS, MARKS, SAME, Scale, overlay
from console.tui.figures import GIB, clock_span, gib
from console.tui.glyphs import Glyphs
from console.tui.spans import Line, fit, safe, wrap_spans

NAME: Final = 26
CHANGE: Final = 9  # cells for the difference of two figures
CHART_ROWS: Final = 10
CHART_WIDTH: Final = 120
ROLES: Final = ("memory", "network")


def record_lines(found: Comparison, width: int, glyphs: Glyphs) -> list[Line]:
    """A part a section; what is equal on both sides is left out, but for the results."""
    half = max(12, (width - NAME - CHANGE - 4) // 2)
    head: Line = (
        (fit("", NAME + 2), "head"),
        (fit(found.a.label, half), "strong"),
        (fit(found.b.label, half), "strong"),
    )
    out: list[Line] = [head]
    if found.same_input:
        out.append(((" nothing that was asked for differs, nor do the nodes", "ok"),))
    for section in found.sections:
        if not section.shown and not section.why:
            continue
        unit = f", {section.unit}" if section.unit else ""
        out += [(), ((f" {safe(section.name)}{unit}", "title"),)]
        if section.why:
            out += wrap_spans((" ", "text"), safe(section.why), "dim", width, limit=2)
        for row in section.shown:
            before, after = ("-" if v is None else safe(v) for v in (row.before, row.after))
            role = "warn" if row.differs else "text"
            if len(before) < half and len(after) < half:
                change = "" if abs(row.change or 0.0) < 0.005 else f"{row.change:+.2f}"
                out.append(
                    (
                        (f"  {fit(safe(row.name), NAME)}", "head"),
                        (fit(before, half), "text"),
                        (fit(after, half), role),
                        (fit(change, CHANGE, ">"), "dim"),
                    )
                )
                continue
            if not row.differs:
                out += wrap_spans((f"  {fit(safe(row.name), NAME)}", "head"), before, "text", width, limit=4)
                out.append(((" " * (NAME + 2) + "the same in both", "dim"),))
                continue
            out.append(((f"  {safe(row.name)}", "head"),))
            out += wrap_spans(("      ", "dim"), before, "text", width, limit=3)
            out += wrap_spans((f"    {glyphs.arrow} ", "dim"), after, role, width, limit=3)
        if section.name == "lowest memory":
            out += memory_lines(found, width)
    return out


def memory_lines(found: Comparison, width: int) -> list[Line]:
    """The memory of both boots over the same seconds since their launch, laid over each other."""
    records = (found.a, found.b)
    known = [r.memory for r in records if r.memory]
    if not known:
        return []
    room = max(10, min(CHART_WIDTH, width - AXIS - 2))
    end = max(curve[-1][0] for curve in known) + 10.0
    top = max(value for curve in known for _, value in curve)
    high = (int(top / GIB / 8) + 1) * 8 * GIB
    curves = [(MARKS[i], columns(r.memory, end, room), ROLES[i]) for i, r in enumerate(records)]
    legend: list[tuple[str, str]] = [("  ", "text")]
    for i, record in enumerate(records):
        low = f"lowest {gib(min(v for _, v in record.memory))}" if record.memory else "none is kept"
        legend.append((f"{MARKS[i]} {record.label} {low}   ", ROLES[i]))
    if len(known) > 1:
        legend.append((f"{SAME} both", "dim"))
    foot = fit("0:00", room - 8) + fit(clock_span(end), 8, ">")
    return [
        (),
        (("  the least available on any node, GiB, since the launch", "head"),),
        tuple(legend),
        *overlay(curves, Scale(0.0, high), CHART_ROWS, room, (gib(high, 0), "0")),
        ((" " * (AXIS + 1) + foot, "dim"),),
    ]


def columns(curve: Sequence[tuple[float, float]], end: float, count: int) -> list[float | None]:
    """The least value of each of `count` equal parts of 0 to `end`; a part within a window has the window's value."""
    out: list[float | None] = [None] * count
    for i, (at, value) in enumerate(curve):
        until = min(curve[i + 1][0] if i + 1 < len(curve) else at + 10.0, at + 30.0)
        first, last = int(at / end * count), int(until / end * count)
        for cell in range(first, min(count, max(first + 1, last))):
            held = out[cell]
            out[cell] = value if held is None else min(held, value)
    return out
