"""Alarms as lines: the count for the top line, a row for the list. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from console.base.findings import Severity
from console.telemetry.alarm_groups import GRAVITY, Group, grouped, is_trouble
from console.telemetry.alarms import Alarm
from console.tui.figures import hhmmss, span
from console.tui.glyphs import Glyphs
from console.tui.spans import Line, Span, clip, fit, fit_name, safe

ROLES = {Severity.BLOCK: "bad", Severity.WARN: "warn", Severity.INFO: "ok"}
NAMED = 4  # rules that are told by name in the line of what follows


def alarm_count(alarms: Sequence[Alarm], glyphs: Glyphs) -> list[Span]:
    """`▲ 2 alarms`; nothing where none holds. What follows from another alarm is not counted for itself."""
    groups = grouped(alarms)
    if not groups:
        return []
    sign, role = _look(groups[0], glyphs)
    bold = " bold" if groups[0].calling else ""
    return [(f"   {sign} {len(groups)} alarm{'s' if len(groups) > 1 else ''}", role + bold)]


def alert_line(alarms: Sequence[Alarm], now: float, glyphs: Glyphs) -> list[Span]:
    """The gravest alarm that nobody took note of, in its own words; nothing where there is none. Of what belongs
    together the cause, with how many followed from it."""
    calling = [g for g in grouped(alarms) if g.calling]
    if not calling:
        return []
    group = calling[0]
    top = group.calling[0]
    sign, role = _look(group, glyphs)
    follow = len(group.calling) - 1
    more = f"   {follow} follow{'s' if follow == 1 else ''} from it" if follow else ""
    more += f"   and {len(calling) - 1} more" if len(calling) > 1 else ""
    return [
        (f" {sign} {safe(top.text, limit=300)}", f"{role} bold"),
        (f"   for {span(max(0.0, now - top.raised_at))}{more}", "dim"),
    ]


def _look(group: Group, glyphs: Glyphs) -> tuple[str, str]:
    """Sign and role of the gravest in it."""
    grave = group.gravity == GRAVITY[Severity.BLOCK]
    return (glyphs.failed, "bad") if grave else (glyphs.warn, "warn")


def follow_line(group: Group, width: int, glyphs: Glyphs) -> Line:
    """`→ enter: 8 follow from it: 7 rank-died, stalled`: what is folded under its cause."""
    codes = [a.code for a in group.follow]
    names = [safe(c) if codes.count(c) == 1 else f"{codes.count(c)} {safe(c)}" for c in dict.fromkeys(codes)]
    told = ", ".join(names[:NAMED]) + (f" {glyphs.ellipsis}" if len(names) > NAMED else "")
    words = f"{len(codes)} follow{'s' if len(codes) == 1 else ''} from it: {told}"
    return clip((("      ", "text"), (f"{glyphs.arrow} enter: ", "key"), (words, "dim")), width)


def alarm_row(alarm: Alarm, now: float, width: int, glyphs: Glyphs, *, indent: int = 0) -> tuple[Line, ...]:
    """Two lines: sign, when, how long, rule, state; then what it says. indent: cells, of one under its cause."""
    role = ROLES.get(alarm.severity, "warn") if alarm.active else "dim"
    sign = (glyphs.failed if alarm.severity == Severity.BLOCK else glyphs.warn) if alarm.active else glyphs.done
    if not is_trouble(alarm):
        sign = glyphs.fresh if alarm.active else glyphs.done
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
    elif alarm.calls and is_trouble(alarm):
        words.append("not noted yet")
    lead = " " * indent
    head: Line = (
        (f"{lead}  {sign} ", f"{role} bold" if alarm.calls else role),
        (f"{hhmmss(alarm.raised_at)}  ", "text" if alarm.active else "dim"),
        (fit(safe(alarm.code), 22) + " ", "strong" if alarm.active else "dim"),
        (fit_name(safe(alarm.node or alarm.subject), 14) + " ", "text" if alarm.active else "dim"),
        (", ".join(words), "dim"),
    )
    return clip(head, width), clip(((f"{lead}      ", "text"), (safe(alarm.text), role)), width)
