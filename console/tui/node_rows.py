"""A node as one line, or as two where the terminal is narrow; the header to match. Pure: spans in, nothing kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.services.hub import NodeView
from console.tui.figures import NA, age, gib, one, rate, size, whole
from console.tui.glyphs import Glyphs, bar, spark
from console.tui.node_figures import Figures, Standouts
from console.tui.spans import Line, Span, clip, fit, fit_name, safe

STATE_WIDTH = 13
WIDE = 118  # cells from which one line holds every column
STATES = {"fresh": "fresh", "late": "late", "lost": "lost", "waiting": "idle"}


@dataclass(frozen=True, slots=True)
class Look:
    """How wide, with which signs, and which names: what is the same for all rows."""

    width: int
    glyphs: Glyphs
    name_width: int = 6
    sort: str = ""

    @property
    def wide(self) -> bool:
        return self.width >= WIDE

    @property
    def bar_width(self) -> int:
        return min(40, 12 + max(0, (self.width - WIDE) // 3)) if self.wide else 14

    @property
    def spark_width(self) -> int:
        return min(30, 8 + max(0, (self.width - WIDE) // 4)) if self.wide else 12


def state_span(view: NodeView, glyphs: Glyphs) -> Span:
    """Sign and word: the word says how late, or why lost."""
    sign = {"fresh": glyphs.fresh, "late": glyphs.late, "lost": glyphs.lost}.get(view.state, glyphs.waiting)
    word = view.state
    if view.state == "lost" and view.trouble not in ("", "lost"):
        word = f"lost {safe(view.trouble, limit=12)}"
    role = STATES.get(view.state, "idle")
    return f"{sign} {word}", f"{role} bold" if role == "lost" else role


def header(look: Look, total: float | None) -> Line:
    """Column names; with one line a row each name stands over its column."""
    of = f"used of {gib(total)} GiB" if total is not None else "used"
    lead = f"  {fit('node', look.name_width)} {'rank':>4} {fit('state', STATE_WIDTH)} "
    if not look.wide:
        names = f"{lead}{fit('memory', look.bar_width)} {'used':>5} {'free':>6}  last 10 min"
        return clip(((names, "head"),), look.width, "head")
    names = (
        f"{lead}{fit(of, look.bar_width)} {'GiB':>5} {'free':>6}   {fit('last 10 min', look.spark_width)} "
        f"{'gpu':>5} {'°C':>4} {'W':>4} {'MHz':>5} {'in/out B/s':>11} {'disk':>6}{'load':>6} {'age':>6}"
    )
    return clip(((names, "head"),), look.width, "head")


def lines(
    view: NodeView, figures: Figures, odd: Standouts, look: Look, history: Sequence[float | None]
) -> tuple[Line, ...]:
    """The row of a node. An old sample is dimmed and its age says how old; a lost node says why instead of figures."""
    old = view.state in ("lost", "late", "waiting")
    name = view.node.name
    tone = "dim" if old else "text"
    rank = "" if view.rank is None else str(view.rank)
    lead: list[Span] = [
        ("  ", "text"),
        (fit_name(safe(name), look.name_width), "strong" if not old else "text"),
        (f" {rank:>4} ", "strong" if rank else "dim"),
    ]
    word, role = state_span(view, look.glyphs)
    lead.append((fit(word, STATE_WIDTH) + " ", role))
    memory = _memory(figures, name, odd, look, tone, history)
    if view.state in ("lost", "waiting"):
        rest = _absence(view)
    else:
        rest = [*_rest(view, figures, name, odd, look, tone), ("  ", "text"), _remark(view, odd)]
    if look.wide:
        return (clip((*lead, *memory, *rest), look.width),)
    return (clip((*lead, *memory), look.width), clip((("    ", "text"), *rest), look.width))


def _absence(view: NodeView) -> list[Span]:
    """A lost node's figures are gone: their place says since when, and why."""
    if view.state == "waiting":
        return [("  no sample yet  ", "dim"), (safe(view.why or view.trouble), "late")]
    return [(f"  {age(view.age_s)} old", "lost bold"), (f"   {safe(view.why or view.trouble)}", "lost")]


def _memory(
    figures: Figures, name: str, odd: Standouts, look: Look, tone: str, history: Sequence[float | None]
) -> list[Span]:
    wide = look.bar_width
    if figures.used is None or not figures.total:
        blank: list[Span] = [(fit(NA, wide + 6), "dim"), (f" {NA:>6} ", "dim")]
    else:
        full, empty = bar(look.glyphs, figures.used / figures.total, wide)
        # The shared part (NCCL's buffers live there) ends the used bar in its own hue.
        shared = min(len(full), round((figures.shmem or 0.0) / figures.total * wide))
        share = (figures.available or 0.0) / figures.total
        level = "dim" if tone == "dim" else "bad" if share < 0.05 else "warn" if share < 0.10 else "memory"
        lowest = name == odd.lowest
        free = f" {gib(figures.available):>6}"
        free_role = "bad bold" if share < 0.05 else "warn" if share < 0.10 else "strong" if lowest else tone
        blank = [
            (full[: len(full) - shared], level),
            (full[len(full) - shared :], level if level != "memory" else "shmem"),
            (empty, "grid"),
            (f" {gib(figures.used):>5}", tone),
            (free, free_role if tone != "dim" else "dim"),
            (look.glyphs.worst_low if lowest else " ", "warn bold"),
        ]
    chart = spark(look.glyphs, history, 0.0, figures.total or 1.0)
    blank += [
        ("  " if look.wide else " ", "text"),
        (fit(chart, look.spark_width), "dim" if tone == "dim" else "memory"),
    ]
    return blank


def _rest(view: NodeView, f: Figures, name: str, odd: Standouts, look: Look, tone: str) -> list[Span]:
    g = look.glyphs

    def cell(text: str, field: str, width: int, *, hot: bool = False) -> list[Span]:
        strange = (name, field) in odd.odd
        role = "dim" if text.strip() == NA else "warn bold" if strange or hot else tone
        mark = g.outlier if strange else g.worst_high if hot else " "
        return [(fit(text, width, ">"), role), (mark, "warn bold")]

    gpu = whole(f.gpu, "%")
    traffic = f"{rate(f.rx)}/{rate(f.tx)}" if f.rx is not None or f.tx is not None else NA
    stale = {"late": "late bold", "lost": "lost bold"}.get(view.state, "dim")
    labelled = not look.wide
    spans: list[Span] = []
    spans += [("gpu" if labelled else " ", "head"), *cell(gpu, "gpu", 5)]
    spans += [*cell(whole(f.temp, "°" if labelled else ""), "temp", 4, hot=name == odd.hottest)]
    spans += [*cell(whole(f.power, "W" if labelled else ""), "power", 4 if not labelled else 5)]
    spans += [*cell(whole(f.clock, "M" if labelled else ""), "clock", 5)]
    spans += [*cell(traffic, "fabric", 11)]
    spans += [
        ("disk " if labelled else "", "head"),
        (fit(size(f.disk), 6, ">"), _na(size(f.disk), tone)),
    ]
    spans += [(" load" if labelled else "", "head"), *cell(one(f.load), "load", 6 if not labelled else 5)]
    spans += [(fit(age(view.age_s), 6, ">"), stale if view.state != "fresh" else "dim")]
    return spans


def _na(text: str, tone: str) -> str:
    return "dim" if text == NA else tone


def _remark(view: NodeView, odd: Standouts) -> Span:
    if view.trouble:
        return safe(view.why or view.trouble), "late"
    return odd.remark(view.node.name), "warn"
