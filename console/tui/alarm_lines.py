"""Alarms as lines: the count for the top line, a row for the list. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from console.base.findings import Severity
from console.telemetry.alarms import Alarm
from console.tui.figures import hhmmss, span
from console.tui.glyphs import Glyphs
from console.tui.spans import Line, Span, clip, fit, safe

GRAVITY = {Severity.BLOCK: 0, Severity.WARN: 1, Severity.INFO: 2}
BURST_S = 60.0
ROLES = {Severity.BLOCK: "bad", Severity.WARN: "warn", Severity.INFO: "text"}


def worst(alarms: Sequence[Alarm]) -> Alarm | None:
    """The gravest that holds; of these one that nobody took note of, the newest first."""
    held = [a for a in alarms if a.active]
    return min(held, key=lambda a: (a.acked_at is not None, GRAVITY.get(a.severity, 1), -a.raised_at), default=None)


def alarm_count(alarms: Sequence[Alarm], glyphs: Glyphs) -> list[Span]:
    """`▲ 2 alarms`; nothing where none holds."""
    top = worst(alarms)
    if top is None:
        return []
    held = sum(1 for a in alarms if a.active)
    sign = glyphs.failed if top.severity == Severity.BLOCK else glyphs.warn
    role = ROLES.get(top.severity, "warn") + (" bold" if top.calls else "")
    return [(f"   {sign} {held} alarm{'s' if held > 1 else ''}", role)]


def alert_line(alarms: Sequence[Alarm], now: float, glyphs: Glyphs) -> list[Span]:
    """The gravest alarm that nobody took note of, in its own words; nothing where there is none. Of the newest burst
    the one that tells of the whole boot, else the first: what came after it is mostly its doing."""
    calling = [a for a in alarms if a.calls]
    gravest = worst(calling)
    if gravest is None:
        return []
    burst = [a for a in calling if a.severity == gravest.severity and gravest.raised_at - a.raised_at < BURST_S]
    top = min(burst, key=lambda a: (a.code != "boot-failed", a.raised_at))
    sign = glyphs.failed if top.severity == Severity.BLOCK else glyphs.warn
    role = ROLES.get(top.severity, "warn")
    more = f"   and {len(calling) - 1} more" if len(calling) > 1 else ""
    return [
        (f" {sign} {safe(top.text, limit=300)}", f"{role} bold"),
        (f"   for {span(max(0.0, now - top.raised_at))}{more}", "dim"),
    ]


def alarm_row(alarm: Alarm, now: float, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """Two lines: sign, when, how long, rule, state; then what it says."""
    role = ROLES.get(alarm.severity, "warn") if alarm.active else "dim"
    sign = (glyphs.failed if alarm.severity == Severity.BLOCK else glyphs.warn) if alarm.active else glyphs.done
    end = alarm.cleared_at if alarm.cleared_at is not None else now
    lasted = span(end - alarm.raised_at)
    words = [f"for {lasted}" if alarm.active else f"over {hhmmss(end)} after {lasted}"]
    if alarm.count > 1:
        words.append(f"{alarm.count} times")
    if alarm.muted:
        words.append("muted")
    if alarm.acked_at is not None:
        words.append(
            f"noted {hhmmss(alarm.acked_at)}" + (f" by {safe(alarm.acked_by, limit=30)}" if alarm.acked_by else "")
        )
    elif alarm.calls:
        words.append("nobody took note of it")
    head: Line = (
        (f"  {sign} ", f"{role} bold" if alarm.calls else role),
        (f"{hhmmss(alarm.raised_at)}  ", "text" if alarm.active else "dim"),
        (fit(safe(alarm.code), 22) + " ", "strong" if alarm.active else "dim"),
        (fit(safe(alarm.node or alarm.subject), 14) + " ", "text" if alarm.active else "dim"),
        (", ".join(words), "dim"),
    )
    return clip(head, width), clip((("      ", "text"), (safe(alarm.text), role)), width)
