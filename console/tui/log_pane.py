"""The log pane: the view, its title that tells what is shown and what is not, one prompt for search and filter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from textual import events
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Input

from console.base.errors import UsageError
from console.boot.state import BootState
from console.services.hub import HubApi, LogLine
from console.tui.glyphs import UNICODE, Glyphs
from console.tui.log_paint import text_of
from console.tui.log_store import Filter, compile_pattern, level_of, read_filter
from console.tui.log_view import LogView
from console.tui.paint import Paint
from console.tui.pane import Pane
from console.tui.spans import Span, safe


class LogPane(Pane):
    """Merged lines of the deployment on show."""

    NAME = "Logs"

    def __init__(self, hub: HubApi, *, id: str = "logs") -> None:  # noqa: A002
        super().__init__(id=id)
        self.hub = hub
        self.glyphs: Glyphs = UNICODE
        self.searching = False
        self._asking = "search"
        self._deployment: str | None = None
        self._turn = 0
        self._hunt: asyncio.Task[None] | None = None

    def compose(self) -> ComposeResult:
        yield LogView(self.hub, id="log")
        prompt = Input(id="log-prompt", compact=True)
        prompt.display = False
        yield prompt

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    @property
    def target(self) -> Widget:
        return self.view

    def set_paint(self, paint: Paint, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        self.view.set_paint(paint, glyphs)
        self.retitle(paint)
        self.draw()

    def show(self, boot: BootState | None, turn: int = 0) -> None:
        """Stage marks of this boot; another deployment begins a log of its own, and so does a replay turned back."""
        deployment = boot.deployment if boot is not None else None
        if (deployment, turn) != (self._deployment, self._turn):
            self._deployment, self._turn = deployment, turn
            self.view.restart()
        if boot is not None:
            marks = {(r.rank, c.line): c.stage for r in boot.ranks for c in r.cells if c.line is not None}
            self.view.set_marks(marks)

    def on_log_view_changed(self, event: LogView.Changed) -> None:
        event.stop()
        self.draw()

    def draw(self) -> None:
        view, g = self.view, self.glyphs
        wanted = view.store.filter
        ranks = "all ranks" if wanted.ranks is None else "rank " + ", ".join(str(r) for r in sorted(wanted.ranks))
        spans: list[Span] = [("Logs ", "title"), (f"{ranks} ", "strong")]
        if view.follow:
            spans.append((f"{g.follow} following ", "ok"))
        else:
            spans.append((f"{g.pause} paused +{view.new:,} new ", "warn bold" if view.new else "warn"))
        rest = f"{view.store.rows:,} lines"
        if not wanted.passes_all:
            rest = f"{view.store.rows:,} of {len(view.store):,} lines"
            words = [w for w in (("warnings up", "errors")[wanted.level - 2] if wanted.level >= 2 else "",) if w]
            if wanted.pattern is not None:
                words.append(f"/{safe(wanted.pattern.pattern, limit=40)}/")
            if words:
                spans.append((f"{g.dot} filter {' '.join(words)} ", "warn"))
        spans.append((f"{g.dot} {rest} ", "dim"))
        if view.store.scanning:
            spans.append(("filtering … ", "active"))
        if self.searching:
            spans.append(("searching … ", "active"))
        if view.store.dropped:
            spans.append((f"{g.dot} {view.store.dropped:,} dropped ", "dim"))
        if view.missing:
            spans.append((f"{g.dot} {view.missing:,} missing ", "bad"))
        if view.pattern is not None:
            spans.append((f"{g.dot} search {safe(view.pattern.pattern, limit=30)} ", "log-search"))
        if view.wrapping:
            spans.append((f"{g.dot} wrap ", "dim"))
        self.set_title(tuple(spans))

    # -- prompt ----------------------------------------------------------------------------------------------

    def ask(self, what: str) -> None:
        """Open the prompt for `search` or `filter`."""
        self._asking = what
        prompt = self.query_one(Input)
        wanted, pattern = self.view.store.filter, self.view.pattern
        if what == "search":
            prompt.placeholder = "search: a regular expression; enter goes up from here, ] and [ go on"
            prompt.value = pattern.pattern if pattern is not None else ""
        else:
            prompt.placeholder = "filter: r0,3  warn  error  or a regular expression; empty shows all"
            prompt.value = wanted.words
        prompt.display = True
        prompt.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            if self._asking == "search":
                text = event.value.strip()
                self.view.set_pattern(compile_pattern(text) if text else None)
                if text:
                    self.next_match(-1)
            else:
                self.view.set_filter(read_filter(event.value))
        except UsageError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self._close_prompt()

    def _close_prompt(self) -> None:
        self.query_one(Input).display = False
        self.view.focus()
        self.draw()

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            if self.query_one(Input).display:
                event.stop()
                self._close_prompt()
            elif self.view.pattern is not None:
                event.stop()
                self.view.set_pattern(None)
                self.draw()

    def on_unmount(self) -> None:
        if self._hunt is not None:
            self._hunt.cancel()

    # -- actions ---------------------------------------------------------------------------------------------

    def show_rank(self, rank: int | None) -> None:
        old = self.view.store.filter
        ranks = None if rank is None else frozenset({rank})
        words = " ".join(w for w in old.words.split() if not w.lower().startswith("r") or not w[1:2].isdigit())
        text = (f"r{rank} " if rank is not None else "") + words
        self.view.set_filter(Filter(ranks, old.level, old.pattern, text.strip()))

    def toggle_follow(self) -> None:
        if self.view.follow:
            self.view.pause()
        else:
            self.view.follow_end()

    def next_match(self, step: int) -> None:
        pattern = self.view.pattern
        if pattern is None:
            self.notify("nothing was searched yet: / begins", markup=False)
            return
        self._look(lambda line: pattern.search(line.text) is not None, step, f"no match for {pattern.pattern}")

    def next_error(self, step: int) -> None:
        self._look(lambda line: level_of(line) >= 3, step, "no line with an error is held")

    def next_stage(self, step: int) -> None:
        self._look(lambda line: self.view.is_stage(line.rank, line.index), step, "no line that opened a stage is held")

    def _look(self, wanted: Callable[[LogLine], bool], step: int, nothing: str) -> None:
        if self._hunt is not None:
            self._hunt.cancel()
        view = self.view
        if not view.store.rows:
            self.notify("no lines yet", markup=False)
            return
        rows = view.store.search(wanted, view.start_row(step) % view.store.rows, step)
        if not self._advance(rows, nothing):
            self.searching = True
            self._hunt = asyncio.get_running_loop().create_task(self._go_on(rows, nothing))

    def _advance(self, rows: Iterator[int], nothing: str) -> bool:
        """One slice of a search; True when it ended."""
        row = next(rows, None)
        if row is None:
            self.notify(nothing, severity="warning", markup=False)
        elif row >= 0:
            self.view.show_row(row)
        else:
            return False
        self.searching = False
        return True

    async def _go_on(self, rows: Iterator[int], nothing: str) -> None:
        while not self._advance(rows, nothing):  # noqa: ASYNC110  other work goes between two slices
            await asyncio.sleep(0)
        self.draw()

    def jump(self, rank: int, index: int) -> None:
        """Show a line of a rank's own log; a filter that hides it is taken off."""
        view = self.view
        number = view.store.find_index(rank, index)
        if number is None:
            self.notify(f"line {index + 1:,} of rank {rank} is no longer held", severity="warning", markup=False)
            return
        line = view.store.line(number)
        if line is not None and not view.store.filter.wants(line):
            view.set_filter(Filter())
        if not view.store.filter.passes_all:
            view.store.scan(0.05)
        view.show_row(view.store.row_of(number))

    def visible_text(self) -> str:
        """The lines on screen, as they are copied."""
        store = self.view.store
        found = [store.line(n) for n in self.view.visible_numbers()]
        return "\n".join(text_of(line) for line in found if line is not None)
