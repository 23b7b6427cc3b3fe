"""How old a node's last sample is, in one word: fresh, late or lost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LATE_S: Final = 3.0
LOST_S: Final = 10.0


class State(StrEnum):
    """fresh: as new as it can be. late: shown with its age. lost: not to be taken for the node's state any more."""

    FRESH = "fresh"
    LATE = "late"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Freshness:
    """age_s: seconds since the last sample, None when there never was one. why: "" while fresh."""

    state: State
    age_s: float | None
    why: str = ""


def judge(
    received_at: float | None, now: float, *, late_s: float = LATE_S, lost_s: float = LOST_S, trouble: str = ""
) -> Freshness:
    """received_at and now: the console's monotonic clock, seconds; a node's clock plays no part.

    trouble: why the way to the node is broken, where that is known; it is what `why` then says."""
    if received_at is None:
        return Freshness(State.LOST, None, trouble or "no sample yet")
    old = max(0.0, now - received_at)
    if old < late_s:
        return Freshness(State.FRESH, old)
    why = trouble or f"no sample for {old:.0f} s"
    return Freshness(State.LATE if old < lost_s else State.LOST, old, why)
