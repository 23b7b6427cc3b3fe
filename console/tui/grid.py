"""A table of painted lines with a cursor: repaints only the lines that changed, keeps the cursor on its row's key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.tui.lasting import Lasting
from console.tui.paint import Paint
from console.tui.plain_bars import fit_bars
from console.tui.spans import Line


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its key, and one or more lines of the same height for all rows."""

    key: str
    lines: tuple[Line, ...]

    @property
    def height(self) -> int:
        return len(self.lines)


class LateRow:
    """A row that is made when it is looked at: of hundreds, a terminal shows some dozens."""

    __slots__ = ("_lines", "_make", "height", "key")

    def __init__(self, key: str, height: int, make: Callable[[], tuple[Line, ...]]) -> None:
        self.key = key
        self.height = height
        self._make = make
        self._lines: tuple[Line, ...] | None = None

    @property
    def lines(self) -> tuple[Line, ...]:
        if self._lines is None:
            self._lines = self._make()
        return self._lines


class Grid(Lasting, ScrollView, can_focus=True):
    """Rows of spans under a header that does not scroll. It holds what was given to it last, nothing else."""

    DEFAULT_CSS = """
    Grid { height: 1fr; background: $background; overflow-x: hidden; scrollbar-size-vertical: 1; }
    Grid > .grid--cursor { background: $panel; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"grid--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False, id="grid.up"),
        Binding("down,j", "move(1)", "down", show=False, id="grid.down"),
        Binding("pageup", "page(-1)", "page up", show=False, id="grid.page-up"),
        Binding("pagedown", "page(1)", "page down", show=False, id="grid.page-down"),
        Binding("home,g", "edge(-1)", "first", show=False, id="grid.first"),
        Binding("end,G", "edge(1)", "last", show=False, id="grid.last"),
        Binding("enter", "pick", "open", show=False, id="grid.pick"),
    ]

    class Moved(Message):
        """The cursor stands on another row."""

        def __init__(self, grid: Grid, key: str) -> None:
            super().__init__()
            self.grid = grid
            self.key = key

        @property
        def control(self) -> Grid:
            return self.grid

    class Picked(Moved):
        """A row was chosen with enter or a click on the row under the cursor."""

    def __init__(self, *, id: str | None = None, show_cursor: bool = True) -> None:  # noqa: A002
        super().__init__(id=id)
        self.paint: Paint | None = None
        self.cursor_sign = "▌"
        self._header: Line = ()
        self._rows: list[Row | LateRow] = []
        self._height = 1
        self._cursor = 0
        self._show_cursor = show_cursor
        self._base = Style()

    @property
    def rows(self) -> Sequence[Row | LateRow]:
        return self._rows

    @property
    def cursor_key(self) -> str | None:
        return self._rows[self._cursor].key if self._rows else None

    @property
    def body_height(self) -> int:
        """Lines for rows: all but the header's."""
        return max(0, self.size.height - (1 if self._header else 0))

    def set_paint(self, paint: Paint) -> None:
        self.paint = paint
        fit_bars(self, paint)
        self.refresh()

    def set_content(self, header: Line, rows: Sequence[Row | LateRow]) -> None:
        """Draw these rows; only lines that differ from before are painted again. The cursor follows its key."""
        key = self.cursor_key
        old_rows, old_header, old_height, old_cursor = self._rows, self._header, self._height, self._cursor
        self._rows = list(rows)
        self._header = header
        self._height = max((row.height for row in self._rows), default=1)
        at = next((i for i, row in enumerate(self._rows) if row.key == key), None)
        self._cursor = at if at is not None else min(old_cursor, max(0, len(self._rows) - 1))
        if len(old_rows) != len(self._rows) or old_height != self._height or bool(old_header) != bool(header):
            self._fit()
            self.refresh()
            return
        if header != old_header:
            self.refresh(Region(0, 0, self.size.width, 1))
        for i in self._shown():
            old, new = old_rows[i], self._rows[i]
            if old is not new and (old.lines != new.lines or (i in (old_cursor, self._cursor) and at != old_cursor)):
                self._refresh_row(i)
        if self.cursor_key != key and self.cursor_key is not None:
            self.post_message(self.Moved(self, self.cursor_key))

    def _shown(self) -> range:
        """Rows that are on the screen, wholly or in part; the others are painted when they come into view."""
        top = round(self.scroll_y)
        last = (top + max(1, self.body_height) - 1) // self._height
        return range(min(top // self._height, len(self._rows)), min(last + 1, len(self._rows)))

    def _fit(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._rows) * self._height + (1 if self._header else 0))

    def on_resize(self, _event: events.Resize) -> None:
        self._fit()

    def _refresh_row(self, index: int) -> None:
        top = index * self._height - round(self.scroll_y) + (1 if self._header else 0)
        self.refresh(Region(0, top, self.size.width, self._height))

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = self.rich_style  # costs more than a line does: once for each painting
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        base = self._base
        if self.paint is None:
            return Strip.blank(self.size.width, base)
        width = self.size.width
        if self._header and y == 0:
            return self.paint.strip(self._header, width, base)
        line = round(self.scroll_y) + y - (1 if self._header else 0)
        index, part = divmod(line, self._height)
        if not 0 <= index < len(self._rows):
            return Strip.blank(width, base)
        row = self._rows[index]
        if index == self._cursor and self._show_cursor and self.has_focus:
            base = self.get_component_rich_style("grid--cursor")
        spans = row.lines[part] if part < len(row.lines) else ()
        if index == self._cursor and self._show_cursor and self.has_focus and spans and spans[0][0].startswith(" "):
            # More than its background tells the row under the cursor.
            spans = ((self.cursor_sign, "key"), (spans[0][0][1:], spans[0][1]), *spans[1:])
        return self.paint.strip(self.mark(row.key, part, spans), width, base)

    def mark(self, _key: str, _part: int, line: Line) -> Line:
        """A hook for subclasses that mark one cell of the row under the cursor."""
        return line

    def on_focus(self) -> None:
        self._refresh_row(self._cursor)

    def on_blur(self) -> None:
        self._refresh_row(self._cursor)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row (clamped) and bring it into view."""
        if not self._rows:
            return
        index = min(max(0, index), len(self._rows) - 1)
        old, self._cursor = self._cursor, index
        self._refresh_row(old)
        self._refresh_row(index)
        top, bottom = index * self._height, (index + 1) * self._height
        if top < self.scroll_y:
            self.scroll_to(y=top, animate=False, force=True)
        elif bottom > self.scroll_y + self.body_height:
            self.scroll_to(y=bottom - self.body_height, animate=False, force=True)
        if old != index:
            self.post_message(self.Moved(self, self._rows[index].key))

    def move_to_key(self, key: str) -> None:
        for i, row in enumerate(self._rows):
            if row.key == key:
                self.move_to(i)
                return

    def action_move(self, by: int) -> None:
        self.move_to(self._cursor + by)

    def action_page(self, by: int) -> None:
        self.move_to(self._cursor + by * max(1, self.body_height // self._height))

    def action_edge(self, to: int) -> None:
        self.move_to(0 if to < 0 else len(self._rows) - 1)

    def action_pick(self) -> None:
        if self._rows:
            self.post_message(self.Picked(self, self._rows[self._cursor].key))

    def on_click(self, event: events.Click) -> None:
        line = round(self.scroll_y) + event.y - (1 if self._header else 0)
        index = line // self._height
        if event.y < (1 if self._header else 0) or not 0 <= index < len(self._rows):
            return
        again = index == self._cursor and event.chain > 1
        self.move_to(index)
        if again:
            self.action_pick()
