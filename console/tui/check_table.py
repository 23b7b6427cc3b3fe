"""The checks of a launch as a table: a row a check that found something, a column a node, a sign a cell. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from console.base.findings import Finding, Severity
from console.plan.codes import CODES
from console.plan.model import Plan
from console.plan.silent import SILENT_CODES
from console.tui.glyphs import Glyphs
from console.tui.spans import Line, Span, clip, fit, safe, wrap_spans

NAME: Final = 26
# A node of which one of these was found could not be asked: of it no check says that all is well.
MUTE: Final = SILENT_CODES | {"facts-unknown"}
GRAVITY: Final = {Severity.BLOCK: 0, Severity.WARN: 1, Severity.INFO: 2}
MANY: Final = 32  # columns at most


def check_lines(plan: Plan, width: int, glyphs: Glyphs, overridden: Collection[str] = ()) -> list[Line]:
    """The header with the nodes, a row a code, the notes by name, and how many checks found nothing."""
    codes = sorted(
        dict.fromkeys(f.code for f in plan.findings),
        key=lambda code: min(GRAVITY.get(f.severity, 3) for f in plan.findings if f.code == code),
    )
    nodes = list(dict.fromkeys(rank.node for rank in plan.ranks))[:MANY]
    mute = {f.node for f in plan.findings if f.code in MUTE}
    rest = len(CODES) - len([c for c in codes if c in CODES])
    where = f" on the {len(nodes) - len(mute & set(nodes))} nodes that could be asked" if mute & set(nodes) else ""
    passed: Line = (
        (f"  {glyphs.done} ", "ok"),
        (f"{rest} {'other ' if codes else ''}checks found nothing{where}", "ok"),
    )
    out: list[Line] = [(), ((" what was checked", "title"), ("   all: not one node's", "dim"))]
    if not codes:
        return [*out, passed]
    names = _heads(nodes, plan, width)
    head: list[Span] = [(" " * (NAME + 4) + fit("all", 5), "head")]
    head += [(fit(name, len(name) + 1), "head") for name in names]
    out.append(clip(head, width))
    notes = [c for c in codes if all(f.severity == Severity.INFO for f in plan.findings if f.code == c)]
    told = [c for c in codes if c not in notes]
    out += [_row(code, plan.findings, nodes, names, mute, width, glyphs, code in overridden) for code in told]
    if notes:
        words = f"{len(notes)} note{'s' if len(notes) > 1 else ''}: " + ", ".join(safe(c) for c in notes)
        out += wrap_spans((f"  {glyphs.info} ", "dim"), words, "dim", width, limit=3)
    return [*out, clip(passed, width)]


def _heads(nodes: Sequence[str], plan: Plan, width: int) -> list[str]:
    """Names where they fit, else the ranks' numbers."""
    names = [safe(n, limit=12) for n in nodes]
    room = width - NAME - 10 - len(" overridden")
    if sum(len(n) + 1 for n in names) <= room:
        return names
    ranks = {rank.node: str(rank.rank) for rank in reversed(plan.ranks)}
    return [f"{'r' if len(nodes) <= 10 else ''}{ranks.get(n, '?')}" for n in nodes]


def _row(
    code: str,
    findings: Sequence[Finding],
    nodes: Sequence[str],
    names: Sequence[str],
    mute: Collection[str | None],
    width: int,
    glyphs: Glyphs,
    overridden: bool,
) -> Line:
    mine = [f for f in findings if f.code == code]
    common = [f for f in mine if f.node is None or f.node not in nodes]
    gravest = min(mine, key=lambda f: GRAVITY.get(f.severity, 3)).severity
    sign, role = _sign(gravest, glyphs)
    spans: list[Span] = [
        (f"  {sign} ", role),
        (fit(safe(code), NAME), "strong" if gravest == Severity.BLOCK else "text"),
    ]
    spans += (
        [(fit(_sign(common[0].severity, glyphs)[0], 5), _sign(common[0].severity, glyphs)[1])]
        if common
        else [("     ", "dim")]
    )
    bound = any(f.node in nodes for f in mine)
    for node, name in zip(nodes, names, strict=True):
        found = next((f for f in mine if f.node == node), None)
        if found is not None:
            sign, role = _sign(found.severity, glyphs)
        elif not bound:
            sign, role = " ", "dim"
        else:
            sign, role = (glyphs.unknown, "dim") if node in mute else (glyphs.done, "ok")
        spans.append((fit(sign, len(name) + 1), role))
    if overridden:
        spans.append((" overridden", "warn bold"))
    return clip(spans, width)


def _sign(severity: Severity, glyphs: Glyphs) -> Span:
    signs = {Severity.BLOCK: (glyphs.failed, "bad bold"), Severity.WARN: (glyphs.warn, "warn")}
    return signs.get(severity, (glyphs.info, "dim"))
