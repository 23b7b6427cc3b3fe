"""What is said of a boot in words that hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.boot.events import BootOpened, EtaChanged, RankRef
from console.boot.reduce import opened, reduce
from console.boot.state import BootState, Phase
from console.boot.to_json import deployment_json
from console.boot.words import expected_now, phase_word, stage_now
from console.enginelog.stages_model import Stage


def serving() -> BootState:
    """Two ranks whose logs said their last word about a stage: the head its API, the worker its graphs."""
    refs = (RankRef(0, "spark1", "nd-r0"), RankRef(1, "spark2", "nd-r1"))
    state = opened(
        BootOpened(100.0, "x-b1", 1, "x", "x", "d", "spark1", refs, launched_at=100.0, deadline_s=600.0, port=8000,
                   served_name="m")
    )  # fmt: skip
    head = replace(state.ranks[0], status="running", stage=Stage.HTTP, stage_since=190.0)
    worker = replace(state.ranks[1], status="running", stage=Stage.GRAPHS, stage_since=180.0, progress=0.9)
    return replace(state, phase=Phase.READY, ready_at=200.0, ranks=(head, worker))


def test_a_rank_that_runs_while_the_boot_serves_is_serving() -> None:
    state = serving()
    assert stage_now(state, state.ranks[0]) == (Stage.SERVING, 200.0, False)
    assert stage_now(state, state.ranks[1]) == (Stage.SERVING, 200.0, True)
    rows = deployment_json(state, now=260.0)["ranks"]
    assert [(r["stage"], r["stage_inferred"], r["stage_s"], r["progress"]) for r in rows] == [
        ("serving", False, 60.0, None),
        ("serving", True, 60.0, None),
    ]


@pytest.mark.parametrize(
    "change", [{"phase": Phase.DEGRADED}, {"phase": Phase.BOOTING}, {"phase": Phase.STOPPING}, {"unproven": True}]
)
def test_where_it_is_not_known_to_serve_the_log_has_the_word(change: dict[str, object]) -> None:
    state = replace(serving(), **change)  # type: ignore[arg-type]
    assert stage_now(state, state.ranks[1]) == (Stage.GRAPHS, 180.0, False)


def test_a_rank_out_of_sight_is_not_called_serving() -> None:
    state = serving()
    lost = replace(state.ranks[1], reachable=False)
    assert stage_now(replace(state, ranks=(state.ranks[0], lost)), lost)[0] is Stage.GRAPHS


@pytest.mark.parametrize(
    ("eta", "words"),
    [
        (EtaChanged(1.0, 700.0, 640.0, 880.0, "3 earlier boots", in_time=True), "ready about 700 ± 2 min, in time"),
        (EtaChanged(1.0, 700.0, in_time=False), "ready about 700, past the deadline"),
        (EtaChanged(1.0, 700.0, 400.0, 1000.0), "ready about 700 ± 5 min"),
        (
            EtaChanged(1.0, None, why="no earlier boot", stage=Stage.WEIGHTS, stage_at=500.0),
            "weights until about 500, then no earlier boot",
        ),
        (EtaChanged(1.0, None, why="no earlier boot"), "ready: no earlier boot"),
        (EtaChanged(1.0, None), ""),
    ],
)
def test_the_expected_time_says_no_more_than_is_known(eta: EtaChanged, words: str) -> None:
    assert expected_now(reduce(serving(), eta), lambda at: f"{at:.0f}") == words


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"phase": Phase.SERVING_BAD}, "serving bad"),
        ({"phase": Phase.STOPPING}, "stopping"),
        ({"phase": Phase.STOPPING, "stop_result": "partly"}, "partly stopped"),
        ({"phase": Phase.STOPPED, "stop_result": "stopped"}, "stopped"),
        ({"phase": Phase.STOPPING, "stop_result": "failed"}, "stop failed"),
    ],
)
def test_a_stop_that_not_all_answered_is_neither_over_nor_going_on(change: dict[str, object], word: str) -> None:
    assert phase_word(replace(serving(), **change)) == word  # type: ignore[arg-type]
