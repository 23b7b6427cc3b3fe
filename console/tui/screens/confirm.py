"""A modal question before something changes: what will happen, the focus on cancel, another key to agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Input

from console.tui.lasting import Sheet, while_here
from console.tui.paint import Paint
from console.tui.pane import Paper
from console.tui.spans import Line

Draw = Callable[[int], Sequence[Line]]
CANCELS = " esc cancels "


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer besides cancel. key: what it takes without the mouse; role: Textual's button variant."""

    id: str
    label: str
    key: str
    variant: str = "default"


class ConfirmScreen(Sheet[str | None]):
    """Lines of what will happen, a cancel button that has the focus, and choices; the result is a choice's id.

    `codes`: what must be typed before a choice is open (the blocks of a preflight); empty when nothing."""

    CSS_PATH = "modal.tcss"
    AUTO_FOCUS = "#cancel"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "cancel", show=False, id="confirm.cancel"),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown", "scroll(10)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
    ]

    def __init__(
        self,
        title: str,
        draw: Draw,
        choices: Sequence[Choice],
        paint: Paint,
        *,
        cancel: str = "Cancel",
        danger: bool = False,
    ) -> None:
        super().__init__()
        self.heading = title
        self.codes: tuple[str, ...] = ()
        self.ready = True
        self._draw = draw
        self._choices = choices
        self._paint = paint
        self._cancel_words = cancel
        self._danger = danger

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet", classes="-danger" if self._danger else ""):
            yield Paper(id="sheet-paper")
            yield Input(id="override", compact=True)
            with Horizontal(id="answers"):
                yield Button(Content(self._cancel_words), id="cancel", compact=True)
                for choice in self._choices:
                    label = Content(f"{choice.label} [{choice.key}]")
                    yield Button(label, id=choice.id, variant=choice.variant, compact=True)  # type: ignore[arg-type]

    def on_mount(self) -> None:
        sheet = self.query_one("#sheet", Vertical)
        sheet.border_title = Content(f" {self.heading} ")
        sheet.border_subtitle = Content(CANCELS)
        paper = self.query_one(Paper)
        paper.can_focus = False
        paper.set_paint(self._paint)
        self.settle()

    def on_resize(self, _event: events.Resize) -> None:
        self.set_class(self.size.height < 30, "-short")

    def on_paper_sized(self, event: Paper.Sized) -> None:
        event.stop()
        self.settle()

    @while_here
    def settle(self) -> None:
        """Draw again and open or close the choices by what is known and typed."""
        paper = self.query_one(Paper)
        if paper.size.width:
            paper.set_lines(self._draw(paper.size.width - 1))
        prompt = self.query_one("#override", Input)
        prompt.display = bool(self.codes)
        prompt.placeholder = "blocked: to go on all the same, type " + " ".join(self.codes)
        for choice in self._choices:
            self.query_one(f"#{choice.id}", Button).disabled = not self.takes(choice)

    @property
    def typed(self) -> frozenset[str]:
        """The codes that the operator named so far."""
        return frozenset(self.query_one("#override", Input).value.replace(",", " ").split())

    @property
    def open_now(self) -> bool:
        """True when a choice may be taken: the plan is there, and every block was named by the operator."""
        return self.ready and set(self.codes) <= self.typed

    def allows(self, choice: Choice) -> bool:
        """Whether this one may be taken while others may."""
        return True

    def takes(self, choice: Choice) -> bool:
        """Whether this one may be taken now."""
        return self.open_now and self.allows(choice)

    def why_not(self, choice: Choice) -> str:
        """What a choice that is not open waits for, in words."""
        if not self.ready:
            return "wait: this is not known yet"
        if self.codes:
            return f"blocked: {choice.key} needs the codes typed in the line below"
        return f"{choice.label} is not possible now"

    @while_here
    def hint(self, words: str) -> None:
        """An answer to a key that did nothing, in the frame."""
        sheet = self.query_one("#sheet", Vertical)
        sheet.border_subtitle = Content.styled(f" {words} ", "bold $warning") if words else Content(CANCELS)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.hint("")
        self.settle()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.open_now:
            self.query_one(f"#{self._choices[0].id}", Button).focus()

    def on_key(self, event: events.Key) -> None:
        for choice in self._choices:
            if event.character == choice.key and self.query_one(f"#{choice.id}", Button).display:
                event.stop()
                if self.takes(choice):
                    self.dismiss(choice.id)
                else:
                    self.app.bell()
                    self.hint(self.why_not(choice))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(None if event.button.id == "cancel" else event.button.id)

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_scroll(self, by: int) -> None:
        self.query_one(Paper).scroll_relative(y=by, animate=False)


class LaunchScreen(ConfirmScreen):
    """The launch of one of several recipes: left and right choose, the plan of each comes when it is asked for.

    here: what runs already, or nothing: then a launch is not open, and what would make room for it is. looking: how far
    the nodes have been looked at."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("less_than_sign,comma", "turn(-1)", show=False),
        Binding("greater_than_sign,full_stop", "turn(1)", show=False),
        Binding("ctrl+r", "turn(0)", show=False, id="launch.look-again"),
    ]

    def __init__(
        self,
        *,
        turn: Callable[[LaunchScreen, int], None],
        draw: Draw,
        paint: Paint,
        title: str,
        choice: Choice,
        instead: Sequence[Choice] = (),
        here: Callable[[], str] = lambda: "",
        looking: Callable[[], str] = lambda: "",
    ) -> None:
        super().__init__(title, draw, (choice, *instead), paint)
        self.ready = False
        self._turn = turn
        self._instead = frozenset(c.id for c in instead)
        self._here = here
        self._looking = looking
        self._hinted = False

    def on_mount(self) -> None:
        """The sheet's own on_mount runs too, as Textual sends an event to every class."""
        self._turn(self, 0)
        self.set_interval(0.5, self.look_again)

    @while_here
    def look_again(self) -> None:
        """While the nodes are looked at, how far that is; what runs here may end or begin meanwhile too."""
        self.settle()
        if self._hinted and not self.ready:
            self.hint(f"wait: {self._looking()}")

    @while_here
    def settle(self) -> None:
        super().settle()
        if self._hinted and self.ready:
            self._hinted = False
            self.hint("")
        for ident in self._instead:
            for button in self.query(f"#{ident}").results(Button):
                button.display = bool(self._here())

    def takes(self, choice: Choice) -> bool:
        if choice.id in self._instead:
            return bool(self._here())
        return super().takes(choice) and (not self._instead or not self._here())

    def why_not(self, choice: Choice) -> str:
        if here := self._instead and self._here():
            return str(here)
        if not self.ready:
            self._hinted = True
            return f"wait: {self._looking()}"
        return super().why_not(choice)

    @while_here
    def retitle(self, title: str) -> None:
        self.heading = title
        for sheet in self.query("#sheet"):
            sheet.border_title = Content(f" {title} ")

    def action_turn(self, by: int) -> None:
        self._turn(self, by)
