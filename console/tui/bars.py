"""The one-line bars: what matters most on top, the panes, the keys; all clickable, all from spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from textual import events
from textual.message import Message

from console.base.units import age
from console.boot.state import Phase
from console.services.hub import Snapshot
from console.telemetry.least import lowest_of
from console.telemetry.trend import Lowest
from console.tui.actions import Action, bar_sign
from console.tui.alarm_lines import alarm_count
from console.tui.boot_lines import expected, frontier, phase_span
from console.tui.controls_lines import controls_mark
from console.tui.figures import clock_span, gib, hhmm
from console.tui.glyphs import Glyphs
from console.tui.pane import Lines
from console.tui.spans import Line, Span, clip, line_width, safe, spread, width_of


def top_line(snapshot: Snapshot, now: float, width: int, glyphs: Glyphs) -> Line:
    """Cluster, nodes that answer, lowest free memory, boot, stage, clock; what does not fit goes by importance."""
    fresh = sum(1 for n in snapshot.nodes if n.state == "fresh")
    total = len(snapshot.nodes)
    lost = [n.node.name for n in snapshot.nodes if n.state == "lost"]
    sign = glyphs.fresh if fresh == total else glyphs.warn
    replay = snapshot.replay is not None
    parts: list[tuple[int, list[Span]]] = [
        (0, [(" REPLAY ", "warn bold reverse")]) if replay else (5, [(" nightdeck", "brand")]),
        (6, [("  " + safe(snapshot.cluster.name, limit=20), "text")]),
        (1, [(f"  {sign} {fresh}/{total}", "ok" if fresh == total else "bad bold")]),
    ]
    if lost and total > 1:
        named = ", ".join(safe(n, limit=12) for n in lost[:3]) + (" …" if len(lost) > 3 else "")
        parts.append((3, [(f" lost {named}", "bad")]))
    least = lowest_of(snapshot.nodes)
    if least is not None:
        low, name = least.available_bytes, least.node
        role = "bad bold" if low < 4 * 1024**3 else "warn" if low < 10 * 1024**3 else "text"
        soon = snapshot.lowest if snapshot.lowest is not None and snapshot.lowest.seconds_to_empty is not None else None
        if soon is not None:
            parts.append((1, [("   ", "text"), (f"{glyphs.warn} {safe(soon.sentence, limit=80)}", "bad bold")]))
        label = "   lowest free " if width >= 110 else "   low "
        parts.append((4, [(label, "dim"), (f"{gib(low)} GiB", role), (f" {safe(name, limit=12)}", "dim")]))
        if least.age_s is not None:
            parts.append((4, [(f" {age(least.age_s)} old", "warn")]))
        if soon is None and (slope := slope_span(snapshot.lowest, name, glyphs)) is not None:
            parts.append((4, [slope]))
        if least.not_counted:
            parts.append((4, [(f" {glyphs.dot} {len(least.not_counted)} not counted", "warn")]))
    if alarms := alarm_count(snapshot.alarms, glyphs):
        parts.append((2, alarms))
    boot = snapshot.boot
    if boot is not None:
        parts.append((2, [("   boot ", "dim"), (str(boot.number), "strong")]))
        parts.append((6, [(f" {safe(boot.recipe, limit=32)}", "text")]))
        parts.append((1, [("  ", "text"), phase_span(boot, glyphs)]))
        if not boot.phase.over and boot.phase is not Phase.STOPPING and boot.ready_at is None:
            if boot.phase is not Phase.SERVING_BAD:
                parts.append((3, [(f" {frontier(boot)}", "active")]))
            elapsed = now - boot.launched_at
            late = elapsed > boot.deadline_s
            parts.append((2, [(f"   {clock_span(elapsed)}", "bad bold" if late else "strong")]))
            parts.append((4, [(f" of {clock_span(boot.deadline_s)}", "dim")]))
            if boot.eta_at is not None:
                parts.append((5, [(f"   {expected(boot)}", "text")]))
    if snapshot.job:
        parts.append((3, [(f"   {glyphs.active} {safe(snapshot.job, limit=40)}", "active bold")]))
    if mark := controls_mark(snapshot.controls):
        parts.append((4, mark))
    if snapshot.read_only and not replay:
        parts.append((2, [("   read-only", "warn")]))
    right: list[Span] = (
        [("it was ", "warn"), (f"{hhmm(now)} ", "warn bold")] if replay else [(f"{hhmm(now)} ", "strong")]
    )
    room = width - line_width(right) - 1
    while sum(line_width(spans) for _, spans in parts) > room and len(parts) > 1:
        worst = max(range(len(parts)), key=lambda i: (parts[i][0], i))
        del parts[worst]
    return spread([span for _, spans in parts for span in spans], right, width)


SLOPE_STILL: Final = 0.05 * 1024**3 / 60  # bytes a second that the page cache alone makes


def slope_span(lowest: Lowest | None, node: str, glyphs: Glyphs) -> Span | None:
    """` ▾ 1.2 a minute`: how the lowest memory moves; nothing while too little is known of it."""
    if lowest is None or lowest.node != node or lowest.slope_bytes_s is None:
        return None
    slope = lowest.slope_bytes_s
    if abs(slope) < SLOPE_STILL:
        return " steady", "dim"
    sign = glyphs.worst_low if slope < 0 else glyphs.worst_high
    return f" {sign}{gib(abs(slope) * 60)}/min", "warn" if slope < 0 else "dim"


class TabBar(Lines):
    """The names of panes; a click chooses one."""

    class Chosen(Message):
        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, *, id: str | None = None, classes: str = "") -> None:  # noqa: A002
        super().__init__(id=id)
        self.add_class(*classes.split())
        self._zones: list[tuple[int, int, str]] = []

    def draw(self, tabs: Sequence[tuple[str, str]], active: str, hint: Line = ()) -> None:
        """`tabs`: (pane id, words)."""
        spans: list[Span] = [(" ", "text")]
        self._zones = []
        at = 1
        for pane, words in tabs:
            text = f" {words} "
            self._zones.append((at, at + width_of(text), pane))
            spans.append((text, "title reverse" if pane == active else "dim"))
            spans.append((" ", "text"))
            at += width_of(text) + 1
        self.set_lines(spread(spans, hint, max(10, self.size.width or 80)))

    def on_click(self, event: events.Click) -> None:
        for start, end, pane in self._zones:
            if start <= event.x < end:
                self.post_message(self.Chosen(pane))


class KeyBar(Lines):
    """Keys of what can be done now, the most wanted first; a click does it."""

    class Pressed(Message):
        def __init__(self, run: str) -> None:
            super().__init__()
            self.run = run

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._zones: list[tuple[int, int, str]] = []

    def draw(self, actions: Sequence[Action], keymap: Mapping[str, str] | None, width: int) -> None:
        shown = sorted((a for a in actions if a.footer is not None), key=lambda a: a.footer or 0)
        helped = [a for a in shown if a.footer == 0]
        rest = [a for a in shown if a.footer != 0]
        spans: list[Span] = []
        self._zones = []
        at = 0
        room = width - sum(width_of(bar_sign(a, keymap)) + width_of(a.word) + 3 for a in helped)
        for action in (*rest, *helped):
            sign = bar_sign(action, keymap)
            need = width_of(sign) + width_of(action.word) + 3
            if action not in helped:
                if need > room:
                    continue
                room -= need
            self._zones.append((at, at + need, action.run))
            spans += [(f" {sign}", "key"), (f" {action.word} ", "dim")]
            at += need
        self.set_lines(clip(spans, width))

    def on_click(self, event: events.Click) -> None:
        for start, end, run in self._zones:
            if start <= event.x < end:
                self.post_message(self.Pressed(run))
