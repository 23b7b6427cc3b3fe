"""Who the others wait for at the rendezvous: knowable long before the engine's own timeout, which takes minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from console.base.containers import ENDED
from console.boot.state import GONE, BootState, Phase, RankState
from console.enginelog.stages_model import Stage

# Ranks of one healthy boot come some seconds apart; Python's imports from a cold disk take up to a minute, so before
# this nobody is late, and after it nothing is said to be wrong either: only who has come, and who has not.
LATE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Missing:
    """A rank that has not come, and what is known of it."""

    rank: int
    node: str
    why: str


@dataclass(frozen=True, slots=True)
class Awaited:
    """came: ranks that wait in the rendezvous, the first of them for waited_s seconds."""

    came: tuple[int, ...]
    of: int
    waited_s: float
    missing: tuple[Missing, ...]

    @property
    def late(self) -> bool:
        return self.waited_s >= LATE_S

    @property
    def sentence(self) -> str:
        """`1 of 2 have come, and wait for 41 s; not yet: rank 1 on dgx2 (its container has said nothing)`."""
        named = [f"rank {m.rank} on {m.node} ({m.why})" for m in self.missing[:4]]
        more = f" and {len(self.missing) - 4} more" if len(self.missing) > 4 else ""
        verb = "have" if len(self.came) > 1 else "has"
        wait = "and wait" if len(self.came) > 1 else "and waits"
        return (
            f"{len(self.came)} of {self.of} {verb} come to the rendezvous, {wait} for {self.waited_s:.0f} s; "
            f"not yet: {', '.join(named)}{more}"
        )


def awaited(state: BootState, now: float) -> Awaited | None:
    """None where nobody waits, or the world is whole already. now: epoch s."""
    if state.phase.over or state.phase is Phase.STOPPING or state.ready_at is not None or len(state.ranks) < 2:
        return None
    if any(r.stage is not None and r.stage > Stage.RENDEZVOUS for r in state.ranks):
        return None  # a world is only made with all ranks in it
    came = [r for r in state.ranks if r.stage is Stage.RENDEZVOUS and r.status not in GONE]
    missing = [r for r in state.ranks if r not in came]
    since = min((r.stage_since for r in came if r.stage_since is not None), default=None)
    if not came or not missing or since is None:
        return None
    return Awaited(
        tuple(r.rank for r in came),
        len(state.ranks),
        max(0.0, now - since),
        tuple(Missing(r.rank, r.node or "an unknown node", _why(r, now)) for r in missing),
    )


def late_ranks(state: BootState, now: float) -> dict[int, str]:
    """For a board: why each rank that the others wait for too long is late; empty where nobody is."""
    found = awaited(state, now)
    if found is None or not found.late:
        return {}
    return {m.rank: f"others wait {found.waited_s:.0f} s: {m.why}" for m in found.missing}


def _why(rank: RankState, now: float) -> str:
    if not rank.reachable:
        return "its node does not answer"
    if rank.status == "absent":
        return "its container is not there"
    if rank.status in ENDED:
        return f"its container is {rank.status}"
    if rank.status is None:
        return "its container has not been seen"
    if rank.status != "running":
        return f"its container is {rank.status}"
    if rank.last_line_at is None:
        return "its container runs and has said nothing"
    quiet = max(0.0, now - rank.last_line_at)
    at = rank.stage.word if rank.stage is not None else "no stage yet"
    return f"it is at {at}, its last line {quiet:.0f} s ago"
