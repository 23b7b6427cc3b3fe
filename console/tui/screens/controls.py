"""The sheet of the controls: who has them; ask, take over, hold, hand over."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Button

from console.services.hub import ControlsView, HubApi
from console.tui.controls_lines import controls_lines
from console.tui.glyphs import Glyphs
from console.tui.lasting import while_here
from console.tui.paint import Paint
from console.tui.screens.confirm import Choice, ConfirmScreen

CHOICES = (
    Choice("hold", "Hold them", "H", "primary"),
    Choice("ask", "Ask for them", "A", "primary"),
    Choice("release", "Let them go", "G", "primary"),
    Choice("withdraw", "Withdraw", "W", "primary"),
    Choice("take", "Take over", "T", "error"),
)


def open_choices(controls: ControlsView) -> tuple[str, ...]:
    """What can be done in this state."""
    if controls.state == "mine":
        return ("release",) if controls.lasting else ()
    return {
        "free": ("hold",),
        "other": ("ask", "take"),
        "asking": ("withdraw", "take"),
        "taken": ("ask", "take"),
    }.get(controls.state, ())


class ControlsScreen(ConfirmScreen):
    """Follows the state while it is open: a choice that is no longer one is hidden."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "cancel", "cancel", show=False)]

    def __init__(self, hub: HubApi, wanted: str, paint: Paint, glyphs: Glyphs) -> None:
        def draw(width: int) -> list:  # type: ignore[type-arg]
            return controls_lines(hub.snapshot().controls, wanted, width, glyphs)

        super().__init__("Who has the controls", draw, CHOICES, paint, cancel="Leave as it is")
        self.hub = hub

    def on_mount(self) -> None:
        """The sheet's own on_mount runs too, as Textual sends an event to every class."""
        self.set_interval(0.5, self.settle)

    @while_here
    def settle(self) -> None:
        super().settle()
        chosen = open_choices(self.hub.snapshot().controls)
        for choice in CHOICES:
            for button in self.query(f"#{choice.id}").results(Button):
                button.display = choice.id in chosen

    @property
    def open_now(self) -> bool:
        return True

    def allows(self, choice: Choice) -> bool:
        return choice.id in open_choices(self.hub.snapshot().controls)
