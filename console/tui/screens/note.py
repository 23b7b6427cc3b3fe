"""A modal prompt for one line of text."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from console.tui.lasting import Sheet


class NoteScreen(Sheet[str | None]):
    """Asks for a note; an empty one is none."""

    CSS_PATH = "modal.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "cancel", show=False, id="note.cancel")]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._heading = title

    def compose(self) -> ComposeResult:
        with Vertical(id="strip"):
            yield Input(placeholder="what you saw, what you try next; enter keeps it in the ledger", compact=True)

    def on_mount(self) -> None:
        self.query_one("#strip", Vertical).border_title = Content(f" {self._heading} ")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip() or None)

    def action_cancel(self) -> None:
        self.dismiss(None)
