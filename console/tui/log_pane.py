"""The log pane: the view, its title that tells what is shown and what is not, one prompt for search and filter."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from console.base.errors import UsageError
from console.boot.state import BootState
from console.services.hub import HubApi, LogLine
from console.tui.glyphs import UNICODE, Glyphs
from console.tui.lasting import while_here
from console.tui.log_paint import text_of
from console.tui.log_search import Stand
from console.tui.log_store import Filter, compile_pattern, level_of, read_filter
from console.tui.log_view import LogView
from console.tui.paint import Paint
from console.tui.pane import Pane
from console.tui.spans import Span, safe

SLICE_S: Final = 0.008  # of the loop, between two of which other work goes


class LogPane(Pane):
    """Merged lines of the deployment on show."""

    NAME = "Logs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "go_on(1)", "next match", show=False, id="logs.search-on"),
        Binding("N", "go_on(-1)", "match before", show=False, id="logs.search-back"),
    ]

    def __init__(self, hub: HubApi, *, id: str = "logs") -> None:  # noqa: A002
        super().__init__(id=id)
        self.hub = hub
        self.glyphs: Glyphs = UNICODE
        self.searching = False
        self.wrapped = ""  # `start` or `end`, where the last step went round
        self._stand: Stand | None = None
        self._before: re.Pattern[str] | None = None
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

    @while_here
    def set_paint(self, paint: Paint, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        self.view.set_paint(paint, glyphs)
        self.retitle(paint)
        self.draw()

    @while_here
    def show(self, boot: BootState | None, turn: int = 0) -> None:
        """Stage marks of this boot; another deployment begins a log of its own, and so does a replay turned back."""
        deployment = boot.deployment if boot is not None else None
        if (deployment, turn) != (self._deployment, self._turn):
            self._deployment, self._turn = deployment, turn
            self._leave_off()
            self.view.restart()
            self.draw()
        if boot is not None:
            marks = {(r.rank, c.line): c.stage for r in boot.ranks for c in r.cells if c.line is not None}
            self.view.set_marks(marks)

    def on_log_view_changed(self, event: LogView.Changed) -> None:
        event.stop()
        self.draw()

    @while_here
    def draw(self) -> None:
        view, g = self.view, self.glyphs
        wanted = view.store.filter
        ranks = "all ranks" if wanted.ranks is None else "rank " + ", ".join(str(r) for r in sorted(wanted.ranks))
        spans: list[Span] = [("Logs ", "title"), (f"{ranks} ", "strong")]
        if view.follow:
            spans.append((f"{g.follow} following ", "ok"))
        else:
            spans.append((f"{g.pause} paused +{view.new:,} new ", "warn bold" if view.new else "warn"))
        spans += self._search_words()
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
        if view.store.dropped:
            spans.append((f"{g.dot} {view.store.dropped:,} dropped ", "dim"))
        if view.missing:
            spans.append((f"{g.dot} {view.missing:,} missing ", "bad"))
        if view.wrapping:
            spans.append((f"{g.dot} wrap ", "dim"))
        self.set_title(tuple(spans))

    def _search_words(self) -> list[Span]:
        """What is searched, which match of how many this is, and that it went round."""
        found, dot = self.view.search, self.glyphs.dot
        spans: list[Span] = [("searching … ", "active")] if self.searching else []
        if found is not None:
            spans.append((f"{dot} /{safe(found.pattern.pattern, limit=30)}/ ", "log-search"))
            spans.append((f"{found.words(self.view.match)} ", "strong" if found.count else "warn"))
        if self.wrapped:
            spans.append((f"went round, from the {self.wrapped} ", "warn"))
        return spans

    # -- prompt ----------------------------------------------------------------------------------------------

    def ask(self, what: str) -> None:
        """Open the prompt for `search` or `filter`."""
        self._asking = what
        prompt = self.query_one(Input)
        wanted, found = self.view.store.filter, self.view.search
        if what == "search":
            self._before = found.pattern if found is not None else None
            self._stand = self.view.stand
            prompt.placeholder = "search: a regular expression; enter keeps it, n N go on, esc goes back"
            with prompt.prevent(Input.Changed):
                prompt.value = found.pattern.pattern if found is not None else ""
            prompt.select_all()
        else:
            prompt.placeholder = "filter: r0,3  warn  error  or a regular expression; empty shows all"
            prompt.value = wanted.words
        prompt.display = True
        prompt.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            if self._asking == "search":
                self._search(event.value)
                if (found := self.view.search) is not None and found.complete and not found.count:
                    self.notify(f"no match for {found.pattern.pattern}", severity="warning", markup=False)
            else:
                self.view.set_filter(read_filter(event.value))
        except UsageError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self._close_prompt()

    def on_input_changed(self, event: Input.Changed) -> None:
        """While a search is typed, its nearest match is shown at once; half an expression waits for its rest."""
        event.stop()
        if self._asking != "search" or not event.input.display:
            return
        try:
            self._search(event.value)
        except UsageError:
            self.draw()

    def _search(self, words: str) -> None:
        """Look for it from where the reader stood when he began. Raises UsageError."""
        text = words.strip()
        pattern = compile_pattern(text) if text else None
        found = self.view.search
        if found is not None and pattern is not None and found.pattern == pattern:
            return
        self.wrapped = ""
        stand = self._stand or self.view.stand
        self.view.set_search(pattern, stand)
        if pattern is None:
            self.view.go_back(stand)
            self.draw()
        else:
            self._when_found(self._show_nearest)

    def _show_nearest(self) -> None:
        found = self.view.search
        number = found.nearest() if found is not None else None
        if found is None or number is None:
            self.view.go_back(self._stand or self.view.stand)
        else:
            self.view.show_row(self.view.store.row_of(number))

    def _when_found(self, then: Callable[[], None]) -> None:
        """Look at what is left of the lines, a slice at a time, then go on."""
        self._leave_off()
        found = self.view.search
        if found is None or found.scan(SLICE_S):
            then()
            self.draw()
            return

        async def rest() -> None:
            while self.view.search is found and not found.scan(SLICE_S):  # noqa: ASYNC110  other work goes between two slices
                await asyncio.sleep(0)
            if self.view.search is found:
                then()

        self._hunt_on(rest)

    def _hunt_on(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """The one search that goes on; however it ends, it is no longer said to go on."""

        async def hunt() -> None:
            try:
                await work()
            finally:
                if self._hunt is asyncio.current_task():
                    self._hunt, self.searching = None, False
            self.draw()

        self.searching = True
        self._hunt = asyncio.get_running_loop().create_task(hunt())
        self.draw()

    def _leave_off(self) -> None:
        if self._hunt is not None:
            self._hunt.cancel()
        self._hunt, self.searching = None, False

    def _end_search(self, pattern: re.Pattern[str] | None = None) -> None:
        """Back to where it began, with the search of before, or with none."""
        found = self.view.search
        stand = found.stand if found is not None else self._stand
        self._leave_off()
        self.wrapped = ""
        self.view.set_search(pattern, stand)
        if pattern is not None and self.view.search is not None:
            self.view.search.scan(SLICE_S)
        if stand is not None:
            self.view.go_back(stand)
        self.draw()

    def _close_prompt(self) -> None:
        self.query_one(Input).display = False
        self.view.focus()
        self.draw()

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            if self.query_one(Input).display:
                event.stop()
                if self._asking == "search":
                    self._end_search(self._before)
                self._close_prompt()
            elif self.view.search is not None:
                event.stop()
                self._end_search()

    def on_unmount(self) -> None:
        self._leave_off()

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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """n and N are the search's while one is on, and else whatever they are on the screen."""
        if action == "go_on" and self.view.search is None:
            return False
        return super().check_action(action, parameters)

    def action_go_on(self, step: int) -> None:
        self.next_match(step)

    def next_match(self, step: int) -> None:
        if self.view.search is None:
            self.notify("nothing was searched yet: / begins", markup=False)
            return
        self._when_found(lambda: self._step(step))

    def _step(self, step: int) -> None:
        found, view = self.view.search, self.view
        if found is None:
            return
        shown = view.visible_numbers()
        edge = (shown[0] - 1 if step > 0 else shown[-1] + 1) if shown else view.store.base
        held = view.match is not None and view.store.line(view.match) is not None
        number = found.step(view.match if held and view.match is not None else edge, step)
        self.wrapped = found.wrapped if found.count > 1 else ""
        if number is None:
            self.notify(f"no match for {found.pattern.pattern}", severity="warning", markup=False)
        else:
            view.show_row(view.store.row_of(number))

    def next_error(self, step: int) -> None:
        self._look(lambda line: level_of(line) >= 3, step, "no line with an error is held")

    def next_stage(self, step: int) -> None:
        self._look(lambda line: self.view.is_stage(line.rank, line.index), step, "no line that opened a stage is held")

    def _look(self, wanted: Callable[[LogLine], bool], step: int, nothing: str) -> None:
        self._leave_off()
        view = self.view
        view.flush()  # while the log is not on screen it takes no lines by itself
        if not view.store.rows:
            self.notify("no lines yet", markup=False)
            return
        start = view.start_row(step) % view.store.rows
        rows = view.store.search(wanted, start, step)
        if not self._advance(rows, nothing, start, step):
            self._hunt_on(lambda: self._go_on(rows, nothing, start, step))

    def _advance(self, rows: Iterator[int], nothing: str, start: int, step: int) -> bool:
        """One slice of a search from row `start`; True when it ended."""
        row = next(rows, None)
        if row is None:
            self.notify(nothing, severity="warning", markup=False)
        elif row >= 0:
            self.wrapped = ("start" if row < start else "") if step > 0 else ("end" if row > start else "")
            self.view.show_row(row)
        else:
            return False
        return True

    async def _go_on(self, rows: Iterator[int], nothing: str, start: int, step: int) -> None:
        while not self._advance(rows, nothing, start, step):  # noqa: ASYNC110  as above
            await asyncio.sleep(0)

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
