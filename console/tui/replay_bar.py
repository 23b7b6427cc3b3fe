"""The bar of a replay: that it is one, where it stands, how fast it goes, what is worth a jump; a click seeks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from console.base.times import local_text
from console.tui.figures import clock_span
from console.tui.glyphs import Glyphs
from console.tui.pane import Lines
from console.tui.spans import Line, Span, clip, fit, safe

if TYPE_CHECKING:
    from console.services.replay_api import Mark, Replaying

AXIS = 8  # cells at both ends of the line of time
WIDE = 120  # cells from which one line has room for what happened
SEVERE = {"bad": 3, "warn": 2, "ok": 1}


def when(at: float) -> str:
    """Day and time of a moment of the recording, as its operator's clock showed it here."""
    return local_text(at, "%a %d %b %H:%M:%S")


def state_words(replay: Replaying, glyphs: Glyphs) -> Span:
    if replay.seeking is not None:
        return f"{glyphs.active} on the way to {clock_span(replay.seeking)}", "active bold"
    if replay.ended:
        return f"{glyphs.done} at its end", "strong"
    if replay.total is None:
        return f"{glyphs.active} reading the recording", "active"
    if replay.paused:
        return f"{glyphs.pause} paused", "warn bold"
    return f"{glyphs.active} {replay.speed:g} times as fast", "ok bold"


def bar_lines(replay: Replaying, now: float, width: int, glyphs: Glyphs) -> list[Line]:
    """What it is and where it stands, the line of time, and, where the first has no room for it, what happened."""
    head, words = _head(replay, now, width, glyphs), _words(replay, glyphs)
    if width >= WIDE:
        return [clip((*head, *words), width), time_line(replay, width, glyphs)]
    return [clip(head, width), time_line(replay, width, glyphs), clip(words, width)]


def _head(replay: Replaying, now: float, width: int, glyphs: Glyphs) -> list[Span]:
    total = "" if replay.total is None else f" of {clock_span(replay.total)}"
    spans: list[Span] = [
        (" REPLAY ", "warn bold reverse"),
        (f" {safe(replay.title, limit=60)}  ", "strong"),
        (f"{when(now)}  ", "text"),
        state_words(replay, glyphs),
        (f"  {clock_span(replay.position)}", "strong"),
        (f"{total} ", "text"),
    ]
    if width < WIDE:  # the name is in the title of the pane below
        spans[1] = (" ", "text")
        spans[2] = (f"{when(now)[4:]}  ", "text")
    return spans


def _words(replay: Replaying, glyphs: Glyphs) -> list[Span]:
    """What happened just now; else what comes next, or what is wrong with the recording."""
    if replay.why:
        return [(f"  {glyphs.failed} {safe(replay.why)}", "bad")]
    here = last_words(replay)
    if here is not None:
        return [(f"  {safe(here.words, limit=150)}", _role(here))]
    coming = replay.mark(1, "event", "stage")
    if coming is None:
        return []
    return [(f"  in {clock_span(coming.at - replay.position)}: {safe(coming.words, limit=150)}", "dim")]


def last_words(replay: Replaying) -> Mark | None:
    """What happened just now: at this place, or in the last moments as they pass."""
    span = 0.05 if replay.paused else 2.0 * replay.speed
    found = [m for m in replay.marks if -0.05 <= replay.position - m.at <= span]
    return max(found, key=lambda m: (m.at, m.kind == "event"), default=None)


def _role(mark: Mark) -> str:
    return {"bad": "bad bold", "warn": "warn bold", "ok": "ok bold"}.get(mark.severity, "strong")


def time_line(replay: Replaying, width: int, glyphs: Glyphs) -> Line:
    """The whole recording as a line: what was played, the marks, the place where it stands."""
    room = max(4, width - 2 * AXIS - 3)
    start, end = fit("0:00", AXIS, ">"), fit("" if replay.total is None else clock_span(replay.total), AXIS)
    if not replay.total:
        return clip(((f" {start} ", "dim"), (glyphs.bar_empty * room, "grid"), (f" {end}", "dim")), width)

    def cell(at: float) -> int:
        return min(room - 1, max(0, int(at / replay.total * room))) if replay.total else 0

    here = cell(replay.position)
    cells: list[Span] = [(glyphs.bar_full, "active") if i < here else (glyphs.bar_empty, "grid") for i in range(room)]
    held: dict[int, int] = {}
    for mark in replay.marks:
        at = cell(mark.at)
        weight = SEVERE.get(mark.severity, 0) + (1 if mark.kind != "stage" else 0)
        if weight >= held.get(at, -1):
            held[at] = weight
            cells[at] = _sign(mark, glyphs)
    sign, role = cells[here]
    cells[here] = (glyphs.cursor if sign in (glyphs.bar_full, glyphs.bar_empty) else sign, f"{role} bold reverse")
    return clip(((f" {start} ", "dim"), *cells, (f" {end}", "dim")), width)


def _sign(mark: Mark, glyphs: Glyphs) -> Span:
    if mark.kind == "memory":
        return glyphs.worst_low, "memory bold"
    if mark.kind == "stage":
        return "|", "dim"
    signs = {"bad": (glyphs.failed, "bad bold"), "warn": (glyphs.warn, "warn bold"), "ok": (glyphs.done, "ok bold")}
    return signs.get(mark.severity, (glyphs.info, "text"))


class ReplayBar(Lines):
    """Two lines over the panes, or three where the terminal is narrow."""

    DEFAULT_CSS = "ReplayBar { height: auto; }"

    class Seek(Message):
        """Go to this share of the recording, 0 to 1."""

        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share

    def draw(self, replay: Replaying, now: float, width: int, glyphs: Glyphs) -> None:
        lines = bar_lines(replay, now, width, glyphs)
        self.styles.height = len(lines)
        self.set_lines(*lines)

    def on_click(self, event: events.Click) -> None:
        room = max(4, self.size.width - 2 * AXIS - 3)
        at = event.x - AXIS - 2
        if event.y == 1 and 0 <= at < room:
            self.post_message(self.Seek((at + 0.5) / room))


__all__ = ["ReplayBar", "bar_lines", "last_words", "time_line", "when"]
