"""Whose end a boot fell by, over what happened to it: removed by hand, rebooted, stopped by somebody."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from console.boot.events import (
    ApiSeen,
    BootOpened,
    ContainerSeen,
    Event,
    NodeBack,
    NodeLost,
    RankRef,
    SmokeDone,
    StopEnded,
    StopSeen,
    StopStarted,
)
from console.boot.reduce import opened, reduce
from console.boot.state import BootState, Phase
from console.cluster.model import Cluster, Node
from console.enginelog.board import BoardTracker
from console.enginelog.causes import find_cause
from console.enginelog.diagnose_states import read_states
from console.enginelog.diagnose_write import write_states
from console.files.event_codec import decode_event, encode_event
from console.services.explain import Explainer
from console.telemetry.sample import Sample

T = 1_796_000_000.0
REMOVED = "Its container was removed (by hand or by another tool, not by a console)."


class Watched:
    """A boot as a console follows it, without its nodes."""

    def __init__(self, *events: Event, past: BootState | None = None) -> None:
        refs = tuple(RankRef(r, f"dgx{r + 1}", f"nd-r{r}") for r in range(3))
        begun = BootOpened(T, "d-1", 1, "seed", "Seed", "abc", "dgx1", refs, T, 3600.0, 8000, "m")
        self.state = past or opened(begun)
        nodes = tuple(Node(r.node, r.node) for r in refs)
        self.explainer = Explainer(BoardTracker(3), Cluster("c", "f", nodes))
        self.stop_at: float | None = None
        self.add(*events)

    def add(self, *events: Event) -> Watched:
        for event in events:
            assert decode_event(encode_event(event)) == event, "a journal does not keep it"
            self.state = reduce(self.state, event)
            if isinstance(event, StopStarted):
                self.stop_at = event.at
            self.explainer.event(event, self.stop_at)
            if self.explainer.suspect:
                found = self.explainer.look(self.state, event.at)
                if found is not None:
                    self.state = reduce(self.state, found)
        return self

    def kept(self) -> str | None:
        """What the boot's folder tells without its events."""
        states = write_states(self.explainer.evidence(self.state, T + 500), {})
        cause = find_cause(read_states(states)).cause
        return None if cause is None else cause.sentence

    @property
    def blamed(self) -> tuple[int | None, str, tuple[int, ...]] | None:
        cause = self.state.cause
        return None if cause is None else (cause.rank, cause.sentence, cause.victims)


def runs(*ranks: int) -> list[Event]:
    return [ContainerSeen(T + 1, r, "running", started_at=T + 0.5) for r in ranks]


def ended(at: float, rank: int, code: int) -> Event:
    return ContainerSeen(at + 0.3, rank, "exited", code, False, T + 0.5, at)


SERVES: Sequence[Event] = (*runs(0, 1, 2), ApiSeen(T + 90, "healthy"), SmokeDone(T + 91, True, "Paris"))


def test_a_rank_that_somebody_removed_is_the_cause_and_the_others_its_victims() -> None:
    taken = ContainerSeen(T + 60.4, 1, "absent", finished_at=T + 60.0)
    boot = Watched(*runs(0, 1, 2), ended(T + 60.1, 2, 0), taken, ended(T + 60.2, 0, 1))
    assert boot.state.phase is Phase.FAILED
    assert boot.blamed == (1, REMOVED, (0, 2))
    assert boot.kept() == REMOVED
    assert boot.state.failed_why == f"rank 1 on dgx2: {REMOVED[0].lower()}{REMOVED[1:-1]}"


def test_a_removal_is_seen_as_a_kill_for_a_moment() -> None:
    taken = ContainerSeen(T + 61.4, 1, "absent")
    boot = Watched(*runs(0, 1, 2), ended(T + 60.0, 1, 137), taken, ended(T + 60.5, 0, 1))
    assert boot.blamed == (1, REMOVED, (0,))


def test_who_removed_a_worker_while_it_served_is_told_at_once() -> None:
    boot = Watched(*SERVES, ContainerSeen(T + 200.5, 2, "absent", finished_at=T + 200.0))
    assert boot.state.phase is Phase.DEGRADED
    assert boot.blamed == (2, REMOVED, ())


@pytest.mark.parametrize("serving", [True, False])
def test_what_nobody_saw_go_is_told_as_that(serving: bool) -> None:
    """A console that looks once, with what an earlier one kept."""
    past = Watched(*(SERVES if serving else runs(0, 1, 2))).state
    boot = Watched(ContainerSeen(T + 300.0, 2, "absent"), ended(T + 205.0, 1, 0), past=past)
    assert boot.state.phase is (Phase.DEGRADED if serving else Phase.FAILED)
    assert boot.blamed is not None and boot.blamed[0] == 2 and boot.blamed[2] == (1,)
    assert boot.blamed[1].startswith("Its container is gone, and nobody here saw who removed it")
    assert boot.kept() == boot.blamed[1]
    assert boot.state.failed_why == ("" if serving else "rank 2 on dgx3: its container is gone, and nobody saw how")


def test_clearing_up_after_a_failure_changes_no_cause() -> None:
    boot = Watched(*runs(0, 1, 2), ended(T + 60.0, 2, 137), ended(T + 60.2, 0, 1))
    before = boot.state.failed_why
    boot.add(ContainerSeen(T + 300.0, 2, "absent"), ContainerSeen(T + 300.1, 0, "absent"))
    assert boot.state.failed_why == before == "rank 2 on dgx3 ended with exit code 137"
    assert all(not r.removed for r in boot.state.ranks)
    boot.add(ContainerSeen(T + 301.0, 1, "absent"))  # the last one, which still ran
    assert boot.state.failed_rank == 2


def test_a_node_that_was_rebooted_is_named_with_the_time() -> None:
    lost = NodeLost(T + 210, "dgx3", "lost", "it went away")
    back = NodeBack(T + 300, "dgx3", True, booted_at=T + 290.0, alive_at=T + 200.0)
    boot = Watched(*SERVES, lost, ended(T + 203.0, 1, 0), NodeBack(T + 300, "dgx3"), back, ended(T + 296.0, 2, 255))
    cause = boot.state.cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.node, cause.at) == ("host_rebooted", 2, "dgx3", T + 200.0)
    assert cause.sentence == "dgx3 was rebooted or lost power: it came up again at 2026-11-30 00:58:10 UTC."
    assert 1 in cause.victims
    assert boot.kept() == cause.sentence


def sample(node: str, boot_id: str, up: float, at: float, *, rebooted: bool = False) -> Sample:
    return Sample(node, 1, at - T, up, at, boot_id=boot_id, uptime_s=up, rebooted=rebooted, heard_at=at)


def test_a_console_that_came_after_the_reboot_knows_it_by_the_uptime() -> None:
    boot = Watched(*SERVES)
    boot.explainer.sample(sample("dgx3", "b", 20.0, T + 310.0))
    boot.explainer.sample(sample("dgx2", "a", 90000.0, T + 310.0))
    boot.add(ended(T + 203.0, 1, 0), ended(T + 296.0, 2, 255))
    assert boot.state.cause is not None
    assert (boot.state.cause.cls, boot.state.cause.node) == ("host_rebooted", "dgx3")


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("ends", [T + 100.2, T + 97.0])  # by the clock of its node, and as a console heard of the stop
@pytest.mark.parametrize("code", [0, 137, 143, 255])
def test_no_end_after_a_stop_began_is_a_cause(code: int, ends: float, again: bool) -> None:
    stop = StopStarted(T + 100, "ops@dgx1")
    partly: list[Event] = [StopSeen(T + 130, "dgx3", "unknown", "no answer"), StopEnded(T + 130, "partly")]
    boot = Watched(*SERVES, stop, ended(T + 100.1, 0, 0), ContainerSeen(T + 110, 0, "absent"), *partly)
    if again:  # another console, which has it from the journal
        boot = Watched(past=boot.state)
    boot.add(NodeLost(T + 140, "dgx3", "lost", "cut"), NodeBack(T + 400, "dgx3"), ended(ends, 2, code))
    boot.add(ContainerSeen(T + 420, 1, "absent"), NodeBack(T + 430, "dgx3", True, T + 425.0, T + 401.0))
    assert boot.blamed is None
    assert boot.kept() is None
    assert not boot.state.failed_why


def test_a_node_that_is_cut_after_a_stop_is_no_cause_of_it() -> None:
    boot = Watched(*SERVES, StopStarted(T + 100, "ops"), *(ContainerSeen(T + 105, r, "absent") for r in (0, 1)))
    boot.add(NodeLost(T + 106, "dgx3", "lost", "cut"), StopEnded(T + 110, "partly"))
    assert boot.blamed is None and boot.kept() is None
    boot.add(NodeBack(T + 150, "dgx3"), ContainerSeen(T + 151, 2, "absent"), NodeLost(T + 300, "dgx2", "lost", "cut"))
    assert boot.state.phase is Phase.STOPPED and boot.blamed is None


def test_what_failed_before_the_stop_stays_the_cause() -> None:
    boot = Watched(*runs(0, 1, 2), ended(T + 60.0, 2, 137), StopStarted(T + 100, "ops"), ended(T + 101, 0, 0))
    boot.add(StopEnded(T + 110, "stopped"))
    assert boot.blamed is not None and boot.blamed[0] == 2
