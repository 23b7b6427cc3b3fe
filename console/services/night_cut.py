"""A night that was cut short: found on this machine, and told in one line to whoever looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.base.errors import NightdeckError
from console.files.night_store import STATE, NightStore, boot_id


@dataclass(frozen=True, slots=True)
class CutShort:
    """run: the one under way or the next one, counted from 1, of `runs`. heard_at: epoch s of its last sign of life,
    None where the disk does not tell. over_at: its hard end, epoch s. baseline: what it leaves serving, "" nothing."""

    night: str
    name: str
    phase: str
    run: int
    runs: int
    label: str
    rebooted: bool
    heard_at: float | None
    over_at: float | None = None
    baseline: str = ""

    def sentence(self, now: float) -> str:
        """now: epoch s."""
        who = f"night {self.night}" + (f" ({self.name})" if self.name else "")
        ago = "" if self.heard_at is None else f", last heard of {_span(now - self.heard_at)} ago"
        why = "this machine was rebooted" if self.rebooted else "its process is gone"
        past = self.over_at is not None and now >= self.over_at
        rest = f"; its hard end has passed: that only brings {self.baseline} back" if past and self.baseline else ""
        return f"{who} was interrupted {self._where()} ({why}{ago}): `nightdeck night resume` goes on with it{rest}"

    def _where(self) -> str:
        if self.phase == "waiting":
            return "before its first run"
        if self.phase == "restoring" or not 0 < self.run <= self.runs:
            return f"while it brought {self.baseline} back" if self.baseline else "at its end"
        return f"at run {self.run} of {self.runs}" + (f", {self.label}" if self.label else "")


def _span(seconds: float) -> str:
    """`40 s`, `12 min`, `5 h`, `3 days`; cut, not rounded."""
    whole = int(max(0.0, seconds))
    for limit, unit, word in ((90, 1, "s"), (90 * 60, 60, "min"), (48 * 3600, 3600, "h")):
        if whole < limit:
            return f"{whole // unit} {word}"
    return f"{whole // 86_400} days"


def was_rebooted(row: Mapping[str, Any]) -> bool:
    """True where the state was written before this machine's present boot."""
    before, now = row.get("boot_id"), boot_id()
    return bool(before) and bool(now) and before != now


def cut_short(store: NightStore) -> CutShort | None:
    """The newest night, where it is not over and no process runs it. Raises DiskError, UsageError for a bad state."""
    names = store.nights()
    if not names or store.running() is not None:
        return None
    row = store.read(names[0])
    return None if row.get("phase") == "done" else cut_of(row, names[0], store)


def cut_of(row: Mapping[str, Any], night: str, store: NightStore) -> CutShort:
    """A night's state, known to be left by its process, in these words."""
    running, after = row.get("running"), row.get("next")
    runs = row.get("runs")
    runs = runs if isinstance(runs, list) else []
    at = running.get("number") if isinstance(running, dict) else after + 1 if isinstance(after, int) else 0
    at = at if isinstance(at, int) else 0
    this = running if isinstance(running, dict) else runs[at - 1] if 0 < at <= len(runs) else {}
    rules = row.get("rules")
    rules = rules if isinstance(rules, dict) else {}
    end = rules.get("hard_end")
    try:
        heard: float | None = (store.folder(night) / STATE).stat().st_mtime
    except OSError:
        heard = None
    return CutShort(
        night=night,
        name=str(row.get("name") or ""),
        phase=str(row.get("phase") or ""),
        run=at,
        runs=len(runs),
        label=str(this.get("label") or "") if isinstance(this, dict) else "",
        rebooted=was_rebooted(row),
        heard_at=heard,
        over_at=float(end) if isinstance(end, (int, float)) else None,
        baseline=str(rules.get("baseline") or ""),
    )


def told(store: NightStore, now: float) -> str:
    """The sentence for whoever looks at something else, "" where no night was cut short. Never raises: a damaged night
    is told by `night status`."""
    try:
        cut = cut_short(store)
    except NightdeckError:
        return ""
    return "" if cut is None else cut.sentence(now)
