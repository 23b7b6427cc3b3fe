"""The log as it comes: a line-drawing widget that takes any flood, and leaves a reader who scrolled up where he is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from time import perf_counter
from typing import ClassVar, Final

from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from console.enginelog.stages_model import Stage
from console.services.hub import HubApi
from console.tui.glyphs import UNICODE, Glyphs
from console.tui.lasting import Lasting, while_here
from console.tui.log_paint import body, gutter, wrapped
from console.tui.log_search import LogSearch, Stand
from console.tui.log_store import Filter, LogStore
from console.tui.paint import Paint
from console.tui.plain_bars import fit_bars
from console.tui.spans import Line, clip, line_width

FLUSH_S: Final = 0.15  # 6-7 a second: the cost is the painting, not the lines
PULL_S: Final = 0.012  # of each flush, for taking lines
SCAN_S: Final = 0.005  # of each flush, for the filter
BATCH: Final = 5000
FOLD_COLUMNS: Final = 110  # below it the engine's own header would leave no room for its message


class LogView(Lasting, ScrollView, can_focus=True):
    """Reads the hub's log while it is on screen. Any manual scroll upwards ends following; `follow_end` begins it."""

    DEFAULT_CSS = """
    LogView { height: 1fr; background: $background; scrollbar-size: 1 1; overflow-x: hidden; overflow-y: scroll; }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    class Changed(Message):
        """Counters or the way of reading changed: the title shows them."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LogView.Changed)

    def __init__(self, hub: HubApi, *, keep: int | None = None, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.hub = hub
        self.store = LogStore() if keep is None else LogStore(keep)
        self.paint: Paint | None = None
        self.glyphs: Glyphs = UNICODE
        self.follow = True
        self.wrapping = False
        self.new = 0
        self.missing = 0
        self.search: LogSearch | None = None
        self.match: int | None = None
        self._marks: Mapping[tuple[int, int], Stage] = {}
        self._seq = 0
        self._next_index: dict[int, int] = {}
        self._widest = 0
        self._strips: LRUCache[tuple[int, int, bool], Line] = LRUCache(512)
        self._layout: list[tuple[int, Line]] = []
        self._own_scroll = False
        self._base = Style()
        self._timer: Timer | None = None

    # -- life ------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self._timer = self.set_interval(FLUSH_S, self.flush, pause=True)

    def on_show(self) -> None:
        if self._timer is not None:
            self._timer.resume()
        self.flush()

    def on_hide(self) -> None:
        if self._timer is not None:
            self._timer.pause()

    def on_resize(self, _event: events.Resize) -> None:
        self._strips.clear()
        self._settle()

    def set_paint(self, paint: Paint, glyphs: Glyphs) -> None:
        self.paint, self.glyphs = paint, glyphs
        fit_bars(self, paint)
        self._forget()

    def set_marks(self, marks: Mapping[tuple[int, int], Stage]) -> None:
        """Lines that opened a stage, by (rank, index in that rank's log)."""
        if marks != self._marks:
            self._marks = marks
            self._forget()

    def restart(self) -> None:
        """Another deployment is on show: begin from its first line that is held."""
        self.store.clear()
        self._seq, self._next_index = 0, {}
        self.new = self.missing = self._widest = 0
        self.match = None
        if self.search is not None:
            self.search = LogSearch(self.store, self.search.pattern, Stand(0, 0, True))
        self.follow = True
        self._forget()
        self.flush()

    # -- lines -----------------------------------------------------------------------------------------------

    @while_here
    def flush(self) -> None:
        """Take what came, within a slice of time; what is left comes with the next tick."""
        until = perf_counter() + PULL_S
        added = gone = 0
        counters = (self.missing, self.store.dropped)
        while True:
            batch = self.hub.log(self._seq, limit=BATCH)
            if batch.lost:
                self.missing += batch.lost
                self._next_index.clear()
            self._seq = batch.next_seq
            if not batch.lines:
                break
            added += len(batch.lines)
            self._count_gaps(batch.lines)
            gone += self.store.append(batch.lines)
            if perf_counter() > until:
                break
        looked = self.search is not None and not self.search.complete
        if self.search is not None and looked:
            self.search.scan(SCAN_S)
        was = self.store.rows
        if self.store.scanning:
            self.store.scan(SCAN_S)
        grew = added if self.store.filter.passes_all else self.store.rows - was
        if not (added or gone or grew or looked or counters != (self.missing, self.store.dropped)):
            return
        if not self.follow:
            self.new += max(0, grew)
            if gone:
                self._scroll(max(0.0, self.scroll_y - gone))
        self._settle(repaint=self.follow or bool(gone) or self._tail_visible(grew))
        self.post_message(self.Changed())

    def _count_gaps(self, lines: tuple) -> None:  # type: ignore[type-arg]
        expected = self._next_index
        for line in lines:
            want = expected.get(line.rank)
            if want is not None and line.index > want:
                self.missing += line.index - want
            expected[line.rank] = line.index + 1

    def _tail_visible(self, grew: int) -> bool:
        return grew > 0 and self.scroll_y + self.size.height >= self.store.rows - grew

    # -- geometry --------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._strips.clear()
        self.refresh()

    def _settle(self, *, repaint: bool = True) -> None:
        height = self.size.height
        rows = self.store.rows
        total = rows + (max(0, height - 1) if self.wrapping and not self.follow and rows else 0)
        self._own_scroll = True
        try:
            # The bar is always there, so growing needs no new layout of the screen, which assigning would cause.
            self.set_reactive(Widget.virtual_size, Size(0 if self.wrapping else max(self._widest, 1), total))
            if self.follow:
                self._scroll(float(max(0, total - height)))
            elif self.scroll_y > self.max_scroll_y:
                self._scroll(float(self.max_scroll_y))
            if self.show_vertical_scrollbar:
                self.vertical_scrollbar.window_virtual_size = total
                self.vertical_scrollbar.window_size = height
                self.vertical_scrollbar.position = self.scroll_y
        finally:
            self._own_scroll = False
        if repaint:
            self._layout = []
            self.refresh()

    def _scroll(self, y: float) -> None:
        self._own_scroll = True
        try:
            self.scroll_to(y=y, animate=False, force=True, immediate=True)
        finally:
            self._own_scroll = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self.follow and not self._own_scroll and new_value < old_value and new_value < self.max_scroll_y:
            self._unfollow()
        self._layout = []

    def _unfollow(self) -> None:
        if self.follow:
            self.follow = False
            self.new = 0
            self._settle()
            self.post_message(self.Changed())

    def pause(self) -> None:
        self._unfollow()

    def follow_end(self) -> None:
        """Jump to now and stay there."""
        self.follow = True
        self.new = 0
        self._settle()
        self.post_message(self.Changed())

    def action_scroll_end(self) -> None:
        self.follow_end()

    def toggle_wrap(self) -> None:
        top = self.top_row
        self.wrapping = not self.wrapping
        self._forget()
        self._settle()
        if not self.follow:
            self._scroll(float(top))
        self.post_message(self.Changed())

    @property
    def top_row(self) -> int:
        return round(self.scroll_y)

    # -- painting --------------------------------------------------------------------------------------------

    def _line(self, number: int) -> tuple[Line, Line]:
        line = self.store.line(number)
        if line is None:
            return (), ()
        stage = self._marks.get((line.rank, line.index))
        fold = not self.wrapping and self.size.width < FOLD_COLUMNS
        lead = gutter(line, self.glyphs, stage.word if stage is not None else "")
        return lead, body(line, self.search.pattern if self.search is not None else None, fold=fold)

    def _rows_on_screen(self) -> list[tuple[int, Line]]:
        """(absolute number, spans) for each row of the screen, made once for each painting."""
        if self._layout:
            return self._layout
        height, width = self.size.height, self.size.width
        out: list[tuple[int, Line]] = []
        if not self.wrapping:
            for row in range(self.top_row, min(self.store.rows, self.top_row + height)):
                number = self.store.number(row)
                key = (number, 0, False)
                spans = self._strips.get(key)
                if spans is None:
                    lead, text = self._line(number)
                    spans = self._strips[key] = lead + text
                out.append((number, spans))
        elif self.follow:
            row = self.store.rows - 1
            while row >= 0 and len(out) < height:
                number = self.store.number(row)
                out = [(number, part) for part in wrapped(*self._line(number), width)] + out
                row -= 1
            out = out[-height:] if height else []
        else:
            for row in range(self.top_row, self.store.rows):
                number = self.store.number(row)
                out += [(number, part) for part in wrapped(*self._line(number), width)]
                if len(out) >= height:
                    break
        self._layout = out
        widest = max((line_width(spans) for _, spans in out), default=0)
        if widest > self._widest and not self.wrapping:
            self._widest = widest
        return out

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = self.rich_style  # costs more than a line does: once for each painting
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        base = self._base
        width = self.size.width
        rows = self._rows_on_screen()
        if self.paint is None or y >= len(rows):
            return Strip.blank(width, base)
        number, spans = rows[y]
        if number == self.match:
            spans = tuple((text, f"{role} underline") for text, role in spans)
        left = 0 if self.wrapping else round(self.scroll_x)
        if not left:
            return self.paint.strip(clip(spans, width), width, base)
        return self.paint.strip(spans, max(width + left, line_width(spans)), base).crop(left, left + width)

    # -- looking for things ----------------------------------------------------------------------------------

    def set_filter(self, wanted: Filter) -> None:
        """Show what passes; a reader keeps the line at the top of his screen, or the next one that passes."""
        top = self.store.number(self.top_row) if 0 <= self.top_row < self.store.rows else self.store.base
        self.store.set_filter(wanted)
        self.store.scan(SCAN_S)
        if self.search is not None:
            self.search.scan(SCAN_S)
        self.new = 0
        self._settle()
        if not self.follow:
            self._scroll(float(self.store.row_of(top)))
        self.post_message(self.Changed())

    @property
    def stand(self) -> Stand:
        """Where the reader is now."""
        shown = self.visible_numbers()
        top, bottom = (shown[0], shown[-1]) if shown else (self.store.base, self.store.end)
        return Stand(top, bottom, self.follow)

    def set_search(self, pattern: re.Pattern[str] | None, stand: Stand | None = None) -> None:
        """Begin a search from where the reader stands, or take it off."""
        self.search = LogSearch(self.store, pattern, stand or self.stand) if pattern is not None else None
        self.match = None
        self._layout = []
        self._forget()

    def go_back(self, stand: Stand) -> None:
        """To where the reader stood before."""
        self.match = None
        if stand.follow:
            self.follow_end()
        else:
            self._unfollow()
            self._scroll(float(self.store.row_of(max(stand.top, self.store.base))))
        self._layout = []
        self.refresh()

    def show_row(self, row: int) -> None:
        """Stop following and bring a row a third down the screen."""
        self._unfollow()
        self.match = self.store.number(row)
        self._settle()
        self._scroll(float(max(0, row - self.size.height // 3)))
        self._layout = []
        self.refresh()
        self.post_message(self.Changed())

    def start_row(self, step: int) -> int:
        """Where a search begins: after the last match, else at the edge of the screen that it moves away from."""
        if self.match is not None and self.store.line(self.match) is not None:
            return self.store.row_of(self.match) + step
        return self.top_row if step > 0 else min(self.store.rows - 1, self.top_row + self.size.height - 1)

    def visible_numbers(self) -> list[int]:
        return list(dict.fromkeys(number for number, _ in self._rows_on_screen()))

    def is_stage(self, rank: int, index: int) -> bool:
        return (rank, index) in self._marks

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self._unfollow()
