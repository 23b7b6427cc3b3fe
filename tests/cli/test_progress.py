"""What `launch` prints of ranks and steps: together where they go together, and nothing goes back unsaid."""

from __future__ import annotations

import io
from collections.abc import Sequence

from console.boot.events import BootOpened, Event, RankProgress, RankRef, StepChanged, StopSeen
from console.cli.cmd_launch import heard_of_stop, tell_cut_stop
from console.cli.follow import Teller
from console.cli.out import Out
from console.enginelog.stages_model import Stage

T = 1_796_000_000.0
OPENED = BootOpened(T, "d", 7, "f", "F", "x", "dgx1", (RankRef(0, "dgx1", "c0"),), T, 3600.0, 8000, "m")


def at(rank: int, stage: Stage, share: float | None = None, after: float = 0.0) -> RankProgress:
    return RankProgress(T + after, rank, (), stage, share, 1, T)


def told(*events: Event) -> Sequence[str]:
    stdout = io.StringIO()
    out = Out(as_json=False, stdout=stdout, stderr=io.StringIO())
    teller = Teller(out)
    for event in (OPENED, *events):
        teller.heard("d", event)
    teller.flush()
    out.finish()
    return [line.partition(" ")[2] for line in stdout.getvalue().splitlines()]


def test_ranks_that_reach_a_stage_within_a_moment_share_a_line() -> None:
    events = [at(r, Stage.WEIGHTS, 0.9, r / 20) for r in range(8)]
    assert told(*events) == ["ranks 0-7: weights 90 %"]
    late = at(5, Stage.LOADED, None, 9.0)
    assert told(*events, at(0, Stage.LOADED, None, 5.0), late) == [
        "ranks 0-7: weights 90 %",
        "rank 0: loaded",
        "rank 5: loaded",
    ]


def test_what_is_held_back_comes_before_what_happens_next() -> None:
    lines = told(at(0, Stage.WEIGHTS), at(1, Stage.WEIGHTS), StepChanged(T + 0.1, "start", "dgx1", "done"))
    assert lines == ["ranks 0-1: weights", "start: dgx1 done"]


def test_progress_that_begins_again_says_so() -> None:
    shares = [0.5, 0.9, 0.0, 0.4, 0.9, 0.1]
    lines = told(*(at(0, Stage.WEIGHTS, s, 5.0 * i) for i, s in enumerate(shares)))
    assert lines == [
        "rank 0: weights 50 %",
        "rank 0: weights 90 %",
        "rank 0: weights 0 %, second pass",
        "rank 0: weights 40 %, second pass",
        "rank 0: weights 90 %, second pass",
        "rank 0: weights 10 %, third pass",
    ]
    assert told(at(0, Stage.LOADED), at(0, Stage.WEIGHTS, None, 3.0))[-1] == "rank 0: weights, again"


def test_a_step_that_is_tried_again_says_so_between_failed_and_done() -> None:
    rows = [("failed", "the link was lost"), ("running", "waiting"), ("running", "10 %"), ("done", "")]
    assert told(*(StepChanged(T, "copy image", "dgx3", state, why) for state, why in rows)) == [
        "copy image: dgx3 failed: the link was lost",
        "copy image: dgx3 is tried again",
        "copy image: dgx3 done",
    ]
    assert told(*(StepChanged(T, "copy image", "dgx3", s) for s in ("failed", "done")))[-1].endswith("done after all")


def test_a_stop_that_is_interrupted_says_what_holds_on_each_node() -> None:
    seen: dict[str, tuple[str, str]] = {}
    for event in (
        StepChanged(T, "stop head", "dgx1", "running"),
        StepChanged(T, "stop head", "dgx1", "done"),
        StopSeen(T, "dgx1", "stopped"),
        StepChanged(T, "stop workers", "dgx2", "done"),
        StepChanged(T, "stop workers", "dgx3", "running"),
        StepChanged(T, "start workers", "dgx4", "done"),
    ):
        heard_of_stop(seen, event)
    stdout, stderr = io.StringIO(), io.StringIO()
    out = Out(as_json=False, stdout=stdout, stderr=stderr)
    tell_cut_stop(seen, ["dgx1", "dgx2", "dgx3", "dgx4"], out)
    out.finish()
    assert stdout.getvalue().splitlines() == [
        "  dgx1: stopped",
        "  dgx2: ended, not verified",
        "  dgx3: asked, not known",
        "  dgx4: not asked yet",
    ]
    assert "interrupted" in stderr.getvalue()
