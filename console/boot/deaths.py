"""How containers ended: which rank of a boot that failed ended first, and in what words."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from console.boot.events import ContainerSeen
from console.boot.state import GONE, BootState, Phase, RankState
from console.enginelog.causes_model import runs

TOGETHER_S: Final = 1.0  # a death ends the other ranks within milliseconds, as measured on eight hosts
REMOVAL_S: Final = 10.0  # from the kill of a removal to the engine's last word of the container


def gone_ranks(state: BootState) -> tuple[int, ...]:
    return tuple(r.rank for r in state.ranks if r.status in GONE)


def taken_away(state: BootState, rank: RankState, event: ContainerSeen) -> RankState:
    """What had ended before ended as it did; what was alive a moment ago was removed by somebody."""
    ended = rank.status in GONE
    # `rm -f` kills first: a probe may see the container in between.
    killed = rank.exit_code == 137 and rank.finished_at is not None and abs(event.at - rank.finished_at) < REMOVAL_S
    seen = event.finished_at is not None or state.phase is not Phase.FAILED  # clearing up after a failure is no cause
    removed = rank.removed or (state.stop_at is None and rank.status != "absent" and (killed or (not ended and seen)))
    if ended:
        return replace(rank, status="absent", removed=removed)
    return replace(
        rank, status="absent", removed=removed, exit_code=None, oom_killed=None, finished_at=event.finished_at
    )


def first_death(state: BootState, at: float) -> BootState:
    """Failed, by the rank that the cause names, else by the one whose container ended first as the nodes' engines date
    it. Ends within a second of each other have no order, since each engine stamps by its own clock and in its own time:
    of those, one that was killed is named before one that failed, and that before one that just ended."""
    gone = [r for r in state.ranks if r.status in GONE]
    if not gone:  # somebody started it again behind our back: the boot failed all the same
        return state
    start = min(_ended(r, at) for r in gone)
    first = min(gone, key=lambda r: (_ended(r, at) > start + TOGETHER_S, -_violence(r), _ended(r, at), r.rank))
    if state.cause is not None:
        first = next((r for r in gone if r.rank == state.cause.rank), first)
    return replace(
        state,
        phase=Phase.FAILED,
        failed_why=_died_alike(state, first) or _died(first),
        failed_rank=first.rank,
        failed_node=first.node,
        failed_by_death=True,
        ended_at=state.ended_at if state.ended_at is not None else at,
        asks=(),
    )


def _died_alike(state: BootState, first: RankState) -> str:
    """All of those that say the same cause of themselves, where they ended with the same word; else nothing."""
    alike = state.cause.ranks if state.cause is not None else ()
    if state.cause is None or len(alike) < 2 or first.rank not in alike or first.oom_killed:
        return ""
    ends = {(r.status, r.exit_code) for r in state.ranks if r.rank in alike}
    if len(ends) > 1 or first.status == "absent" or first.exit_code is None:
        return ""
    whole = len(alike) == len(state.ranks)
    return f"{f'all {len(alike)} ranks' if whole else f'ranks {runs(alike)}'} ended with exit code {first.exit_code}"


def _ended(rank: RankState, at: float) -> float:
    return rank.finished_at if rank.finished_at is not None else at


def _violence(rank: RankState) -> int:
    """0: it ended by itself with success, or nothing is known; 1: it failed; 2: a signal ended it (128 + number); 3: it
    was taken away."""
    code = rank.exit_code or 0
    if rank.removed:
        return 3
    return 2 if code > 128 or rank.oom_killed else 1 if code else 0


def _died(rank: RankState) -> str:
    """One sentence: which rank ended, where, and how its container ended."""
    who = f"rank {rank.rank} on {rank.node}" if rank.node else f"rank {rank.rank}"
    if rank.removed and rank.finished_at is None:
        return f"{who}: its container is gone, and nobody saw how"
    if rank.removed:
        return f"{who}: its container was removed (by hand or by another tool, not by a console)"
    if rank.status == "absent" and rank.exit_code is None:
        return f"{who}: its container is gone"
    how = f"exit code {rank.exit_code}" if rank.exit_code is not None else "exit code unknown"
    if rank.oom_killed:
        how += ", killed by the kernel for memory"
    return f"{who} ended with {how}"
