"""Whom the kernel killed: only this rank's own processes explain this rank's end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.enginelog.causes import find_cause
from console.enginelog.diagnose_states import read_states
from console.enginelog.diagnose_write import write_states
from console.enginelog.evidence import ContainerState, Evidence, RankEvidence

AT = 1_796_000_000.0
ID, OTHER = "ab" * 32, "cd" * 32
GROUP = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg={0},task_memcg={0},task={1},pid=23918,uid=0"
)
KILL = "Memory cgroup out of memory: Killed process 23918 ({}) total-vm:2096884kB, anon-rss:2093540kB"


def rank(*kernel: str, code: int = 137, box: str = ID, pids: frozenset[int] = frozenset()) -> RankEvidence:
    gone = ContainerState("exited", code, False, "", AT, AT + 60)
    return RankEvidence(1, "spark2", container=gone, kernel=kernel, container_id=box, pids=pids)


def cause_of(where: RankEvidence, stop_at: float | None = None) -> str | None:
    ranks = (RankEvidence(0, "spark1", container=ContainerState("running")), where)
    evidence = Evidence(ranks, world_size=2, launched_at=AT, stop_at=stop_at)
    kept = read_states(write_states(evidence, {}))
    again, found = find_cause(kept).cause, find_cause(evidence).cause
    assert (again and again.cls) == (found and found.cls), "the boot's folder tells another cause"
    return found.cls if found is not None else None


@pytest.mark.parametrize(
    ("group", "name", "cls"),
    [
        (f"/docker/{ID}", "python3", "host_oom"),
        (f"/system.slice/docker-{ID}.scope", "python3", "host_oom"),
        (f"/docker/{OTHER}", "python3", "killed_from_outside"),
        (f"/docker/{OTHER}", "VLLM::Worker_TP", "killed_from_outside"),
        ("/user.slice/user-1000.slice/session-4.scope", "python3", "killed_from_outside"),
    ],
)
def test_the_control_group_says_whose_process_it_was(group: str, name: str, cls: str) -> None:
    asked = f"{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
    assert cause_of(rank(asked, GROUP.format(group, name), KILL.format(name))) == cls


@pytest.mark.parametrize(
    ("name", "pids", "cls"),
    [
        ("python3", frozenset(), "killed_from_outside"),
        ("python3", frozenset({23918}), "host_oom"),
        ("VLLM::Worker_TP", frozenset(), "host_oom"),
        ("chrome", frozenset(), "killed_from_outside"),
    ],
)
def test_without_a_group_a_process_of_ours_or_a_title_of_an_engine(name: str, pids: frozenset[int], cls: str) -> None:
    assert cause_of(rank(KILL.format(name), pids=pids)) == cls


def test_a_kill_of_ours_is_not_hidden_by_anothers() -> None:
    ours = GROUP.format(f"/docker/{ID}", "cicc").replace("23918", "411"), KILL.format("cicc").replace("23918", "411")
    theirs = GROUP.format(f"/docker/{OTHER}", "python3"), KILL.format("python3")
    assert cause_of(rank(*theirs, *ours)) == "host_oom"


@pytest.mark.parametrize("code", [0, 137])
def test_a_boot_that_was_stopped_has_no_cause(code: int) -> None:
    lines = GROUP.format(f"/docker/{ID}", "python3"), KILL.format("python3")
    assert cause_of(rank(*lines, code=code), stop_at=AT + 55) is None
    behind = replace(rank(*lines, code=code), fell_before_stop=False)  # by the clock of its node it ended before
    assert find_cause(Evidence((behind,), launched_at=AT, stop_at=AT + 900)).cause is None
    assert find_cause(Evidence((replace(behind, fell_before_stop=True),), launched_at=AT, stop_at=AT + 1)).cause
