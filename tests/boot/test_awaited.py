"""Who has not come to the rendezvous is named while the others wait, and nobody is named when nobody waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.boot.awaited import LATE_S, awaited, late_ranks
from console.boot.events import BootOpened, RankRef
from console.boot.reduce import opened
from console.boot.state import BootState, Phase, RankState
from console.boot.to_json import awaited_json, deployment_json
from console.enginelog.stages_model import Stage

T0 = 1_790_000_000.0


def boot(count: int = 4, **ranks: RankState) -> BootState:
    refs = tuple(RankRef(n, f"dgx{n + 1}", f"x-r{n}") for n in range(count))
    state = opened(BootOpened(T0, "x-b1", 1, "x", "X", "d", "dgx1", refs, T0, 1800.0, 8000, "x"))
    there = [
        replace(r, status="running", stage=Stage.RENDEZVOUS, stage_since=T0 + 20 + r.rank, last_line_at=T0 + 20)
        for r in state.ranks
    ]
    return replace(state, phase=Phase.BOOTING, ranks=tuple(ranks.get(f"r{r.rank}", r) for r in there))


def rank(number: int, **known: object) -> RankState:
    return replace(RankState(number, f"dgx{number + 1}", f"x-r{number}"), **known)


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"status": "running"}, "its container runs and has said nothing"),
        ({"status": "absent"}, "its container is not there"),
        ({}, "its container has not been seen"),
        ({"status": "paused"}, "its container is paused"),
        ({"status": "created"}, "its container is created"),
        ({"status": "exited", "exit_code": 1}, "its container is exited"),
        ({"status": "running", "reachable": False}, "its node does not answer"),
        ({"status": "running", "stage": Stage.ARGUMENTS, "last_line_at": T0 + 30},
         "it is at arguments, its last line 31 s ago"),
    ],
)  # fmt: skip
def test_what_is_known_of_the_one_that_is_missing(known: dict[str, object], why: str) -> None:
    state = boot(r3=rank(3, **known))
    found = awaited(state, T0 + 61)
    assert found is not None and found.came == (0, 1, 2) and found.late
    assert found.sentence == (f"3 of 4 have come to the rendezvous, and wait for 41 s; not yet: rank 3 on dgx4 ({why})")
    assert late_ranks(state, T0 + 61) == {3: f"others wait 41 s: {why}"}
    assert awaited_json(state, T0 + 61) == {
        "came": [0, 1, 2], "of": 4, "waited_s": 41.0, "missing": [{"rank": 3, "node": "dgx4", "why": why}],
    }  # fmt: skip


def test_nobody_is_late_before_it_is_late() -> None:
    state = boot(r1=rank(1, status="running"))
    early = awaited(state, T0 + 20 + LATE_S - 1)
    assert early is not None and not early.late
    assert late_ranks(state, T0 + 20 + LATE_S - 1) == {} and 1 in late_ranks(state, T0 + 20 + LATE_S)


def test_nobody_waits_where_all_have_come_or_none_or_the_world_is_made() -> None:
    whole = boot()
    assert awaited(whole, T0 + 900) is None
    assert deployment_json(whole, T0 + 900)["awaited"] is None
    nobody = boot(2, r0=rank(0, status="running"), r1=rank(1, status="running"))
    assert awaited(nobody, T0 + 900) is None
    made = boot(r0=rank(0, status="running", stage=Stage.MODEL, stage_since=T0 + 40), r3=rank(3, status="running"))
    assert awaited(made, T0 + 900) is None
    missing = boot(r3=rank(3, status="running"))
    for over in (Phase.FAILED, Phase.STOPPED, Phase.STOPPING):
        assert awaited(replace(missing, phase=over), T0 + 900) is None
    assert awaited(replace(missing, ready_at=T0 + 50), T0 + 900) is None
    assert awaited(boot(1), T0 + 900) is None
