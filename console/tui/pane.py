"""A framed part of the main screen with a title of spans; and lines that can be scrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from console.tui.lasting import Lasting
from console.tui.paint import Paint
from console.tui.plain_bars import fit_bars
from console.tui.spans import Line, clip


class Pane(Lasting, Vertical):
    """Frame and title. `target` is the widget that takes the focus when the pane is chosen."""

    NAME: ClassVar[str] = ""

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.paint: Paint | None = None
        self._title: Line = ()

    @property
    def target(self) -> Widget:
        raise NotImplementedError

    def set_title(self, line: Line) -> None:
        """Title from spans: nothing in it is ever read as markup."""
        if line == self._title:
            return
        self._title = line
        self._draw_title()

    def retitle(self, paint: Paint) -> None:
        """The theme changed: the title takes its new colours."""
        self.paint = paint
        self._draw_title()

    def _draw_title(self) -> None:
        paint = self.paint
        parts: list[tuple[str, str] | str] = []
        for text, role in self._title:
            name, *flags = role.split()
            colour = paint.colour(paint.variable(name)) if paint is not None else None
            style = " ".join([*flags, colour or ""]).strip()
            shown = paint.spell(text) if paint is not None else text
            parts.append((shown, style) if style else shown)
        self.border_title = Content.assemble(*parts)


class Lines(Lasting, Widget):
    """A few lines of spans, as high as its style says; repaints what changed."""

    DEFAULT_CSS = "Lines { height: 1; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.paint: Paint | None = None
        self.content: Sequence[Line] = ()

    def set_paint(self, paint: Paint) -> None:
        self.paint = paint
        self.refresh()

    def set_lines(self, *lines: Line) -> None:
        if lines != self.content:
            self.content = lines
            self.refresh()

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        if self.paint is None or y >= len(self.content):
            return Strip.blank(self.size.width, base)
        return self.paint.strip(self.content[y], self.size.width, base)


class Paper(Lasting, ScrollView, can_focus=True):
    """Any number of lines of spans to read, scrolled by keys and wheel."""

    DEFAULT_CSS = """
    Paper { height: 1fr; background: $background; scrollbar-size: 1 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.paint: Paint | None = None
        self.content: Sequence[Line] = ()

    def set_paint(self, paint: Paint) -> None:
        self.paint = paint
        fit_bars(self, paint)
        self.refresh()

    def set_lines(self, lines: Sequence[Line], *, top: bool = False) -> None:
        if list(lines) != list(self.content):
            old, self.content = self.content, list(lines)
            if len(old) != len(self.content):
                self._fit()
                self.refresh()
            else:
                for i, (a, b) in enumerate(zip(old, self.content, strict=True)):
                    if a != b:
                        self.refresh(Region(0, i - round(self.scroll_y), self.size.width, 1))
        if top:
            self.scroll_to(y=0, animate=False)

    def _fit(self) -> None:
        self.virtual_size = Size(0, len(self.content))

    class Sized(Message):
        """It has another width: what is written on it may be wrapped anew."""

    def on_resize(self, _event: events.Resize) -> None:
        self._fit()
        self.post_message(self.Sized())

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        at = round(self.scroll_y) + y
        if self.paint is None or at >= len(self.content):
            return Strip.blank(self.size.width, base)
        width = self.size.width
        return self.paint.strip(clip(self.content[at], width), width, base)
