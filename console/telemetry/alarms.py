"""What is wrong now and what was: alarms raised once, cleared once, acknowledged or muted by the operator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from console.base.findings import Severity

KEEP: Final = 300
# An alarm that comes back this soon is the same trouble: it is counted, not told again.
FLAP_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm. id: grows by one. code: the rule's name. subject: what it is about beside the code (a node, a rank).
    Times are epoch seconds; cleared_at is None while it holds. count: how often it was raised in a row of flaps.
    muted: its rule or node is muted, or was when the alarm ended, so nobody is told."""

    id: int
    code: str
    severity: Severity
    subject: str
    text: str
    raised_at: float
    node: str | None = None
    cleared_at: float | None = None
    until: float | None = None
    count: int = 1
    acked_at: float | None = None
    acked_by: str = ""
    muted: bool = False

    @property
    def active(self) -> bool:
        return self.cleared_at is None

    @property
    def calls(self) -> bool:
        """It holds, and nobody has taken note of it yet."""
        return self.active and self.acked_at is None and not self.muted


class AlarmList:
    """Newest first in `all`. Methods return the alarms that somebody should be told of now."""

    def __init__(self) -> None:
        self._alarms: dict[int, Alarm] = {}
        self._active: dict[tuple[str, str], int] = {}
        self._mutes: dict[tuple[str, str], float] = {}
        self._next = 1

    @property
    def all(self) -> tuple[Alarm, ...]:
        return tuple(reversed(self._alarms.values()))

    @property
    def active(self) -> tuple[Alarm, ...]:
        return tuple(a for a in self.all if a.active)

    @property
    def mutes(self) -> tuple[tuple[str, str, float], ...]:
        """(code, node, until): "" stands for every code or every node."""
        return tuple((code, node, until) for (code, node), until in self._mutes.items())

    def restore(self, alarms: Iterable[Alarm]) -> None:
        """Begin with alarms that were raised before, as `all` gave them."""
        for alarm in sorted(alarms, key=lambda a: a.id):
            self._alarms[alarm.id] = alarm
            self._next = max(self._next, alarm.id + 1)
            if alarm.active:
                self._active[(alarm.code, alarm.subject)] = alarm.id
        self._trim()

    def raised(self, code: str, subject: str) -> bool:
        return (code, subject) in self._active

    def raise_(
        self,
        code: str,
        subject: str,
        severity: Severity,
        text: str,
        at: float,
        *,
        node: str | None = None,
        lasts_s: float | None = None,
    ) -> list[Alarm]:
        """Raise, or renew what is raised already: text and node then are the newer ones. lasts_s: it ends by itself."""
        key = (code, subject)
        until = None if lasts_s is None else at + lasts_s
        held = self._active.get(key)
        if held is not None:
            self._alarms[held] = replace(
                self._alarms[held], text=text, until=until, node=node or self._alarms[held].node
            )
            return []
        before = next((a for a in self.all if (a.code, a.subject) == key), None)
        if before is not None and before.cleared_at is not None and at - before.cleared_at < FLAP_S:
            again = replace(before, text=text, cleared_at=None, until=until, count=before.count + 1)
            self._alarms[before.id] = again
            self._active[key] = before.id
            return []
        alarm = Alarm(
            self._next, code, severity, subject, text, at, node, until=until, muted=self._is_muted(code, node, at)
        )
        self._next += 1
        self._alarms[alarm.id] = alarm
        self._active[key] = alarm.id
        self._trim()
        return [] if alarm.muted else [alarm]

    def clear(self, code: str, subject: str, at: float) -> list[Alarm]:
        held = self._active.pop((code, subject), None)
        if held is None:
            return []
        self._alarms[held] = done = replace(self._alarms[held], cleared_at=at, until=None)
        return [] if done.muted else [done]

    def clear_all(self, subjects: Iterable[str], at: float) -> list[Alarm]:
        wanted = set(subjects)
        return [a for code, subject in tuple(self._active) if subject in wanted for a in self.clear(code, subject, at)]

    def step(self, now: float) -> list[Alarm]:
        """What was to clear by itself by now; mutes that are over."""
        left = {k: until for k, until in self._mutes.items() if until > now}
        if len(left) != len(self._mutes):
            self._mutes = left
            self._mark(now)
        out: list[Alarm] = []
        for alarm in self.active:
            if alarm.until is not None and alarm.until <= now:
                out += self.clear(alarm.code, alarm.subject, now)
        return out

    def acknowledge(self, ident: int | None, at: float, by: str = "") -> int:
        """Take note of one alarm, or of all that hold (None). How many that were."""
        which = [a for a in self.active if ident in (None, a.id) and a.acked_at is None]
        for alarm in which:
            self._alarms[alarm.id] = replace(alarm, acked_at=at, acked_by=by)
        return len(which)

    def mute(self, code: str, node: str, until: float, now: float = 0.0) -> None:
        """Tell nobody of this rule on this node until then; "" is every rule, every node. until in the past ends it.
        What holds already is marked at once, and calls no more."""
        self._mutes[(code, node)] = until
        self._mark(now)

    def _mark(self, now: float) -> None:
        for alarm in self.active:
            muted = self._is_muted(alarm.code, alarm.node, now)
            if muted != alarm.muted:
                self._alarms[alarm.id] = replace(alarm, muted=muted)

    def _is_muted(self, code: str, node: str | None, at: float) -> bool:
        pairs = ((code, node or ""), (code, ""), ("", node or "\0"), ("", ""))
        return any(self._mutes.get(pair, 0.0) > at for pair in pairs)

    def _trim(self) -> None:
        spare = len(self._alarms) - KEEP
        for ident in [i for i, a in self._alarms.items() if not a.active][: max(0, spare)]:
            del self._alarms[ident]
