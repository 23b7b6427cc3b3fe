"""What the ranks' logs say of the time that is left, against the deadline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.boot.events import BootOpened, RankRef
from console.boot.reduce import opened, reduce
from console.boot.state import BootState
from console.enginelog.board import BoardTracker
from console.enginelog.stages_model import Stage
from console.services.progress import ProgressTeller

BAR = b"(Worker_TP0 pid=9) \rLoading safetensors checkpoint shards:  25% Completed | 12/48 [01:40<05:00,  8.33s/it]\n"
BOOTS = ({Stage.WEIGHTS: 400.0, Stage.KV_CACHE: 20.0, Stage.GRAPHS: 80.0},) * 2


def loading(earlier: tuple[dict[Stage, float], ...], deadline_s: float) -> tuple[ProgressTeller, BootState]:
    """One rank, 100 s after its launch, a quarter of its weights read, five minutes to go by its own bar."""
    refs = (RankRef(0, "dgx1", "nd-r0"),)
    state = opened(BootOpened(0.0, "x-b1", 1, "x", "x", "d", "dgx1", refs, 0.0, deadline_s, 8000, "m"))
    board = BoardTracker(1)
    board.feed(0, BAR)
    teller = ProgressTeller(board, earlier, 0.0)
    for event in teller.ranks(state, [0], 100.0):
        state = reduce(state, event)
    assert state.ranks[0].stage is Stage.WEIGHTS
    return teller, state


@pytest.mark.parametrize(
    ("earlier", "deadline_s", "ready", "in_time"),
    [(BOOTS, 600.0, 500.0, True), (BOOTS, 450.0, 500.0, False), (BOOTS, 500.0, 500.0, None), ((), 600.0, None, None),
     ((), 300.0, None, False)],
)  # fmt: skip
def test_the_bar_and_earlier_boots_are_held_against_the_deadline(
    earlier: tuple[dict[Stage, float], ...], deadline_s: float, ready: float | None, in_time: bool | None
) -> None:
    teller, state = loading(earlier, deadline_s)
    eta = teller.eta(state, 100.0)
    assert eta is not None and (eta.stage, eta.stage_at) == (Stage.WEIGHTS, 400.0)
    assert (eta.eta_at, eta.in_time) == (ready, in_time)


def test_the_expected_time_is_told_again_only_where_it_says_something_new() -> None:
    teller, state = loading((), 600.0)
    told = teller.eta(state, 100.0)
    assert told is not None
    state = reduce(state, told)
    assert teller.eta(state, 101.0) is None
    assert teller.eta(replace(state, eta_stage_at=390.0), 101.0) is not None


def test_a_log_that_is_read_again_says_how_old_its_last_line_is() -> None:
    """A console that comes to a boot reads all of it at once: its lines are as old as their stamps."""
    board = BoardTracker(1)
    teller = ProgressTeller(board, (), 0.0)
    teller.heard(0, 1, 1000.0, 640.0)
    assert teller._last_line[0] == 640.0
    teller.heard(0, 2, 1001.0, 100.0)  # an older line that came later takes nothing back
    assert teller._last_line[0] == 640.0
    teller.heard(0, 3, 1002.0, 990.0)  # within what two machines' clocks may differ by: it is said now
    assert teller._last_line[0] == 1002.0
    teller.heard(0, 4, 1003.0)
    assert teller._last_line[0] == 1003.0
