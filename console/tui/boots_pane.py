"""The boots pane: the night's ledger, newest first; one in full as text."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from console.boot.figures import API, ready_text, speed_text
from console.services.hub import BootSummary
from console.tui.figures import NA, gib, hhmm, span
from console.tui.glyphs import UNICODE, Glyphs, state_sign
from console.tui.grid import Grid, Row
from console.tui.lasting import while_here
from console.tui.paint import Paint
from console.tui.pane import Pane
from console.tui.spans import Line, Span, clip, fit, fit_name, safe, wrap_spans

WIDE = 110  # cells from which the story has room beside the figures
BAD = ("failed", "stalled", "serving_bad")


def recipe_width(width: int) -> int:
    return 28 if width >= WIDE else 18


def verdict(boot: BootSummary, glyphs: Glyphs) -> Span:
    if boot.state in BAD:
        return f"{glyphs.failed} {safe(boot.state)}", "bad"
    sign, role = state_sign(boot.state, glyphs)
    return f"{sign} {safe(boot.state)}", role


def ready_words(boot: BootSummary) -> str:
    return ready_text(boot.ready_s, boot.ready_by)


def boot_row(boot: BootSummary, width: int, glyphs: Glyphs, *, marked: bool) -> tuple[Line, ...]:
    low = gib(boot.min_available_bytes) + ("*" if boot.unseen else "")
    speed = speed_text(boot.tokens_per_s)
    sign, role = verdict(boot, glyphs)
    story = safe(boot.note) or safe(boot.cause) or "; ".join(safe(c) for c in boot.changed)
    wide = width >= WIDE
    spans: list[Span] = [
        (f" {glyphs.mark if marked else ' '}{boot.number:>4} ", "key" if marked else "strong"),
        (f"{hhmm(boot.started_at)} ", "dim"),
        (fit(sign, 12) + " ", role),
        (f"{'~' if boot.ready_by == API else ''}{ready_text(boot.ready_s)}".rjust(8) + " ", "text"),
        (f"{low:>6} ", "text"),
        (f"{speed:>6}  ", "text"),
        (fit_name(safe(boot.recipe), recipe_width(width)) + " ", "text"),
    ]
    if wide:
        return (clip((*spans, (story, "dim")), width),)
    return (clip(spans, width), clip(((" " * 7 + story, "dim"),), width))


def boot_lines(boot: BootSummary, width: int, glyphs: Glyphs) -> list[Line]:
    """One boot in full."""
    out: list[Line] = [
        ((f" boot {boot.number}  {safe(boot.recipe)}  ", "strong"), verdict(boot, glyphs)),
        ((f" {safe(boot.id)}   started {hhmm(boot.started_at)}", "dim"),),
        (),
        ((f" ready in {ready_words(boot)}", "text"), (f"   lowest free {gib(boot.min_available_bytes)} GiB", "text"),
         (f"   {speed_text(boot.tokens_per_s)} tok/s", "text")),
    ]  # fmt: skip
    if boot.unseen:
        out += wrap_spans((" lowest free: ", "dim"), safe(boot.unseen), "warn", width, limit=2)
    for label, words in (("cause", boot.cause), ("note", boot.note)):
        if words:
            out += [(), *wrap_spans((f" {fit(label, 8)}", "head"), safe(words, limit=2000), "text", width, limit=6)]
    if boot.changed:
        out += [(), ((" what changed", "title"),)]
        for change in boot.changed:
            out += wrap_spans((f" {glyphs.dot} ", "warn"), safe(change), "text", width, limit=3)
    if boot.stages:
        out += [(), ((" seconds in each stage", "title"),), *_stage_bars([boot], width, glyphs)]
    return out


def _stage_bars(boots: Sequence[BootSummary], width: int, glyphs: Glyphs) -> list[Line]:
    names = list(dict.fromkeys(name for boot in boots for name in boot.stages))
    top = max((value for boot in boots for value in boot.stages.values()), default=1.0) or 1.0
    room = max(10, min(60, width - 32))
    out: list[Line] = []
    for name in names:
        for i, boot in enumerate(boots):
            value = boot.stages.get(name)
            label = fit(safe(name) if i == 0 else "", 14)
            number = f"{boot.number:>4} " if len(boots) > 1 else ""
            cells = 0 if value is None else max(1, round(value / top * room))
            figure = NA if value is None else span(value)
            out.append(
                (
                    (f" {label} {number}", "head"),
                    (glyphs.bar_full * cells, ("memory", "network")[i % 2]),
                    (f" {figure}", "text"),
                )
            )
    return out


class BootsPane(Pane):
    """Draws the ledger; asks for papers to be opened."""

    NAME = "Boots"

    class Open(Message):
        """Show a boot as text, or two of them compared, the older first."""

        def __init__(self, boots: Sequence[BootSummary]) -> None:
            super().__init__()
            self.boots = boots

    class Replay(Message):
        """Show a boot as it was lived."""

        def __init__(self, boot: BootSummary) -> None:
            super().__init__()
            self.boot = boot

    def __init__(self, *, id: str = "boots") -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs: Glyphs = UNICODE
        self.marked: str | None = None
        self._boots: Sequence[BootSummary] = ()

    def compose(self) -> ComposeResult:
        yield Grid(id="boots-list")

    @property
    def grid(self) -> Grid:
        return self.query_one(Grid)

    @property
    def target(self) -> Widget:
        return self.grid

    @while_here
    def set_paint(self, paint: Paint, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        self.grid.cursor_sign = glyphs.cursor
        self.grid.set_paint(paint)
        self.retitle(paint)
        self.draw()

    @while_here
    def show(self, boots: Sequence[BootSummary]) -> None:
        self._boots = boots
        self.draw()

    def on_resize(self, _event: events.Resize) -> None:
        self.draw()

    @while_here
    def draw(self) -> None:
        width = max(20, self.size.width - 1)
        columns = f"{fit('verdict', 12)} {'ready in':>8} {'low':>6} {'tok/s':>6}  {fit('recipe', recipe_width(width))}"
        head = f"    no  at    {columns} note, cause, change"
        rows = [Row(b.id, boot_row(b, width, self.glyphs, marked=b.id == self.marked)) for b in self._boots]
        none = Row("", (clip(((" no boot is kept yet: each launch is", "dim"),), width),))
        self.grid.set_content(clip(((head, "head"),), width, "head"), rows or [none])
        good = sum(1 for b in self._boots if b.ready_s is not None)
        title: list[Span] = [("Boots ", "title"), (f"{len(self._boots)} ", "strong"), (f"{good} became ready ", "dim")]
        if self.marked is not None:
            title.append((f"{self.glyphs.dot} compare with: mark another ", "key"))
        self.set_title(tuple(title))

    def _boot(self, key: str | None) -> BootSummary | None:
        return next((b for b in self._boots if b.id == key), None)

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()

    @property
    def chosen(self) -> BootSummary | None:
        """The boot under the cursor."""
        return self._boot(self.grid.cursor_key)

    def on_grid_picked(self, event: Grid.Picked) -> None:
        event.stop()
        boot = self._boot(event.key)
        if boot is not None:
            self.post_message(self.Replay(boot))

    def compare(self) -> None:
        """Mark the boot under the cursor; the second mark opens the comparison, older boot first."""
        here, first = self._boot(self.grid.cursor_key), self._boot(self.marked)
        if here is None:
            return
        if first is None:
            self.marked = here.id
        elif first.id == here.id:
            self.marked = None
        else:
            self.marked = None
            self.post_message(self.Open(sorted((first, here), key=lambda b: b.started_at)))
        self.draw()
