"""What events add up to: the words of a deployment's state."""

from __future__ import annotations

import pytest

from console.boot.events import (
    Acted,
    ApiSeen,
    BootFailed,
    BootOpened,
    Cause,
    CauseFound,
    ContainerSeen,
    DeadlineMoved,
    DeadlinePassed,
    Event,
    NodeBack,
    NodeLost,
    RankRef,
    SmokeDone,
    Stalled,
    StatsSeen,
    StepChanged,
    StopEnded,
    StopSeen,
    StopStarted,
)
from console.boot.reduce import opened, reduce, reduce_all
from console.boot.state import BootState, Phase
from console.boot.words import out_of_sight

T = 1_000_000.0


def boot(world: int = 3, *, adopted: bool = False) -> BootState:
    ranks = tuple(RankRef(r, f"dgx{r + 1}", f"nd-r{r}") for r in range(world))
    return opened(
        BootOpened(T, "d-1", 1, "seed", "Seed", "abc", "dgx1", ranks, T, 3600.0, 8000, "served", adopted=adopted)
    )


def add(state: BootState, *events: Event) -> BootState:
    for event in events:
        state = reduce(state, event)
    return state


def running(world: int = 3) -> list[Event]:
    return [ContainerSeen(T + 1, r, "running") for r in range(world)]


READY: list[Event] = [ApiSeen(T + 90, "healthy"), SmokeDone(T + 91, True, "Paris")]


def test_ready_needs_all_containers_the_api_and_an_answer() -> None:
    state = add(boot(), *running(2), *READY)
    assert state.phase is Phase.STARTING  # rank 2 is not there yet
    state = add(state, ContainerSeen(T + 92, 2, "running"))
    assert (state.phase, state.ready_at) == (Phase.READY, T + 92)
    assert add(boot(), *running(), ApiSeen(T + 9, "healthy")).phase is Phase.BOOTING
    assert add(boot(), *running(), SmokeDone(T + 9, True, "x")).phase is Phase.BOOTING


def test_a_rank_that_ends_fails_the_boot_by_name_whatever_its_code() -> None:
    state = add(boot(), *running(), ContainerSeen(T + 60, 2, "exited", exit_code=0, finished_at=T + 59))
    assert state.phase is Phase.FAILED
    assert state.failed_why == "rank 2 on dgx3 ended with exit code 0"
    assert (state.failed_rank, state.failed_node) == (2, "dgx3")


def test_a_failed_rank_that_somebody_starts_again_leaves_the_failure_as_told() -> None:
    failed = add(boot(), *running(), ContainerSeen(T + 50, 1, "exited", 1))
    back = add(failed, ContainerSeen(T + 60, 1, "running"), *READY)
    assert (back.phase, back.failed_rank, back.failed_why) == (Phase.FAILED, 1, failed.failed_why)
    assert back.ranks[1].status == "running"
    stopped = add(back, StopStarted(T + 70), StopEnded(T + 80, "stopped"))
    assert stopped.phase is Phase.STOPPED


def test_many_events_at_once_make_what_they_make_in_turn() -> None:
    events = [
        StepChanged(T, "start workers", "dgx2", "done"),
        *running(),
        *READY,
        *(StatsSeen(T + 100 + n, {"running": n}) for n in range(5)),
        NodeLost(T + 200, "dgx3", "cut", "no answer"),
        NodeBack(T + 210, "dgx3"),
        ContainerSeen(T + 220, 2, "stopped", 137),
    ]
    for end in range(len(events) + 1):
        assert reduce_all(boot(), events[:end]) == add(boot(), *events[:end])
    assert reduce_all(boot(), events).phase is Phase.DEGRADED


def test_an_earlier_end_that_is_learnt_of_later_takes_the_place_of_the_first() -> None:
    state = add(
        boot(adopted=True),
        ContainerSeen(T + 60, 0, "exited", exit_code=1, finished_at=T + 50),
        ContainerSeen(T + 60, 2, "exited", exit_code=137, oom_killed=True, finished_at=T + 40),
        ContainerSeen(T + 60, 1, "exited", exit_code=0, finished_at=T + 55),
    )
    assert state.failed_why == "rank 2 on dgx3 ended with exit code 137, killed by the kernel for memory"


def test_of_ends_that_lie_close_together_the_cause_names_the_first() -> None:
    state = add(
        boot(),
        *running(),
        ContainerSeen(T + 60, 0, "exited", exit_code=1, finished_at=T + 59.001),
        ContainerSeen(T + 60, 2, "exited", exit_code=137, finished_at=T + 59.004),
        CauseFound(T + 61, Cause("killed_from_outside", "It was killed.", "look", rank=2, node="dgx3")),
    )
    assert (state.failed_rank, state.failed_node) == (2, "dgx3")
    late = add(state, ContainerSeen(T + 62, 1, "exited", exit_code=0, finished_at=T + 58))
    assert late.failed_rank == 2
    elsewhere = CauseFound(T + 63, Cause("node_unreachable", "Out of sight.", "look", rank=7, node="dgx8"))
    assert add(late, elsewhere).failed_rank == 1  # a rank that has no end of its own cannot be the one that ended


def test_after_ready_a_lost_rank_degrades_and_the_heads_end_fails() -> None:
    ready = add(boot(), *running(), *READY)
    worker = ContainerSeen(T + 100, 1, "exited", exit_code=137)
    assert add(ready, worker).phase is Phase.DEGRADED
    assert add(ready, ContainerSeen(T + 100, 0, "exited", exit_code=0)).phase is Phase.FAILED
    assert add(ready, SmokeDone(T + 100, False, why="no answer in 90 s", canary=True)).phase is Phase.DEGRADED
    assert add(ready, ApiSeen(T + 100, "error", "500")).phase is Phase.DEGRADED


def test_a_stop_by_the_operator_is_not_a_crash() -> None:
    state = add(boot(), *running(), *READY, StopStarted(T + 200))
    state = add(state, *[ContainerSeen(T + 201, r, "exited", exit_code=0) for r in range(3)])
    assert (state.phase, state.failed_why) == (Phase.STOPPING, "")
    state = add(state, *[StopSeen(T + 202, f"dgx{r}", "stopped") for r in (1, 2, 3)], StopEnded(T + 202, "stopped"))
    assert (state.phase, state.ended_at) == (Phase.STOPPED, T + 202)


def test_a_stop_that_half_works_is_not_called_stopped() -> None:
    state = add(boot(), *running(), StopStarted(T + 9), StopSeen(T + 10, "dgx1", "stopped"))
    state = add(state, StopSeen(T + 10, "dgx2", "unknown", "no answer"), StopEnded(T + 10, "partly"))
    assert (state.phase, state.stop_result) == (Phase.STOPPING, "partly")
    # Seen later to be gone everywhere: only then is it stopped.
    state = add(state, *[ContainerSeen(T + 60, r, "absent") for r in range(3)])
    assert state.phase is Phase.STOPPED


def test_a_node_out_of_sight_is_unknown_not_dead() -> None:
    state = add(boot(), *running(), NodeLost(T + 5, "dgx2", "lost", "keepalive gave up"))
    assert state.phase is Phase.BOOTING
    assert (state.ranks[1].reachable, state.ranks[1].trouble) == (False, "keepalive gave up")
    assert add(state, NodeBack(T + 9, "dgx2")).ranks[1].reachable


def test_while_serving_a_node_out_of_sight_degrades_until_an_answer_or_the_node_is_there() -> None:
    ready = add(boot(), *running(), *READY)
    gone = add(ready, NodeLost(T + 105, "dgx2", "quiet", "it went quiet"))
    assert (gone.phase, gone.ranks[1].status, gone.failed_why) == (Phase.DEGRADED, "running", "")
    assert "cannot see rank 1 on dgx2" in out_of_sight(gone) and "not known" in out_of_sight(gone)
    # The transport's own word for it comes later, and is the same loss.
    answered = add(gone, SmokeDone(T + 110, True, "Paris", canary=True))
    assert answered.phase is Phase.READY and "the model answers, so it works" in out_of_sight(answered)
    assert add(answered, NodeLost(T + 120, "dgx2", "lost", "keepalive gave up")).phase is Phase.READY
    assert add(gone, NodeLost(T + 106, "dgx3", "quiet", "x"), NodeBack(T + 107, "dgx2")).phase is Phase.DEGRADED
    back = add(gone, NodeBack(T + 108, "dgx2"))
    assert (back.phase, out_of_sight(back)) == (Phase.READY, "")


def test_what_was_said_of_a_node_out_of_sight_is_over_when_it_answers() -> None:
    away = add(
        boot(),
        *running(),
        NodeLost(T + 5, "dgx2", "quiet", "it went quiet"),
        CauseFound(T + 6, Cause("node_unreachable", "The node does not answer.", "look", rank=1, node="dgx2")),
    )
    assert add(away, NodeBack(T + 9, "dgx3")).cause is away.cause
    assert add(away, NodeBack(T + 9, "dgx2")).cause is None


def test_bad_text_withholds_ready_and_says_why() -> None:
    state = add(boot(), *running(), ApiSeen(T + 9, "healthy"), SmokeDone(T + 10, False, "care care", "repeats"))
    assert (state.phase, state.smoke_why, state.ready_at) == (Phase.SERVING_BAD, "repeats", None)
    assert add(state, SmokeDone(T + 20, True, "Paris")).phase is Phase.READY


def test_the_deadline_asks_and_more_time_answers_it() -> None:
    state = add(boot(), *running(), DeadlinePassed(T + 3600))
    assert (state.phase, state.asks) == (Phase.BOOTING, ("deadline",))
    assert add(state, DeadlinePassed(T + 3601)).asks == ("deadline",)
    moved = add(state, DeadlineMoved(T + 3610, 4500.0))
    assert (moved.asks, moved.deadline_at) == ((), T + 4500.0)
    assert add(state, *READY).asks == ()


def test_a_failed_launch_asks_whether_to_keep() -> None:
    failed = add(
        boot(), StepChanged(T, "start workers", "dgx2", "failed", "no such image"), BootFailed(T, "x", 1, "dgx2")
    )
    assert (failed.phase, failed.asks) == (Phase.FAILED, ("launch_failed",))
    assert add(failed, Acted(T, "keep")).asks == ()
    assert failed.steps[0].states == {"dgx2": "failed"}
    assert failed.steps[0].details == {"dgx2": "no such image"}


def test_stalled_and_moving_again() -> None:
    state = add(boot(), *running(), Stalled(T + 900, ("no line for 600 s", "power low")))
    assert state.phase is Phase.STALLED
    assert add(state, Stalled(T + 950, ())).phase is Phase.BOOTING


def test_ranks_that_are_not_there_change_nothing() -> None:
    state = boot()
    assert add(state, ContainerSeen(T, 99, "exited", exit_code=1)) == state


def test_what_the_api_last_said_ends_with_the_heads_container() -> None:
    ready = add(boot(), *running(), *READY)
    assert add(ready, ContainerSeen(T + 99, 1, "exited", exit_code=137)).api == "healthy"
    gone = add(ready, ContainerSeen(T + 99, 0, "exited", exit_code=0))
    assert (gone.api, gone.api_detail) == ("closed", "the head's container has ended")


# (exit code, seconds after the kill): what eight engines said of one SIGKILL, on eight real hosts.
ENDS = {0: (1, 0.074), 1: (0, 0.163), 2: (0, 0.077), 3: (0, 0.0), 5: (137, 0.012), 7: (0, 0.0002)}


@pytest.mark.parametrize("order", [sorted(ENDS), sorted(ENDS, reverse=True)])
def test_of_ends_that_lie_close_together_the_violent_one_was_first(order: list[int]) -> None:
    state = boot(8)
    for rank in order:
        code, after = ENDS[rank]
        state = add(state, ContainerSeen(T + 61, rank, "exited", exit_code=code, finished_at=T + 60 + after))
    assert (state.failed_rank, state.phase) == (5, Phase.FAILED)
    assert "exit code 137" in state.failed_why


def test_an_end_that_is_clearly_earlier_comes_first_whatever_its_code() -> None:
    state = boot(8)
    for rank, code, after in ((4, 137, 30.0), (2, 1, 12.0), (3, 0, 40.0)):
        state = add(state, ContainerSeen(T + 61, rank, "exited", exit_code=code, finished_at=T + after))
    assert state.failed_rank == 2


@pytest.mark.parametrize(
    ("at", "learnt", "stays"), [(T + 29.5, True, False), (T + 20, True, True), (T + 31, False, True)]
)
def test_what_ended_by_a_stop_that_was_learnt_of_later_is_no_cause(at: float, learnt: bool, stays: bool) -> None:
    cause = Cause("killed_from_outside", "It ended.", "look", 0, "dgx1", at=at)
    state = add(boot(), *running(), CauseFound(T + 31, cause), StopStarted(T + 30, "ann", learnt=learnt))
    assert (state.phase, state.cause) == (Phase.STOPPING, cause if stays else None)
