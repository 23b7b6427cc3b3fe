"""Two boots as they were kept, compared in full: what was asked for, on what, and what came of it. Pure."""

from __future__ import annotations

from console.boot.compare import Comparison
from console.tui.glyphs import Glyphs
from console.tui.spans import Line, fit, safe, wrap_spans

NAME = 26


def record_lines(found: Comparison, width: int, glyphs: Glyphs) -> list[Line]:
    """A part a section; what is equal on both sides is left out, but for the results."""
    half = max(12, (width - NAME - 4) // 2)
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
                out.append(((f"  {fit(safe(row.name), NAME)}", "head"), (fit(before, half), "text"), (after, role)))
                continue
            out.append(((f"  {safe(row.name)}", "head"),))
            out += wrap_spans(("      ", "dim"), before, "text", width, limit=3)
            out += wrap_spans((f"    {glyphs.arrow} ", "dim"), after, role, width, limit=3)
    return out
