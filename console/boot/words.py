"""Sentences that several faces say the same way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from console.boot.events import Cause
from console.boot.state import BootState, Phase, RankState
from console.enginelog.stages_model import Stage

# How the detail of a `stopped` node begins whose ended containers were left there, and how it goes on.
KEPT: Final = "kept "
UNSAVED: Final = ", the log is not saved: "


def victims_in_words(cause: Cause, ranks: Iterable[int]) -> str:
    """ "ranks 0, 2-7 fell because of it", or nothing."""
    rows = sorted(set(cause.victims) & set(ranks))
    if not rows:
        return ""
    runs: list[list[int]] = []
    for rank in rows:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    text = ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)
    return f"rank{'s' if len(rows) > 1 else ''} {text} fell because of it"


def out_of_sight(state: BootState) -> str:
    """Which ranks nobody can see, and whether the whole is known to work without seeing them; empty where all are seen.

    Never "dead": a node that does not answer may work on."""
    unseen = [r for r in state.ranks if not r.reachable]
    if not unseen or state.phase.over:
        return ""
    named = ", ".join(f"rank {r.rank} on {r.node}" for r in unseen[:4])
    more = f" and {len(unseen) - 4} more" if len(unseen) > 4 else ""
    why = f": {unseen[0].trouble}" if len({r.trouble for r in unseen}) == 1 and unseen[0].trouble else ""
    if state.ready_at is None:
        return f"cannot see {named}{more}{why}"
    if state.unproven:
        return f"cannot see {named}{more}{why}; no answer since, so whether the model works is not known"
    works = "the model answers, so " + ("it works" if len(unseen) == 1 else "they work")
    return f"cannot see {named}{more}{why}; {works}"


def stage_now(state: BootState, rank: RankState) -> tuple[Stage | None, float | None, bool]:
    """The stage a rank is in, since when (epoch seconds), and whether that is concluded and not said by its own log.

    A rank that runs while the whole serves is serving, whatever its last line was about: only the head is asked."""
    if state.phase is Phase.READY and not state.unproven and rank.reachable and rank.status == "running":
        return Stage.SERVING, state.ready_at, rank.rank != 0
    return rank.stage, rank.stage_since, False
