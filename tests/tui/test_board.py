"""The board and what takes its place: pure lines, and the pane at both sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.boot.state import Phase
from console.enginelog.stages_model import Cell, CellState, Stage
from console.tui.actions import key_signs
from console.tui.board_rows import BoardLook, board_header, board_row, cell_words, laggards, shortened, silent_for
from console.tui.boot_lines import clock_line, failure_lines, step_lines
from console.tui.glyphs import ASCII, UNICODE
from console.tui.spans import line_width, plain
from tests.tui import fake_values as v
from tests.tui.conftest import SIZES, deck

NOW = v.T0


def test_the_laggard_is_the_one_behind_and_nobody_when_half_are() -> None:
    boot = v.booting(NOW)
    assert list(laggards(boot.ranks)) == [5]
    even = [replace(r, progress=0.6) for r in boot.ranks]
    assert laggards(even) == {}
    halves = [replace(r, stage=Stage.NCCL if r.rank < 4 else Stage.WEIGHTS, progress=None) for r in boot.ranks]
    assert laggards(halves) == {}
    one = [replace(r, stage=Stage.RENDEZVOUS if r.rank == 2 else Stage.WEIGHTS, progress=None) for r in boot.ranks]
    assert laggards(one) == {2: "still in rendezvous"}
    assert laggards(boot.ranks[4:6]) == {}
    moved = [replace(r, stage_since=NOW - 1.0) for r in one]
    assert laggards(moved, NOW) == {}
    assert laggards(moved, NOW + 9.0) == {2: "still in rendezvous"}


def test_a_figure_in_a_cell_is_never_cut() -> None:
    assert shortened("0.4 s", 4) == "0.4s"
    assert shortened("joined 8/8", 5) == "8/8"
    assert shortened("4 s 0.58 GiB", 4) == "4s"
    assert shortened("15.93 GiB", 6) == "15.93"
    assert shortened("joined", 5) == ""
    assert shortened("14.96 GiB", 7) == "14.96"
    assert shortened("14.96 GiB", 4) == ""


def test_silence_counts_only_while_booting() -> None:
    boot = v.booting(NOW)
    assert silent_for(boot.ranks[7], boot, NOW) == 130.0
    assert silent_for(boot.ranks[0], boot, NOW) is None
    up = v.ready(NOW)
    assert silent_for(replace(up.ranks[0], last_line_at=NOW - 999), up, NOW) is None


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("width", [76, 134, 158])
def test_rows_and_header_are_as_wide_as_the_pane(width: int, glyphs: object) -> None:
    look = BoardLook(width, glyphs)  # type: ignore[arg-type]
    boot = v.booting(NOW)
    assert line_width(board_header(look)) == width
    for rank in boot.ranks:
        for line in board_row(rank, boot, look, NOW, "slowest"):
            assert line_width(line) == width


def test_ascii_rows_are_ascii() -> None:
    look = BoardLook(158, ASCII)
    boot = v.booting(NOW)
    assert all(plain(line).isascii() for r in boot.ranks for line in board_row(r, boot, look, NOW, ""))


def test_cells_say_state_time_and_what_was_inferred() -> None:
    look = BoardLook(158, UNICODE)
    ready = v.ready(NOW)
    row = plain(board_row(ready.ranks[0], ready, look, NOW, "")[0])
    assert "✓~" in row
    assert "73.2 GiB" in row
    rank = replace(
        v.booting(NOW).ranks[0], cells=(Cell(Stage.NCCL, CellState.FAILED), Cell(Stage.HTTP, CellState.SKIPPED))
    )
    row = plain(board_row(rank, v.booting(NOW), look, NOW, "")[0])
    assert "✗" in row
    assert "–" in row
    unknown = replace(rank, cells=(Cell(Stage.MODEL, CellState.UNKNOWN),))
    assert "?" in plain(board_row(unknown, v.booting(NOW), look, NOW, "")[0])


def test_a_dead_container_and_a_lost_node_say_so_in_the_row() -> None:
    look = BoardLook(158, UNICODE)
    boot = v.booting(NOW)
    dead = replace(boot.ranks[5], status="exited", exit_code=137, oom_killed=True)
    assert "exited 137 OOM-killed" in plain(board_row(dead, boot, BoardLook(190, UNICODE), NOW, "")[0])
    lost = replace(boot.ranks[5], reachable=False, trouble="silent")
    assert "node lost: silent" in plain(board_row(lost, boot, look, NOW, "")[0])


def test_cell_words_offer_the_jump() -> None:
    words = plain(cell_words(v.booting(NOW).ranks[5], Stage.WEIGHTS, NOW, 150))
    assert "rank 5 dgx6" in words
    assert "38 %" in words
    assert words.endswith("enter: log line 64 ")


@pytest.mark.parametrize(("width", "height"), [(157, 10), (77, 18), (77, 10)])
def test_a_failure_fits_whole(width: int, height: int) -> None:
    lines = failure_lines(v.failed(NOW), width, height, UNICODE, key_signs())
    assert len(lines) <= height
    text = "\n".join(plain(line) for line in lines)
    for words in ("rank 5, dgx6", "exited 1", "failed after 12:01", "Free memory on dgx6", "ValueError: Free",
                  "Lower --gpu-memory-utilization", "fell because of it", "[e] edit"):  # fmt: skip
        assert words in text


def test_a_failure_without_a_cause_still_says_who_and_where() -> None:
    boot = replace(v.failed(NOW), cause=None)
    text = "\n".join(plain(line) for line in failure_lines(boot, 120, 10, UNICODE, {}))
    assert "rank 5, dgx6" in text
    assert "rank 5 exited 1" in text
    assert "no line: the states" in text


def test_steps_name_the_nodes_that_are_not_done() -> None:
    lines = [plain(line) for line in step_lines(v.starting(NOW).steps, NOW, 150, UNICODE)]
    assert "8/8" in lines[0]
    assert "7/8" in lines[2]
    assert "dgx6 copying 12.4 of 34.1 GB" in lines[2]


@pytest.mark.parametrize("size", SIZES)
async def test_the_pane_shows_failure_stop_and_steps_without_scrolling(size: tuple[int, int]) -> None:
    async with deck("failed", size=size) as d:
        for words in (
            "rank 5, dgx6",
            "Free memory on dgx6",
            "ValueError",
            "what now",
            "victims",
            "[e] edit the recipe",
        ):
            assert words in d.text()
        d.hub.set_boot(v.stopped(d.hub.now()))
        await d.settle()
        assert "stopped on 6 of 8; dgx8 does not answer" in d.text()
        assert "○ stopped" not in d.text()
        d.hub.set_boot(v.starting(d.hub.now()))
        await d.settle()
        assert "dgx6 copying" in d.text()
        d.hub.set_boot(None)
        await d.settle()
        assert "Nothing runs on this cluster." in d.text()
        d.hub.set_boot(v.booting(d.hub.now()))
        await d.settle()
        assert "slowest, median 64%" in d.text()


async def test_the_focus_follows_when_the_board_gives_way() -> None:
    async with deck() as d:
        d.main.choose_pane("boot")
        d.hub.set_boot(v.failed(d.hub.now()))
        await d.settle()
        assert d.app.focused is not None
        assert d.app.focused.id == "boot-paper"


def test_a_node_out_of_sight_is_named_within_eighty_columns() -> None:
    boot = v.ready(NOW)
    lost = replace(boot.ranks[3], reachable=False, trouble="it went quiet")
    unseen = replace(boot, phase=Phase.DEGRADED, unproven=True, ranks=(*boot.ranks[:3], lost, *boot.ranks[4:]))
    text = plain(clock_line(unseen, NOW, 80, UNICODE))
    assert f"cannot see rank 3 on {lost.node}: it went quiet" in text and len(text) <= 80
    assert "dead" not in plain(clock_line(unseen, NOW, 400, UNICODE))
    proven = plain(clock_line(replace(unseen, phase=Phase.READY, unproven=False), NOW, 400, UNICODE))
    assert "the model answers, so it works" in proven


def test_what_is_wrong_with_an_answer_is_named_within_eighty_columns() -> None:
    bad = replace(v.ready(NOW), phase=Phase.SERVING_BAD, smoke_ok=False, smoke_why="one word is 62 % of the answer")
    assert "one word is 62 % of the answer" in plain(clock_line(bad, NOW, 80, UNICODE))


@pytest.mark.parametrize("height", [8, 9, 14])
def test_other_causes_stand_below_the_first_where_there_is_room(height: int) -> None:
    boot = v.failed(NOW)
    assert boot.cause is not None
    others = tuple(replace(boot.cause, rank=r, sentence=f"Cause {r}.") for r in (0, 1, 2, 4))
    boot = replace(boot, others=others, cause=replace(boot.cause, victims=(0, 3)))
    lines = [plain(line) for line in failure_lines(boot, 120, height, UNICODE, key_signs())]
    also = [line for line in lines if line.startswith(" also")]
    assert len(lines) <= height
    assert [line.split(None, 1)[1].strip() for line in also] == (
        ["rank 1: Cause 1.; rank 2: Cause 2. +1"] if height >= 9 else []
    )


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_up_and_not_well_says_what_now(size: tuple[int, int]) -> None:
    async with deck("ready", size=size) as d:
        d.main.choose_pane("boot")
        await d.settle()
        assert "what now" not in d.text()
        d.hub.update_boot(phase=Phase.SERVING_BAD, smoke_ok=False, smoke_why="the answer repeats 'care'")
        await d.settle()
        assert "what now" in d.text() and "[v] asks it again" in d.text() and "dgx8" in d.text()
        boot = d.hub.snapshot().boot
        assert boot is not None
        ranks = tuple(replace(r, status="exited", exit_code=137) if r.rank == 3 else r for r in boot.ranks)
        d.hub.update_boot(phase=Phase.DEGRADED, ranks=ranks)
        await d.settle()
        assert "rank 3 on dgx4 has ended and does not come back" in d.text() and "[r] restarts" in d.text()


def test_figures_that_no_longer_come_say_how_old_they_are_and_why() -> None:
    boot = v.ready(NOW)
    fresh = plain(clock_line(boot, NOW, 400, UNICODE))
    assert "KV 12 %" in fresh and " old" not in fresh
    late = plain(clock_line(replace(boot, stats_why="/metrics says 404"), NOW + 600, 400, UNICODE))
    assert "accepted 3.57  10 m old: /metrics says 404" in late
    none = plain(clock_line(replace(boot, stats={}, stats_at=None, stats_why="connection refused"), NOW, 400, UNICODE))
    assert "no figures of the engine: connection refused" in none
