"""What keeps a picture from ending the console: nothing draws on what is gone, and a fault in drawing is only told."""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable
from typing import Any, Final, TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.dom import DOMNode
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widget import Widget

from console.base.errors import NightdeckError
from console.base.secrets import mask_text

Method = TypeVar("Method", bound=Callable[..., None])
AGAIN_S: Final = 60.0  # a fault that comes with every picture is told and written once in this time
KINDS: Final = 200  # places of faults that are remembered
# What a node that is being removed has no use for: its children may be gone before it.
_IDLE: Final = (events.InputEvent, events.Resize, events.Show, events.Hide, events.ScreenResume, events.Blur)


def here(node: Widget) -> bool:
    """Whether a screen, pane or widget can be drawn on: composed, and neither it nor what holds it is being removed.

    A timer, a subscription or a job may call it at any moment before or after that."""
    composed = node.is_mounted or (bool(node.children) and all(c.is_mounted for c in node.children))
    if not composed:
        return False
    at: MessagePump | None = node
    while at is not None:
        if at._closing or at._closed or (isinstance(at, DOMNode) and at._pruning):
            return False
        at = at._parent
    return node.is_attached


def while_here(draw: Method) -> Method:
    """Of a method that draws: does nothing where there is nothing to draw on."""

    @functools.wraps(draw)
    def guarded(self: Widget, *args: Any, **named: Any) -> None:
        if here(self):
            draw(self, *args, **named)

    return guarded  # type: ignore[return-value]


class Lasting(MessagePump):
    """Mixed into each screen, pane and widget of ours, and into the application.

    Textual ends the loop of whatever raises, and the application with it. Here the application is asked first: it may
    write the fault down and go on. A node that is being removed hears no more of keys, sizes and children."""

    async def _dispatch_message(self, message: Message) -> None:
        if isinstance(self, Widget) and _is_idle(message) and self.is_mounted and not here(self):
            return
        try:
            await super()._dispatch_message(message)
        except Exception as error:  # whatever it is: the application decides whether it ends
            endures = getattr(self.app, "endures", None)
            if endures is None or not endures(error):
                raise


class LastingScreen(Lasting, Screen[ScreenResultType]):
    """A screen that is left once: keys that were pressed meanwhile neither act on it nor close what is under it."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action(action, parameters) if here(self) else False


class Sheet(Lasting, ModalScreen[ScreenResultType]):
    """A dialog or a page over the main screen, left once as well. Textual reads the styles of the first line of
    descent alone, so it is no `LastingScreen`."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action(action, parameters) if here(self) else False


def _is_idle(message: Message) -> bool:
    if isinstance(message, events.Event):
        return isinstance(message, _IDLE)
    home = type(message).__module__
    return home.startswith(("console.", "textual.widgets."))


class Faults:
    """Faults of the console itself, each place told once in a while. keep: writes one down, returns where."""

    def __init__(self, keep: Callable[[str], str], now: Callable[[], float] = time.monotonic) -> None:
        self._keep = keep
        self._now = now
        self._told: dict[str, float] = {}

    def take(self, error: BaseException) -> str:
        """What to tell of it; empty while it was told a moment ago."""
        place = _place(error)
        now = self._now()
        if now - self._told.get(place, -AGAIN_S) < AGAIN_S:
            return ""
        if len(self._told) >= KINDS:
            self._told.clear()
        self._told[place] = now
        text = mask_text("".join(traceback.format_exception(error, limit=-40)))
        try:
            where = f"written to {self._keep(text)}"
        except NightdeckError as failed:
            where = f"it could not be written down: {failed}"
        return (
            f"a fault of the console ({place}): what this screen shows may be old from now on; {where}. "
            "A new `nightdeck` finds what runs"
        )


def _place(error: BaseException) -> str:
    """`ZeroDivisionError in boot_lines.py:88`: the innermost place of ours, else the innermost."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/console/" in f.filename.replace("\\", "/") and "lasting.py" not in f.filename]
    at = (ours or frames)[-1] if frames else None
    name = type(error).__name__
    return name if at is None else f"{name} in {at.filename.replace(chr(92), '/').rpartition('/')[2]}:{at.lineno}"
