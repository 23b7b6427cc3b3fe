"""A plan to read: what starts on which node, what differs between ranks, the memory budget as a bar, the findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from console.base.findings import Finding, Severity
from console.base.secrets import mask_argv, mask_env, mask_text
from console.plan.masked import visible
from console.plan.model import Plan, RankPlan
from console.plan.secret_env import how_secrets_travel
from console.tui.figures import GIB, clock_span, gib
from console.tui.glyphs import Glyphs
from console.tui.spans import Line, Span, fit, fit_name, safe, wrap, wrap_spans

# Parts of the budget in the order of the bar: (key of Plan.memory's node entry, words, role)
FIGURES: Final = re.compile(r"-?\d+(?:\.\d+)?")
PART_ROLES: Final = ("memory", "shmem", "network", "power", "temperature", "gpu", "active")
SIGNS: Final = {Severity.BLOCK: ("failed", "bad bold", "blocked"), Severity.WARN: ("warn", "warn", "warning"),
                Severity.INFO: ("info", "dim", "note")}  # fmt: skip


def finding_lines(findings: Sequence[Finding], width: int, glyphs: Glyphs, *, limit: int = 3) -> list[Line]:
    """Findings, the gravest first: sign, code, message, what was seen, what to do."""
    order = {Severity.BLOCK: 0, Severity.WARN: 1, Severity.INFO: 2}
    out: list[Line] = []
    for f, nodes in grouped(sorted(findings, key=lambda f: order.get(f.severity, 3))):
        name, role, word = SIGNS.get(f.severity, ("info", "dim", "note"))
        sign = getattr(glyphs, name)
        where = "" if f.node is None or f.message.startswith(f"{f.node}:") else f"{safe(f.node)}: "
        seen = (
            f" (found {safe(f.observed)}" + (f", expected {safe(f.expected)})" if f.expected else ")")
            if f.observed
            else ""
        )
        out += wrap_spans(
            (f" {sign} {fit(word, 8)} ", role), f"{where}{safe(f.message, limit=600)}{seen}", "text", width, limit=limit
        )
        if len(nodes) > 1:
            out += wrap_spans((" " * 12, "dim"), f"likewise {_names(nodes[1:])}", "dim", width, limit=2)
        tail = f"{safe(f.code)}" + (f"   {glyphs.arrow} {safe(f.remedy, limit=400)}" if f.remedy else "")
        out += wrap_spans((" " * 12, "dim"), tail, "dim", width, limit=2)
    return out


def grouped(findings: Sequence[Finding]) -> list[tuple[Finding, list[str]]]:
    """Findings of several nodes that differ in figures alone, once: the first one's words, and all the nodes."""
    out: dict[tuple[str, str, str], tuple[Finding, list[str]]] = {}
    for finding in findings:
        words = finding.message.replace(finding.node, "") if finding.node else finding.message
        _, nodes = out.setdefault((finding.severity, finding.code, FIGURES.sub("#", words)), (finding, []))
        if finding.node is not None and finding.node not in nodes:
            nodes.append(finding.node)
    return list(out.values())


def _names(nodes: Sequence[str]) -> str:
    shown = ", ".join(safe(n, limit=40) for n in nodes[:8])
    return shown if len(nodes) <= 8 else f"{shown} and {len(nodes) - 8} more"


@dataclass(frozen=True, slots=True)
class Budget:
    """A node's budget as far as it is known: bytes; parts are (key, words, bytes)."""

    node: str
    total: float
    parts: tuple[tuple[str, str, float], ...]
    stays: float | None
    notes: tuple[str, ...] = ()


def budgets_of(memory: Mapping[str, Any]) -> list[Budget]:
    """The budgets that can be drawn, the tightest node first."""
    out: list[Budget] = []
    for node, entry in memory.items():
        if not isinstance(entry, Mapping):
            continue
        total, stays = entry.get("total_bytes"), entry.get("stays_bytes")
        parts = tuple(
            (str(p.get("key", "")), str(p.get("label", p.get("key", ""))), float(p["size_bytes"]))
            for p in entry.get("parts", ())
            if isinstance(p, Mapping) and isinstance(p.get("size_bytes"), int | float)
        )
        if isinstance(total, int | float) and total > 0 and parts:
            notes = tuple(str(n) for n in entry.get("notes", ()))
            out.append(
                Budget(node, float(total), parts, float(stays) if isinstance(stays, int | float) else None, notes)
            )
    return sorted(out, key=lambda b: (b.stays is None, b.stays or 0.0))


def memory_lines(memory: Mapping[str, Any], width: int, glyphs: Glyphs) -> list[Line]:
    """The tightest node's budget as one stacked bar with a legend; what stays for the system is left empty."""
    budgets = budgets_of(memory)
    if not budgets:
        whys = [e.get("total_why") or e.get("share_why") for e in memory.values() if isinstance(e, Mapping)]
        return [((f"  not known: {safe(next(w for w in whys if w))}", "dim"),)] if any(whys) else []
    budget = budgets[0]
    room = max(10, min(width - 4, 120))
    spans: list[Span] = [("  ", "text")]
    legend: list[Line] = []
    used = 0
    solid = [p for p in budget.parts if p[0] != "free"]
    for i, (_, words, value) in enumerate(solid):
        cells = min(max(1 if value > 0 else 0, round(value / budget.total * room)), room - used)
        used += cells
        sign, role = glyphs.stack[i % len(glyphs.stack)], PART_ROLES[i % len(PART_ROLES)]
        spans.append((sign * cells, role))
        legend.append(((f"{sign} ", role), (f"{safe(words, limit=32)} {gib(value)}   ", "text")))
    spans.append((glyphs.bar_empty * (room - used), "grid"))
    left = budget.stays if budget.stays is not None else budget.total - sum(p[2] for p in solid)
    role = "bad bold" if left < 4 * GIB else "warn bold" if left < 10 * GIB else "ok"
    legend.append(((f"{glyphs.bar_empty} stays {gib(left)} of {gib(budget.total)} GiB", role),))
    which = f"  {safe(budget.node)}" + (f", the tightest of {len(budgets)}" if len(budgets) > 1 else "")
    lines: list[Line] = [((which, "dim"),), tuple(spans), *_flow(legend, width)]
    for note in budget.notes[:2]:
        lines += wrap_spans((f"  {glyphs.dot} ", "dim"), safe(note, limit=400), "dim", width, limit=2)
    return lines


def _flow(entries: Sequence[Line], width: int) -> list[Line]:
    """Entries one after the other, indented; a row ends before the entry that it has no room for."""
    rows: list[list[Span]] = []
    at = width
    for entry in entries:
        room = sum(len(text) for text, _ in entry)
        if at + room > width:
            rows.append([("  ", "text")])
            at = 2
        rows[-1] += entry
        at += room
    return [tuple(row) for row in rows]


def plan_lines(plan: Plan, width: int, glyphs: Glyphs, *, full: bool = True) -> list[Line]:
    """The whole plan: every rank's command once, the others by what differs from it."""
    head = next((r for r in plan.ranks if r.is_head), plan.ranks[0] if plan.ranks else None)
    out: list[Line] = [
        ((f" {safe(plan.recipe_title)}", "strong"),),
        (
            (f" boot {safe(plan.boot_label or plan.boot_number)}", "text"),
            (f"   {len(plan.ranks)} ranks, head {safe(plan.head_node)}   port {plan.port}", "text"),
        ),
        (
            (f" serves {safe(plan.served_name)}   ready within {clock_span(plan.ready_timeout_s)}", "dim"),
            (f"   image {safe(plan.image)}", "dim"),
        ),
        (),
    ]
    blocks = len(plan.blocks)
    verdict = f"{blocks} blocked" if blocks else "nothing blocks"
    out.append(((" findings  ", "title"), (f"{len(plan.findings)}, {verdict}", "bad bold" if blocks else "ok")))
    out += finding_lines(plan.findings, width, glyphs) or [((" none", "dim"),)]
    out += matrix_lines(plan, width, glyphs)
    if bar := memory_lines(plan.memory, width, glyphs):
        out += [(), ((" memory of a node", "title"),), *bar]
    out += [(), ((" what starts where", "title"),)]
    out += [rank_line(rank) for rank in plan.ranks]
    if plan.differs or plan.unexplained:
        out += [(), ((" what is not equal on all ranks", "title"),)]
        for d in plan.differs:
            text = f"{safe(d.what)}: " + "  ".join(mask_text(safe(v, limit=60), plan.secrets) for v in d.values)
            out += wrap_spans((f" {glyphs.dot} ", "dim"), f"{text}  ({safe(d.why)})", "text", width, limit=3)
        for words in plan.unexplained:
            out += wrap_spans((f" {glyphs.failed} ", "bad"), f"unexplained: {safe(words)}", "bad", width, limit=3)
    if full and head is not None:
        out += _commands(plan, head, width)
    return out


def matrix_lines(plan: Plan, width: int, glyphs: Glyphs) -> list[Line]:
    """Where nodes differ: a row a thing, a sign a node, then who has what instead; nothing where all are equal."""
    rows = [row for row in plan.matrix if row.differs]
    if not rows:
        return []
    nodes = [rank.node for rank in plan.ranks]
    out: list[Line] = [(), ((" where the nodes differ", "title"), (f"   {len(plan.matrix)} things compared", "dim"))]
    for row in rows:
        signs: list[Span] = []
        for node in nodes[:32]:
            value = row.values.get(node)
            sign, role = (glyphs.unknown, "dim") if value is None else (glyphs.done, "ok")
            signs.append((glyphs.failed, "bad bold") if node in row.differs else (sign, role))
        odd = ", ".join(f"{safe(n, limit=20)} {safe(row.values.get(n), limit=40)}" for n in row.differs[:4])
        more = f" and {len(row.differs) - 4} more" if len(row.differs) > 4 else ""
        text = f"{odd}{more}; the others {safe(row.majority, limit=40)}"
        lead = f"  {fit(safe(row.what), 18)} "
        first, *rest = wrap(text, max(20, width - len(lead) - len(signs) - 2), limit=2) or [""]
        out.append(((lead, "text"), *signs, ("  " + first, "warn")))
        out += [((" " * (len(lead) + len(signs) + 2) + part, "warn"),) for part in rest]
    return out


def rank_line(rank: RankPlan) -> Line:
    return (
        (f"  {rank.rank:>3} ", "strong"),
        (fit_name(safe(rank.node), 12), "text"),
        (" head  " if rank.is_head else "       ", "key"),
        (safe(rank.container), "dim"),
    )


def _commands(plan: Plan, head: RankPlan, width: int) -> list[Line]:
    out: list[Line] = [(), ((f" command of rank {head.rank} on {safe(head.node)}", "title"),)]
    out += _argv(plan, head, width)
    for said in how_secrets_travel(plan):
        out += [((f"  {part}", "dim"),) for part in wrap(safe(said, limit=1000), width - 4, limit=6)]
    out += [(), ((" its environment", "title"),)]
    for key, value in sorted(mask_env(head.env).items()):
        text = mask_text(safe(visible(value), limit=1000), plan.secrets)
        out += wrap_spans((f"  {safe(key)}=", "dim"), text, "text", width, limit=4)
    return out


def _argv(plan: Plan, rank: RankPlan, width: int) -> list[Line]:
    """One flag a line with its values, masked."""
    rows: list[str] = []
    for word in mask_argv(rank.argv):
        text = mask_text(safe(visible(word), limit=2000), plan.secrets)
        if text.startswith("-") or not rows:
            rows.append(text)
        else:
            rows[-1] += " " + text
    return [((f"  {part}" if i == 0 else f"      {part}", "text"),) for row in rows
            for i, part in enumerate(wrap(row, width - 8, limit=8) or [""])]  # fmt: skip
