"""One clock for all ranks: docker's stamps where there are any, else the engine's own time, which names no year."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from console.enginelog.evidence import Evidence, Hit, Mark, RankEvidence, Trace
from console.enginelog.lineformat import DAY

_FEBRUARY_ENDS: Final = 60 * DAY
_SOME_LEAP_YEAR: Final = 1972


class Clock:
    """Moments as epoch seconds on one scale. Where no stamp, launch or observation tells the year, the scale is of some
    leap year: good for order, no date."""

    def __init__(self, evidence: Evidence) -> None:
        self._near = _any_time(evidence)

    def of(self, where: RankEvidence, mark: Mark | Hit | Trace | None) -> float | None:
        if mark is None:
            return None
        if mark.docker_at is not None:
            return mark.docker_at + where.clock_offset_s
        return None if mark.log_at is None else self._dated(mark.log_at)

    def _dated(self, log_at: float) -> float:
        if self._near is None:
            return _start_of(_SOME_LEAP_YEAR) + log_at
        near = self._near
        year = datetime.fromtimestamp(near, UTC).year
        return min((_in_year(log_at, y) for y in (year - 1, year, year + 1)), key=lambda at: abs(at - near))


def _any_time(evidence: Evidence) -> float | None:
    """A moment of the boot; None if nothing tells one, or what does is no date."""
    times = [evidence.launched_at, evidence.observed_at]
    times += [r.trail.first.docker_at for r in evidence.ranks if r.trail is not None and r.trail.first is not None]
    for at in times:
        if at is not None:
            try:
                datetime.fromtimestamp(at + 400 * DAY, UTC)
                datetime.fromtimestamp(at - 400 * DAY, UTC)
            except (ValueError, OverflowError, OSError):
                continue
            return at
    return None


def _in_year(log_at: float, year: int) -> float:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _start_of(year) + log_at - (DAY if not leap and log_at >= _FEBRUARY_ENDS else 0.0)


def _start_of(year: int) -> float:
    return datetime(min(max(year, 1), 9999), 1, 1, tzinfo=UTC).timestamp()
