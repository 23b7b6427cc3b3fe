"""The log as a reader meets it: following, staying put, counting, searching, filtering."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.events import MouseScrollUp

from console.services.hub import LogLine
from console.tui.log_view import LogView
from tests.tui.conftest import SIZES, SMALL, Deck, deck
from tests.tui.fake_hub import EVIL, FakeHub
from tests.tui.fake_values import T0, log_lines


def top_text(view: LogView) -> str:
    number = view.store.number(view.top_row)
    line = view.store.line(number)
    assert line is not None
    return f"{line.seq}"


async def feed(d: Deck, count: int) -> None:
    d.hub.add(log_lines(count, start=d.hub.next_seq))
    d.main.logs.view.flush()
    await d.pilot.pause()


@pytest.mark.parametrize("size", SIZES)
async def test_follows_to_the_newest_line(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        d.main.choose_pane("logs")
        await feed(d, 100)
        view = d.main.logs.view
        assert view.follow
        assert view.top_row == view.store.rows - view.size.height
        assert "following" in d.text()


@pytest.mark.parametrize("size", SIZES)
async def test_a_reader_who_scrolled_up_stays_where_he_is_also_past_trimming(size: tuple[int, int]) -> None:
    hub = FakeHub()
    async with deck(size=size, hub=hub) as d:
        d.main.choose_pane("logs")
        view = d.main.logs.view
        view.store.keep = 600
        await d.press("pageup")
        assert not view.follow
        here = top_text(view)
        await feed(d, 150)
        assert top_text(view) == here
        assert view.new == 150
        await feed(d, 150)
        assert view.store.dropped > 0
        assert top_text(view) == here
        assert "+300 new" in d.text()
        assert f"{view.store.dropped} dropped" in d.text()
        await d.press("G")
        assert view.follow
        assert "following" in d.text()
        assert view.new == 0
        assert view.top_row == view.store.rows - view.size.height


async def test_a_reader_keeps_his_line_past_trimming_of_a_filtered_view() -> None:
    async with deck() as d:
        d.main.choose_pane("logs")
        view = d.main.logs.view
        view.store.keep = 1200
        await feed(d, 800)
        await d.press("4")
        assert view.store.filter.ranks == frozenset({3})
        await d.press("pageup")
        here = top_text(view)
        await feed(d, 400)
        assert view.store.dropped > 0
        assert top_text(view) == here


async def test_the_mouse_wheel_ends_following_and_space_brings_it_back() -> None:
    async with deck() as d:
        d.main.choose_pane("logs")
        view = d.main.logs.view
        view.post_message(MouseScrollUp(view, 5, 5, 0, -1, 0, False, False, False))
        await d.pilot.pause()
        assert not view.follow
        await d.press("space")
        assert view.follow
        await d.press("space")
        assert not view.follow


async def test_filter_by_prompt_counts_what_it_shows_and_what_is_hidden() -> None:
    async with deck() as d:
        await d.press("f", *"r2", "enter")
        view = d.main.logs.view
        assert view.store.rows == 50
        assert "50 of 400 lines" in d.text()
        assert "rank 2" in d.text()
        await d.press("0")
        assert view.store.rows == 400
        await d.press("f", *"error", "enter")
        assert view.store.rows == 4
        assert "filter errors" in d.text()


async def test_a_bad_expression_is_told_and_the_prompt_stays() -> None:
    async with deck() as d:
        await d.press("slash", "(", "enter")
        assert d.main.logs.query_one("#log-prompt").display
        assert any("not a regular expression" in n.message for n in d.app._notifications)


async def test_search_goes_up_from_the_end_and_on_with_brackets() -> None:
    async with deck() as d:
        await d.press("slash", *"remote process", "enter")
        view = d.main.logs.view
        assert not view.follow
        assert view.match == 387
        await d.press("left_square_bracket")
        assert view.match == 290
        await d.press("right_square_bracket")
        assert view.match == 387
        assert "remote process" in d.text()
        await d.press("escape")
        assert view.search is None


async def test_search_without_a_match_is_told() -> None:
    async with deck() as d:
        await d.press("slash", *"zebra", "enter")
        assert any("no match for zebra" in n.message for n in d.app._notifications)


async def test_next_error_and_next_stage() -> None:
    async with deck() as d:
        d.main.choose_pane("logs")
        view = d.main.logs.view
        await d.press("X")
        assert view.match == 387
        await d.press("X")
        assert view.match == 290
        await d.press("T")
        line = view.store.line(view.match or 0)
        assert line is not None
        assert view.is_stage(line.rank, line.index)


async def test_enter_on_a_cell_jumps_to_the_line_that_opened_the_stage() -> None:
    async with deck() as d:
        d.main.choose_pane("boot")
        await d.press("down", "left", "left", "enter")
        view = d.main.logs.view
        line = view.store.line(view.match or 0)
        assert line is not None
        assert (line.rank, line.index) == (1, 43)
        assert d.main.active == "logs"
        assert "▶ nccl" in d.text()


async def test_jump_takes_off_a_filter_that_hides_the_line() -> None:
    async with deck() as d:
        await d.press("f", *"r7", "enter")
        d.main.logs.jump(2, 13)
        line = d.main.logs.view.store.line(d.main.logs.view.match or 0)
        assert line is not None
        assert (line.rank, line.index) == (2, 13)


async def test_wrap_shows_the_end_of_a_long_line_and_folding_shows_its_message() -> None:
    async with deck(size=SMALL) as d:
        d.hub.lines.clear()
        header = "(Worker_TP0 pid=1) INFO 09-26 02:50:16 [gpu_model_runner.py:2604] "
        d.hub.lines = [LogLine(0, 0, "dgx1", 0, T0, "info", "", header + "message " * 20 + "the end")]
        d.main.logs.view.restart()
        d.main.choose_pane("logs")
        await d.pilot.pause()
        assert "message message" in d.text()
        assert "gpu_model_runner" not in d.text()
        assert "the end" not in d.text()
        await d.press("w")
        assert "the end" in d.text()
        assert "gpu_model_runner" in d.text()


async def test_lines_are_cut_and_nothing_in_them_is_obeyed() -> None:
    async with deck() as d:
        evil = [LogLine(0, 0, "dgx1", 0, T0, "info", "", EVIL), LogLine(1, 0, "dgx1", 1, T0, "", "", "x" * 90_000)]
        d.hub.lines = evil
        d.main.logs.view.restart()
        await d.pilot.pause()
        text = d.text()
        assert "red[bold red]markup[/] [link=x]" in text
        assert "\x1b" not in text
        rows = d.main.logs.view._rows_on_screen()
        assert max(sum(len(t) for t, _ in spans) for _, spans in rows) < 2100


async def test_gaps_and_lost_lines_are_counted_once() -> None:
    hub = FakeHub()
    async with deck(hub=hub) as d:
        lines = log_lines(16, start=400)
        hub.add([line for line in lines if line.seq != 403])
        d.main.logs.view.flush()
        assert d.main.logs.view.missing == 1
        hub.capacity = 100
        hub.add(log_lines(500, start=hub.next_seq))
        d.main.logs.view.flush()
        await d.pilot.pause()
        assert d.main.logs.view.missing > 300
        assert "missing" in d.text()


async def test_another_deployment_begins_its_own_log() -> None:
    async with deck() as d:
        from tests.tui import fake_values

        d.hub.lines = log_lines(3)
        d.hub.set_boot(fake_values.booting(d.hub.now(), number=12))
        await d.settle()
        assert d.main.logs.view.store.rows == 3


async def test_copy_says_where_and_save_asks_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    async with deck() as d:
        await d.press("3", "y")
        files = list(tmp_path.glob("nightdeck-copy-*"))  # noqa: ASYNC240
        assert len(files) == 1
        text = files[0].read_text()
        assert " r2 " in text
        assert d.app.clipboard == text.rstrip("\n")
        assert any(str(files[0]) in n.message for n in d.app._notifications)
        await d.press("ctrl+s")
        assert d.calls("save") == [2]


async def test_a_view_that_is_not_on_screen_does_not_flush() -> None:
    async with deck(size=SMALL) as d:
        view = d.main.logs.view
        assert view._timer is not None
        assert not view._timer._active.is_set()
        d.main.choose_pane("logs")
        await d.pilot.pause()
        assert view._timer._active.is_set()
        d.main.choose_pane("cluster")
        await d.pilot.pause()
        assert not view._timer._active.is_set()


@pytest.mark.parametrize("size", SIZES)
async def test_resize_keeps_the_reader(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        d.main.choose_pane("logs")
        await d.press("pageup", "pageup")
        view = d.main.logs.view
        here = top_text(view)
        await d.pilot.resize_terminal(100, 40)
        await d.pilot.pause()
        assert top_text(view) == here
        assert not view.follow
        await d.press("end")
        await d.pilot.resize_terminal(*size)
        await d.pilot.pause()
        assert view.follow
        assert view.top_row == view.store.rows - view.size.height
