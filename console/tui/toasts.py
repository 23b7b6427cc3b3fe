"""Toasts that do not stand in the way: the same one once with a count, and none over a dialog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.command import CommandPalette
from textual.notifications import Notification, Notifications
from textual.screen import ModalScreen, Screen
from textual.timer import Timer

from console.tui.glyphs import Glyphs
from console.tui.paint import Paint
from console.tui.pane import Lines
from console.tui.spans import Line, clip, safe, spread

AT_ONCE: Final = 3  # more would cover what they speak of; the newest are shown
LOOKS: Final = {"error": "bad", "warning": "warn", "information": "text"}


class Told:
    """How often each text was told while it stood: the same again takes the place of the one that stands."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[str, int]] = {}  # identity -> (text, times)

    def again(self, text: str, held: Notifications) -> tuple[str, list[Notification]]:
        """The words to show for `text`, and which of those that stand it takes the place of."""
        same = [n for n in held if self._counts.get(n.identity, (n.message, 1))[0] == text]
        times = 1 + sum(self._counts.get(n.identity, (text, 1))[1] for n in same)
        return (f"{text}   ×{times}" if times > 1 else text), same

    def keep(self, notification: Notification, text: str, held: Notifications) -> None:
        standing = {n.identity for n in held} | {notification.identity}
        self._counts = {k: v for k, v in self._counts.items() if k in standing}
        times = int(notification.message.removeprefix(f"{text}   ×")) if notification.message != text else 1
        self._counts[notification.identity] = (text, times)


def surplus(held: Sequence[Notification]) -> list[Notification]:
    """Those that make room: the oldest beyond what is shown at once, an error last of all."""
    rows = sorted(held, key=lambda n: (n.severity == "error", n.raised_at))
    return rows[: max(0, len(rows) - AT_ONCE)]


def takes_news(screen: Screen[object]) -> bool:
    """A dialog of ours: what is told meanwhile stands in a line of its own under it."""
    return isinstance(screen, ModalScreen) and not isinstance(screen, CommandPalette)


class News(Lines):
    """The newest of what was told while a dialog is open, in a line that nothing else stands in."""

    DEFAULT_CSS = "News { dock: bottom; height: 1; display: none; }"

    def __init__(self, held: Notifications, paint: Paint, glyphs: Glyphs) -> None:
        super().__init__(id="news")
        self._held = held
        self._glyphs = glyphs
        self._timer: Timer | None = None
        self.set_paint(paint)

    def on_mount(self) -> None:
        self._timer = self.set_interval(0.5, self.draw)
        self.draw()

    def draw(self) -> None:
        rows = list(self._held)
        self.display = bool(rows)
        if rows:
            self.set_lines(news_line(rows, self.app.size.width, self._glyphs))

    def on_resize(self) -> None:
        self.draw()


def news_line(held: Sequence[Notification], width: int, glyphs: Glyphs) -> Line:
    """The gravest of the newest; how many others wait for the dialog's end."""
    newest = held[-1]
    role = LOOKS.get(newest.severity, "text")
    sign = {"error": glyphs.failed, "warning": glyphs.warn}.get(newest.severity, glyphs.info)
    more = f" and {len(held) - 1} more " if len(held) > 1 else ""
    text = safe(newest.message, limit=300)
    return clip(spread(((f" {sign} {text}", f"{role} bold"),), ((more, "dim"),), width), width)
