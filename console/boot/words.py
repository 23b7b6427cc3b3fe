"""Sentences that several faces say the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from console.boot.events import Cause, EtaChanged
from console.boot.state import BootState, Phase, RankState
from console.enginelog.causes_model import runs
from console.enginelog.stages_model import Stage

# How the detail of a `stopped` node begins whose ended containers were left there, and how it goes on.
KEPT: Final = "kept "
UNSAVED: Final = ", the log is not saved: "


def bare(node: str, said: str) -> str:
    """A sentence without the name of the node that it begins with, for where that stands before it already:
    `dgx7 (op@10.0.0.7): refused` is `refused`."""
    if not node or not said.startswith(node):
        return said
    rest = said[len(node) :]
    if rest.startswith(" (") and "): " in rest:
        return rest.partition("): ")[2]
    return rest[2:] if rest.startswith(": ") else rest[1:] if rest.startswith(" ") else said


def phase_word(state: BootState) -> str:
    """The phase; after a stop that not every node answered, "stopped" alone would lie, and "stopping" is over."""
    if state.half_stopped:
        return "partly stopped" if state.stop_result == "partly" else "stop failed"
    return state.phase.value.replace("_", " ")


def victims_in_words(cause: Cause, ranks: Iterable[int]) -> str:
    """ "ranks 0, 2-7 fell because of it", or nothing."""
    rows = sorted(set(cause.victims) & set(ranks))
    if not rows:
        return ""
    return f"rank{'s' if len(rows) > 1 else ''} {runs(rows)} fell because of it"


def expected(eta: EtaChanged, when: Callable[[float], str]) -> str:
    """When it will be ready, with its band, and whether the deadline is met; else how far the progress bar sees, and
    why no further. Empty where nothing is known. when: an epoch second as the face shows it."""
    verdict = {True: ", in time", False: ", past the deadline", None: ""}[eta.in_time]
    if eta.eta_at is not None:
        text = f"ready about {when(eta.eta_at)}"
        if eta.low_at is not None and eta.high_at is not None:
            text += f" \N{PLUS-MINUS SIGN} {max(1, round((eta.high_at - eta.low_at) / 120))} min"
        return text + verdict
    if eta.stage is not None and eta.stage_at is not None:
        return f"{eta.stage.word} until about {when(eta.stage_at)}{verdict}, then {eta.why or 'not known'}"
    return f"ready: {eta.why}{verdict}" if eta.why else ""


def expected_now(state: BootState, when: Callable[[float], str]) -> str:
    """`expected` of what is held true of a boot; empty where nothing is waited for: it is over, or it serves text that
    is not sane, which no time mends."""
    if state.phase.over or state.phase in (Phase.STOPPING, Phase.SERVING_BAD):
        return ""
    eta = EtaChanged(
        0.0, state.eta_at, state.eta_low_at, state.eta_high_at, state.eta_why,
        stage=state.eta_stage, stage_at=state.eta_stage_at, in_time=state.eta_in_time,
    )  # fmt: skip
    return expected(eta, when)


def out_of_sight(state: BootState) -> str:
    """Which ranks nobody can see, and whether the whole is known to work without seeing them; empty where all are seen.

    Never "dead": a node that does not answer may work on."""
    unseen = [r for r in state.ranks if not r.reachable]
    if not unseen or state.phase.over:
        return ""
    named = ", ".join(f"rank {r.rank} on {r.node}" for r in unseen[:4])
    more = f" and {len(unseen) - 4} more" if len(unseen) > 4 else ""
    whys = {bare(r.node, r.trouble) for r in unseen}
    why = f": {next(iter(whys))}" if len(whys) == 1 and unseen[0].trouble else ""
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
