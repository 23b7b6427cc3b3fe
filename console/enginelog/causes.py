"""Which rank failed first, and why: over all logs, states and answers, the first real cause in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from console.enginelog import causes_log, causes_serving, causes_states, causes_world
from console.enginelog.causes_finding import Finding, Tier, state_finding
from console.enginelog.causes_model import Cause, Diagnosis, Verdict
from console.enginelog.causes_time import Clock
from console.enginelog.causes_victims import blamed_quiet, by_complaint, dead_or_complaining, same_of_itself
from console.enginelog.evidence import ContainerState, Evidence, RankEvidence
from console.enginelog.stages_model import Stage

_MAX_OTHERS: Final = 8
# Findings of one rank within this time, or this many lines, are one failure: the most telling of them names it.
_EPISODE_S: Final = 20.0
_EPISODE_LINES: Final = 400
_TOGETHER_S: Final = 1.0
_ANNOUNCES: Final = ("hit an exception", "failed to start", "encountered a fatal error")
_WAITS: Final = frozenset({"collective_hang", "nccl_collective_timeout"})
_HANGS: Final = frozenset({"collective_hang", "serving_hang"})


def find_cause(evidence: Evidence) -> Diagnosis:
    """The diagnosis by now. Pure and cheap enough to be asked again whenever something new came to light."""
    clock = Clock(evidence)
    ready = _ready_at(evidence, clock)
    stopped = _stopped_at(evidence, clock)
    found: list[Finding] = []
    for where in evidence.ranks:
        found += causes_log.findings(where, clock, ready, stopped)
        found += causes_states.findings(where, evidence.stop_at if evidence.stop_at is not None else stopped)
    first = _choose(evidence, found)
    if first is None:
        first = causes_serving.unserved(evidence, found)
    if first is None:
        first = min(
            filter(None, (causes_log.last_words(r, clock) for r in evidence.ranks)), key=lambda f: f.order, default=None
        )
    if first is None and any(causes_log.cut_short(r) for r in evidence.ranks):
        return Diagnosis(Verdict.FAILED, None, _others(found, None, ()))
    if first is None:
        # Ranks that differ and serve all the same: no failure, and worth a word.
        notes = [replace(f, tier=Tier.LOOSE) for f in causes_world.differences(evidence)]
        return Diagnosis(_calm(evidence, stopped is not None), None, _others([*found, *notes], None, ()))
    if first.tier is Tier.WRAPPER and first.cls == "cause_not_in_log" and _cut_short(evidence, first):
        return Diagnosis(Verdict.FAILED, None, _others(found, None, ()))
    same = same_of_itself(found, first)
    victims = dead_or_complaining(evidence, found, first, same)
    alike = first.cls
    first = _at_serving(evidence, first, ready)
    rest = [f for f in found if f.cls != alike or f.rank not in same]
    known = evidence.world_size or len({r.rank for r in evidence.ranks if r.rank is not None})
    return Diagnosis(_verdict(first, found), first.cause(victims, same, known or None), _others(rest, first, victims))


def _cut_short(evidence: Evidence, wrapper: Finding) -> bool:
    """The log ends within the words that a wrapper announces: it failed, and why is not written yet, or was cut off."""
    for where in evidence.ranks:
        trail = where.trail
        other = where.file != wrapper.file or (where.rank not in (None, wrapper.rank) and not where.guessed)
        if other or trail is None or wrapper.index is None:
            continue
        ended = isinstance(where.container, ContainerState) and where.container.ended
        announces = any(word in line for line in wrapper.evidence[:1] for word in _ANNOUNCES)
        at_end = wrapper.index - where.line_offset >= trail.lines - 1
        if not ended and (trail.open_trace or (announces and at_end)):
            return True
    return False


def _ready_at(evidence: Evidence, clock: Clock) -> float | None:
    moments = [clock.of(r, r.trail.ready) for r in evidence.ranks if r.trail is not None]
    return min((m for m in moments if m is not None), default=None)


def _stopped_at(evidence: Evidence, clock: Clock) -> float | None:
    """When the boot was stopped on purpose: by the console, or by what the head's own log says. A worker that was asked
    to stop is no stop of the boot."""
    if evidence.stop_at is not None:
        return evidence.stop_at
    for where in evidence.ranks:
        if where.rank in (0, None) and where.trail is not None and where.trail.stop is not None:
            return clock.of(where, where.trail.stop)
    return None


def _choose(evidence: Evidence, found: Sequence[Finding]) -> Finding | None:
    proofs = [f for f in found if f.tier is Tier.PROOF]
    timed = [f for f in found if f.tier is Tier.STATE and f.moment is not None]
    first = _earliest(proofs)
    if first is not None and (not first.known or first.cls == "rank_args_differ"):
        # Words that nobody knows, or that name no rank: a difference between the ranks explains them better.
        differing = causes_world.differences(evidence)
        if differing:
            who = max(differing, key=lambda f: f.weight)
            return replace(who, stage=first.stage, moment=first.moment, evidence=(*who.evidence, *first.evidence[:1]))
    state = _earliest(_together(timed))
    vanished = next((f for f in found if f.sentence == causes_states.VANISHED), None)
    if first is None and vanished is not None:
        return vanished  # others end for want of it; when it went nobody saw
    if first is None or (state is not None and state.order < first.order and state.rank != first.rank):
        first = state if state is not None else first
    if first is not None:
        return first
    failing = _failing(evidence, found)
    guess = _of_the_world(evidence, found) if failing else None
    if guess is not None:
        return guess
    silent = [f for f in found if f.tier is Tier.STATE]
    if silent and (failing or not _serves(evidence)):
        return max(silent, key=lambda f: f.weight)
    if not failing:
        return None
    complaint = by_complaint(evidence, [f for f in found if f.tier in (Tier.VICTIM, Tier.SYMPTOM)])
    if complaint is not None:
        return complaint
    for tier in (Tier.SYMPTOM, Tier.LOOSE, Tier.VICTIM, Tier.WRAPPER):
        best = _earliest([f for f in found if f.tier is tier and (tier is not Tier.LOOSE or f.weight >= 50)])
        if best is not None:
            return blamed_quiet(evidence, found, best) if best.cls in _WAITS else best
    return None


def _together(timed: Sequence[Finding]) -> list[Finding]:
    """Of the ends that lie so close that their order says nothing, the most telling: one rank's death ends the others
    within milliseconds, and each engine dates an end by its own clock and in its own time."""
    start = min((f.moment for f in timed if f.moment is not None), default=None)
    if start is None:
        return list(timed)
    close = [f for f in timed if f.moment is not None and f.moment <= start + _TOGETHER_S]
    most = max(f.weight for f in close)
    return [f for f in timed if f not in close or f.weight == most]


def _earliest(found: Sequence[Finding]) -> Finding | None:
    """The most telling finding of the first failure in time."""
    if not found:
        return None
    first = min(found, key=lambda f: (f.order[0], -f.weight, f.rank if f.rank is not None else -1, f.order[1]))
    if first.index is not None:
        first = min(
            (f for f in found if f.rank == first.rank and f.index is not None and f.file == first.file),
            key=lambda f: (f.index or 0, -f.weight),
        )
    same = [f for f in found if f.rank == first.rank and _one_failure(first, f)]
    return max(same, key=lambda f: (f.weight, -(f.index or 0)), default=first)


def _one_failure(first: Finding, other: Finding) -> bool:
    if first.moment is not None and other.moment is not None:
        return abs(other.moment - first.moment) <= _EPISODE_S
    if first.index is not None and other.index is not None:
        return abs(other.index - first.index) <= _EPISODE_LINES
    return True


def _failing(evidence: Evidence, found: Sequence[Finding]) -> bool:
    """Something ended or gave up: without that, complaints and symptoms are only words."""
    if any(f.tier in (Tier.WRAPPER, Tier.SYMPTOM, Tier.VICTIM) for f in found):
        return True
    if evidence.stall_signs or evidence.deadline_passed:
        return True
    return any(causes_states.fell(r, evidence.stop_at) for r in evidence.ranks)


def _of_the_world(evidence: Evidence, found: Sequence[Finding]) -> Finding | None:
    """Who differs, who is missing, who joined another world."""
    stale = causes_world.stale_joins(evidence)
    if stale:
        return stale[0]
    differing = causes_world.differences(evidence)
    if differing:
        return max(differing, key=lambda f: f.weight)
    waited = _earliest([f for f in found if f.cls == "rendezvous_timeout" and f.tier is Tier.SYMPTOM])
    heard = {f.rank for f in found}
    absent = [r for r in causes_world.missing(evidence) if r.rank not in heard or not causes_world.began(r)]
    if not absent or (
        waited is None and any(causes_world.came(r) and r.rank == 0 and _joined(r) for r in evidence.ranks)
    ):
        return _who_never_came(found, waited)
    surest = min(map(causes_world.absence, absent))
    gone = [r for r in absent if causes_world.absence(r) == surest]
    who = gone[0]
    names = ", ".join(f"rank {r.rank}{f' ({r.node})' if r.node else ''}" for r in gone[:8])
    if who.reachable is False:
        return None
    words = f"{names} never came to the rendezvous" + (
        ": no container is there." if causes_states.has_container(who) is False else "."
    )
    missing = state_finding(who, "rank_missing", words[0].upper() + words[1:], weight=62, stage="rendezvous")
    if waited is not None:
        missing = replace(missing, evidence=waited.evidence, file=waited.file, index=waited.index, at=waited.at)
    return missing


def _joined(where: RankEvidence) -> bool:
    return any(c.line is not None and c.stage >= Stage.MODEL for c in where.cells)


def _who_never_came(found: Sequence[Finding], waited: Finding | None) -> Finding | None:
    """A rank that could not reach the head's store explains a head that waited for it in vain."""
    if waited is None or waited.rank != 0:
        return None
    tried = [f for f in found if f.cls == "rendezvous_timeout" and f.rank not in (0, None) and f.tier is Tier.SYMPTOM]
    ranks = {f.rank for f in tried}
    return tried[0] if len(ranks) == 1 else None


def _serves(evidence: Evidence) -> bool:
    return evidence.request is not None and evidence.request.ok is True


def _at_serving(evidence: Evidence, first: Finding, ready: float | None) -> Finding:
    """A worker's log has no word for serving: what comes after the head was ready came while the whole served."""
    # What a state shows without a date is there now, and the whole was ready before.
    late = first.tier is Tier.STATE if first.moment is None else ready is not None and first.moment > ready
    if ready is not None and late:
        first = replace(first, stage=Stage.SERVING.word)
    served = any(r.trail is not None and r.trail.ready is not None for r in evidence.ranks)
    if first.tier is Tier.WRAPPER and served and first.cls == "cause_not_in_log":
        return replace(
            first, cls="engine_dead_serving", sentence="The engine died while it served; no log at hand says why."
        )
    return first


def _verdict(first: Finding, found: Sequence[Finding]) -> Verdict:
    if first.cls == "garbage_output":
        return Verdict.SERVING_BAD
    if first.cls in _HANGS and not any(f.tier in (Tier.PROOF, Tier.WRAPPER) for f in found):
        return Verdict.HUNG
    return Verdict.FAILED


def _calm(evidence: Evidence, stopped: bool) -> Verdict:
    """No sign of failure: did it come to its end?"""
    if _serves(evidence) or causes_serving.came_up(evidence):
        return Verdict.HEALTHY
    return Verdict.INCOMPLETE


def _others(found: Sequence[Finding], first: Finding | None, victims: tuple[int, ...]) -> tuple[Cause, ...]:
    out: list[Cause] = []
    seen = {(first.cls, first.rank)} if first is not None else set()
    floor = Tier.VICTIM if first is not None else Tier.LOOSE
    for finding in sorted(found, key=lambda f: (-f.tier, f.order)):
        if finding.tier < floor or (finding.cls, finding.rank) in seen:
            continue
        seen.add((finding.cls, finding.rank))
        out.append(finding.cause())
    return tuple(out[:_MAX_OTHERS])
