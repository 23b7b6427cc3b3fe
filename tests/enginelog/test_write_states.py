"""What a boot's folder keeps beside its logs reads back as it was."""

from __future__ import annotations

import json

from console.base.absent import Absent
from console.enginelog.causes import find_cause
from console.enginelog.diagnose_states import read_states
from console.enginelog.diagnose_write import write_states
from console.enginelog.evidence import NOT_ASKED, Answer, ContainerState, Evidence, LaunchResult, RankEvidence

AT = 1796013755.25
EVIDENCE = Evidence(
    ranks=(
        RankEvidence(0, "dgx1", container=ContainerState("exited", 0, False, "", AT, AT + 60.5), reachable=True),
        RankEvidence(1, "dgx2", container=ContainerState("running", None, False, "", AT, None), reachable=False,
                     trouble="silent", addresses=("10.0.0.2",), clock_offset_s=-3.5),
        RankEvidence(2, "dgx3", container=None, reachable=True, launch=LaunchResult(125, "docker: no such image", AT)),
        RankEvidence(3, "dgx4", container=NOT_ASKED, reachable=True, available_low_bytes=5 << 30, guard="TRIPPED at 4",
                     available_low_at=AT + 30, memory_fell_bytes_s=2.0**30,
                     kernel=("Out of memory: Killed process 4312 (VLLM::Worker_TP)",), rebooted=True, low_power=True,
                     clock_latched=True, fragmented=True),
    ),
    world_size=4,
    observed_at=AT + 90,
    launched_at=AT,
    health=Answer(False, error="the head's container has ended"),
    request=Answer(True, 200, 0.25, "", "Paris"),
    stop_at=AT + 80,
    stall_signs=("no line for 900 s",),
    deadline_passed=True,
)  # fmt: skip
NAMES = {0: "nd-b1-r0", 1: "nd-b1-r1", 2: "nd-b1-r2", 3: "nd-b1-r3"}


def test_it_reads_back_as_it_was() -> None:
    assert read_states(json.loads(json.dumps(write_states(EVIDENCE, NAMES)))) == EVIDENCE


def test_garbage_is_kept_with_the_request() -> None:
    evidence = Evidence(ranks=(), garbage="one token again and again")
    assert read_states(write_states(evidence, {})).garbage == "one token again and again"


def test_no_container_and_no_word_of_one_are_two_things() -> None:
    ranks = write_states(EVIDENCE, NAMES)["ranks"]
    assert ranks["2"]["container"] is None
    assert "container" not in ranks["3"]


def killed(line: str) -> tuple[str, int | None]:
    gone = ContainerState("exited", 1, False, "", AT, AT + 60)
    ranks = (RankEvidence(0, container=ContainerState("running")), RankEvidence(1, container=gone, kernel=(line,)))
    cause = find_cause(Evidence(ranks, world_size=2)).cause
    assert cause is not None
    return cause.cls, cause.rank


def test_the_kernel_names_whom_it_killed() -> None:
    words = "Memory cgroup out of memory: Killed process 4312 ({}) total-vm:3023836kB, anon-rss:3019008kB"
    assert killed(words.format("VLLM::Worker_TP")) == ("host_oom", 1)
    assert killed(words.format("chrome")) == ("cause_not_in_log", 1)


def test_a_rank_that_only_has_not_come_yet_is_not_the_missing_one() -> None:
    """The head was started a moment ago and has not said a word; the worker's container is gone."""
    ranks = (RankEvidence(0, container=ContainerState("running"), trail=None), RankEvidence(1, container=None))
    cause = find_cause(Evidence(ranks, world_size=2)).cause
    assert cause is not None
    assert (cause.cls, cause.rank) == ("rank_missing", 1)
    assert isinstance(NOT_ASKED, Absent)
