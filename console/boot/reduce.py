"""The reducer: one event at a time, from what was known to what is known now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from console.boot.cells import with_cells
from console.boot.deaths import first_death, gone_ranks, taken_away
from console.boot.events import (
    Acted,
    ApiSeen,
    BootFailed,
    BootOpened,
    CauseFound,
    ContainerSeen,
    DeadlineMoved,
    DeadlinePassed,
    EtaChanged,
    Event,
    NodeBack,
    NodeLost,
    RankProgress,
    SmokeDone,
    Stalled,
    StatsSeen,
    StepChanged,
    StopEnded,
    StopSeen,
    StopStarted,
)
from console.boot.state import GONE, STOP_STEPS, BootState, Phase, RankState, Step

# What is said of a node that does not answer; over as soon as it does.
_OUT_OF_SIGHT = frozenset({"node_unreachable", "host_wedged"})


def opened(event: BootOpened) -> BootState:
    """The state at the beginning of a boot, or of following one that was found."""
    return with_cells(_opened(event))


def _opened(event: BootOpened) -> BootState:
    return BootState(
        deployment=event.deployment,
        number=event.number,
        recipe=event.recipe,
        title=event.title,
        digest=event.digest,
        head_node=event.head_node,
        phase=Phase.BOOTING if event.adopted else Phase.STARTING,
        launched_at=event.launched_at,
        deadline_s=event.deadline_s,
        port=event.port,
        served_name=event.served_name,
        ranks=tuple(RankState(r.rank, r.node, r.container) for r in event.ranks),
        adopted=event.adopted,
        seen_from=event.at if event.adopted else None,
        judge=event.judge,
        changed=event.changed,
    )


def reduce(state: BootState, event: Event) -> BootState:
    """The next state. Events that do not fit (a rank that is not there) change nothing."""
    return with_cells(_next(state, event))


def reduce_all(state: BootState, events: Iterable[Event]) -> BootState:
    """What `reduce` makes of many events in turn, in a fraction of the time."""
    for event in events:
        state = _next(state, event)
    return with_cells(state)


def _next(state: BootState, event: Event) -> BootState:
    match event:
        case BootOpened():
            return opened(event)
        case StepChanged():
            return _step(state, event)
        case ContainerSeen():
            return _settle(_container(state, event), event.at)
        case RankProgress():
            return _progress(state, event)
        case NodeLost():
            return _settle(_lost(state, event), event.at)
        case NodeBack():
            return _settle(_back(state, event), event.at)
        case ApiSeen():
            return _settle(replace(state, api=event.state, api_detail=event.detail), event.at)
        case SmokeDone():
            return _settle(_smoke(state, event), event.at)
        case StatsSeen():
            if not event.values:
                return replace(state, stats_why=event.why)
            at = event.at if state.stats_at is None else max(event.at, state.stats_at)
            return replace(state, stats={**state.stats, **event.values}, stats_at=at, stats_why=event.why)
        case EtaChanged():
            return _expected(state, event)
        case Stalled():
            return _stalled(state, event)
        case DeadlinePassed():
            live = state.phase in (Phase.STARTING, Phase.BOOTING, Phase.STALLED, Phase.SERVING_BAD)
            return _ask(state, "deadline") if live else state
        case DeadlineMoved():
            return replace(_answer(state, "deadline"), deadline_s=event.deadline_s)
        case CauseFound():
            state = replace(state, cause=event.cause, others=event.others)
            named = state.phase is Phase.FAILED and state.failed_by_death
            return first_death(state, event.at) if named else state
        case BootFailed():
            return _failed(state, event)
        case StopStarted():
            return _stop_started(state, event)
        case StopSeen():
            return replace(state, stop_results={**state.stop_results, event.node: (event.result, event.detail)})
        case StopEnded():
            return _stop_ended(state, event)
        case Acted():
            return _acted(state, event)


def _rank(state: BootState, rank: int, change: RankState) -> BootState:
    return replace(state, ranks=tuple(change if r.rank == rank else r for r in state.ranks))


def _find(state: BootState, rank: int) -> RankState | None:
    return next((r for r in state.ranks if r.rank == rank), None)


def _step(state: BootState, event: StepChanged) -> BootState:
    old = next((s for s in state.steps if s.name == event.step), None)
    step = old or Step(event.step, event.at)
    step = replace(
        step,
        states={**step.states, event.node: event.state},
        details={**step.details, event.node: event.detail} if event.detail else step.details,
        since={**step.since, event.node: event.at} if event.state == "running" else step.since,
        limits=step.limits if event.limit_s is None else {**step.limits, event.node: event.limit_s},
    )
    steps = tuple(step if s.name == event.step else s for s in state.steps)
    return replace(state, steps=steps if old else (*state.steps, step))


def _container(state: BootState, event: ContainerSeen) -> BootState:
    rank = _find(state, event.rank)
    if rank is None:
        return state
    if event.rank == 0 and event.status in GONE:
        # What the API last said was said by a container that is no more.
        state = replace(state, api="closed", api_detail="the head's container has ended")
    if event.status == "absent" and rank.status is not None:
        return _rank(state, event.rank, taken_away(state, rank, event))
    return _rank(
        state,
        event.rank,
        replace(
            rank,
            removed=False,
            status=event.status,
            exit_code=event.exit_code,
            oom_killed=event.oom_killed,
            started_at=event.started_at if event.started_at is not None else rank.started_at,
            finished_at=event.finished_at,
            error=event.error,
            node=rank.node or event.node,
            container=rank.container or event.container,
        ),
    )


def _progress(state: BootState, event: RankProgress) -> BootState:
    rank = _find(state, event.rank)
    if rank is None:
        return state
    since = rank.stage_since
    if event.stage != rank.stage:
        cell = next((c for c in event.cells if c.stage == event.stage), None)
        since = cell.at if cell is not None and cell.at is not None else event.at
    return _rank(
        state,
        event.rank,
        replace(
            rank,
            cells=event.cells,
            stage=event.stage,
            stage_since=since,
            progress=event.progress,
            lines=event.lines,
            last_line_at=event.last_line_at,
            numbers=event.numbers,
        ),
    )


def _node(state: BootState, node: str, *, trouble: str, word: str) -> BootState:
    ranks = tuple(
        replace(r, reachable=not word, trouble=trouble, trouble_word=word) if r.node == node else r for r in state.ranks
    )
    return replace(state, ranks=ranks)


def _lost(state: BootState, event: NodeLost) -> BootState:
    seen = any(r.reachable for r in state.ranks if r.node == event.node)
    state = _node(state, event.node, trouble=event.detail or event.trouble, word=event.trouble)
    return replace(state, unproven=state.unproven or (seen and state.ready_at is not None))


def _back(state: BootState, event: NodeBack) -> BootState:
    node = event.node
    state = _node(state, node, trouble="", word="")
    if event.rebooted:
        at = event.booted_at if event.booted_at is not None else event.at
        ranks = (replace(r, rebooted_at=at, alive_at=event.alive_at) if r.node == node else r for r in state.ranks)
        state = replace(state, ranks=tuple(ranks))
    if all(r.reachable for r in state.ranks):
        state = replace(state, unproven=False)
    told = state.cause
    if told is not None and told.node == node and told.cls in _OUT_OF_SIGHT and state.phase is not Phase.FAILED:
        state = replace(state, cause=None, others=())
    return state


def _smoke(state: BootState, event: SmokeDone) -> BootState:
    if event.ok and state.phase is not Phase.FAILED:
        # All ranks work on an answer: what was blamed before it is over.
        state = replace(state, cause=None, others=(), unproven=False)
    if event.ok and not event.canary and state.ready_at is None:
        # The boot's speed is that of the request that makes it ready; no later one is put in its place.
        state = replace(state, first_token_s=event.first_token_s, tokens_per_s=event.tokens_per_s)
    return replace(
        state,
        smoke_ok=event.ok,
        smoke_text=event.text or state.smoke_text,
        smoke_why=event.why,
        smoke_bad=state.smoke_bad + 1 if not event.ok and event.text else 0,
        smoke_notes=state.smoke_notes if event.canary else event.notes,
    )


def _stalled(state: BootState, event: Stalled) -> BootState:
    state = replace(state, stall_signs=event.signs)
    if event.signs and state.phase in (Phase.BOOTING, Phase.READY, Phase.DEGRADED):
        return replace(state, phase=Phase.STALLED)
    if not event.signs and state.phase is Phase.STALLED:
        return _settle(replace(state, phase=Phase.READY if state.ready_at is not None else Phase.BOOTING), event.at)
    return state


def _failed(state: BootState, event: BootFailed) -> BootState:
    if state.phase in (Phase.STOPPING, Phase.STOPPED):
        return state
    state = replace(
        state,
        phase=Phase.FAILED,
        failed_why=event.why,
        failed_rank=event.rank,
        failed_node=event.node,
        ended_at=event.at,
        asks=(),
    )
    launched = any(step.name.startswith("start") and "failed" in step.states.values() for step in state.steps)
    return _ask(state, "launch_failed") if launched else state


def _expected(state: BootState, event: EtaChanged) -> BootState:
    return replace(
        state,
        eta_at=event.eta_at,
        eta_low_at=event.low_at,
        eta_high_at=event.high_at,
        eta_why=event.why,
        eta_stage=event.stage,
        eta_stage_at=event.stage_at,
        eta_in_time=event.in_time,
    )


def _stop_started(state: BootState, event: StopStarted) -> BootState:
    told = state.cause
    if event.learnt and state.phase is not Phase.FAILED and told is not None and (told.at or 0) > event.at - 1:
        state = replace(state, cause=None, others=())  # what ended by the stop is no failure, though it was told first
    return replace(
        state,
        phase=Phase.STOPPING,
        asks=(),
        steps=tuple(s for s in state.steps if s.name not in STOP_STEPS),  # those of an earlier stop
        stop_results={},
        stop_result=None,
        gone_at_stop=state.gone_at_stop if state.stop_at is not None else gone_ranks(state),
        stop_at=event.at,
        stop_by=event.by,
    )


def _stop_ended(state: BootState, event: StopEnded) -> BootState:
    state = replace(state, stop_result=event.result)
    if event.result in ("stopped", "nothing"):
        return replace(state, phase=Phase.STOPPED, ended_at=event.at)
    return state


def _acted(state: BootState, event: Acted) -> BootState:
    if event.action == "note":
        return replace(state, notes=(*state.notes, event.detail))
    if event.action in ("keep", "keep_waiting"):
        return replace(state, asks=())
    return state


def _ask(state: BootState, what: str) -> BootState:
    return state if what in state.asks else replace(state, asks=(*state.asks, what))


def _answer(state: BootState, what: str) -> BootState:
    return replace(state, asks=tuple(a for a in state.asks if a != what))


def _settle(state: BootState, at: float) -> BootState:
    """The phase that containers, API and smoke add up to; a stop or a failure already told stays as it is."""
    if state.phase is Phase.FAILED and state.failed_by_death:
        return first_death(state, at)
    if state.phase in (Phase.FAILED, Phase.STOPPED):
        return state
    statuses = [r.status for r in state.ranks]
    if state.phase is Phase.STOPPING:
        done = state.stop_result is not None and all(s == "absent" for s in statuses)
        return replace(state, phase=Phase.STOPPED, stop_result="stopped", ended_at=at) if done else state
    gone = [r for r in state.ranks if r.status in GONE]
    if gone and (state.ready_at is None or _head_gone(state) or len(gone) == len(state.ranks)):
        return first_death(state, at)
    if state.phase is Phase.STALLED:
        return state
    all_running = bool(statuses) and all(s == "running" for s in statuses)
    if state.ready_at is not None:
        bad = gone or state.unproven or state.smoke_ok is False or state.api in ("error", "wrong_model")
        return replace(state, phase=Phase.DEGRADED if bad else Phase.READY)
    if not all_running:
        return state
    if state.api == "healthy" and state.smoke_ok:
        return replace(_answer(state, "deadline"), phase=Phase.READY, ready_at=at)
    if state.api == "healthy" and state.smoke_ok is False and state.smoke_text:
        return replace(state, phase=Phase.SERVING_BAD)
    return replace(state, phase=Phase.BOOTING)


def _head_gone(state: BootState) -> bool:
    return any(r.status in GONE for r in state.ranks if r.node == state.head_node and r.rank == 0)
