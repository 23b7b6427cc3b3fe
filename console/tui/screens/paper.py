"""A modal sheet to read: plan, difference, help, a boot of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from console.tui.lasting import Sheet, here
from console.tui.paint import Paint
from console.tui.pane import Paper
from console.tui.spans import Line

Draw = Callable[[int], Sequence[Line]]
"""Lines for a width in cells."""


class PaperScreen(Sheet[None]):
    """Lines in a frame; escape, q or enter closes it."""

    CSS_PATH = "modal.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "close", "close", show=False, id="paper.close")
    ]

    def __init__(self, title: str, draw: Draw, paint: Paint) -> None:
        super().__init__()
        self._heading = title
        self._draw = draw
        self._paint = paint

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield Paper(id="sheet-paper")

    def on_mount(self) -> None:
        sheet = self.query_one("#sheet", Vertical)
        sheet.border_title = Content(f" {self._heading} ")
        sheet.border_subtitle = Content(" esc closes ")
        paper = self.query_one(Paper)
        paper.set_paint(self._paint)
        paper.focus()
        self.redraw()

    def on_resize(self, _event: events.Resize) -> None:
        self.set_class(self.size.height < 30, "-short")

    def on_paper_sized(self, event: Paper.Sized) -> None:
        event.stop()
        self.redraw()

    def redraw(self, draw: Draw | None = None) -> None:
        """Draw again, with other content when given."""
        if draw is not None:
            self._draw = draw
        if here(self):
            paper = self.query_one(Paper)
            if paper.size.width:
                paper.set_lines(self._draw(paper.size.width - 1))

    def action_close(self) -> None:
        self.dismiss(None)
