"""Search in the log: as it is typed, counted, round the ends with a word, and back to where one was."""

from __future__ import annotations

import re

import pytest

from console.services.hub import LogLine
from console.tui.log_search import LogSearch, Stand
from console.tui.log_store import LogStore, read_filter
from console.tui.spans import plain
from tests.tui.conftest import SIZES, deck
from tests.tui.fake_hub import FakeHub
from tests.tui.fake_values import T0, booting


def lines(count: int, *, every: int = 100, start: int = 0) -> list[LogLine]:
    return [
        LogLine(
            i, i % 8, f"dgx{i % 8 + 1}", i // 8, T0 + i, "info", "", f"needle {i}" if i % every == 0 else f"hay {i}"
        )
        for i in range(start, start + count)
    ]


def searched(stand: Stand, count: int = 1000) -> LogSearch:
    store = LogStore()
    store.append(lines(count))
    found = LogSearch(store, re.compile("needle"), stand)
    assert found.scan(9.0)
    return found


@pytest.mark.parametrize(
    ("stand", "number"),
    [
        (Stand(980, 999, True), 900),  # the nearest above, not the first of the log
        (Stand(880, 999, True), 900),  # on the screen, the newest where one follows
        (Stand(280, 420, False), 300),  # on the screen, the first where one reads
        (Stand(310, 350, False), 300),
        (Stand(0, 40, False), 0),
    ],
)
def test_the_nearest_from_where_one_stands(stand: Stand, number: int) -> None:
    assert searched(stand).nearest() == number


def test_below_when_there_is_nothing_above() -> None:
    store = LogStore()
    store.append(lines(300, start=1))
    found = LogSearch(store, re.compile("needle"), Stand(0, 40, False))
    found.scan(9.0)
    assert found.nearest() == 99  # the 100th line has absolute number 99 here


def test_steps_go_round_with_a_word_and_places_are_counted() -> None:
    found = searched(Stand(0, 10, False))
    assert found.words(300) == "4/10" and found.words(301) == "0/10"
    assert (found.step(800, 1), found.wrapped) == (900, "")
    assert (found.step(900, 1), found.wrapped) == (0, "start")
    assert (found.step(0, -1), found.wrapped) == (900, "end")


def test_new_lines_are_counted_dropped_ones_not_and_a_filter_counts_what_it_shows() -> None:
    store = LogStore(keep=1000)
    store.append(lines(1000))
    found = LogSearch(store, re.compile("needle"), Stand(0, 10, False))
    assert not found.complete and found.words(None) == "…"
    found.scan(9.0)
    store.append(lines(500, start=1000))
    assert not found.complete
    found.scan(9.0)
    assert store.dropped == 500 and found.count == 10 and found.place(500) == 1 and found.place(400) == 0
    store.set_filter(read_filter("r4"))
    store.scan(9.0)
    found.scan(9.0)
    assert found.count == 5  # 500, 700, … 1300 are rank 4's


@pytest.mark.parametrize("size", SIZES)
async def test_typing_searches_from_the_end_and_escape_comes_back_to_following(size: tuple[int, int]) -> None:
    hub = FakeHub()
    hub.lines = lines(1000)
    async with deck(hub=hub, size=size) as d:
        d.main.choose_pane("logs")
        view = d.main.logs.view
        await d.press("slash", "n", "e", "e")
        assert view.match == 900 and not view.follow
        assert "/nee/ 10/10" in d.text()
        await d.press(*"dle 3")
        assert view.match == 300 and "1/1" in d.text()
        await d.press("escape")
        assert view.follow and view.search is None and view.match is None
        assert not d.main.logs.query_one("#log-prompt").display


async def test_n_and_capital_n_go_on_and_tell_when_they_go_round() -> None:
    hub = FakeHub()
    hub.lines = lines(1000)
    async with deck(hub=hub) as d:
        d.main.choose_pane("logs")
        view = d.main.logs.view
        await d.press("slash", *"needle", "enter")
        assert view.match == 900 and "10/10" in d.text() and "went round" not in d.text()
        await d.press("n")
        assert view.match == 0 and "1/10 went round, from the start" in d.text()
        await d.press("n")
        assert view.match == 100 and "2/10" in d.text() and "went round" not in d.text()
        await d.press("N", "N")
        assert view.match == 900 and "10/10 went round, from the end" in d.text()
        assert d.app.screen is d.main  # and no note was opened
        await d.press("escape")
        assert view.follow and view.search is None
        await d.press("n")
        assert d.app.screen is not d.main  # n is the note's again


async def test_escape_after_reading_brings_the_reader_back_to_his_line() -> None:
    hub = FakeHub()
    hub.lines = lines(1000)
    async with deck(hub=hub) as d:
        d.main.choose_pane("logs")
        view = d.main.logs.view
        await d.press("pageup", "pageup", "pageup")
        here = view.top_row
        await d.press("slash", *"needle 1", "enter", "escape")
        assert view.top_row == here and not view.follow


async def test_half_an_expression_waits_and_no_match_is_counted_as_none() -> None:
    hub = FakeHub()
    hub.lines = lines(1000)
    async with deck(hub=hub, toasts=True) as d:
        await d.press("slash", *"(needl")
        assert not list(d.app._notifications)
        await d.press("e", ")")
        assert d.main.logs.view.match == 900
        await d.press("q", "x")
        assert "no match" in d.text() and d.main.logs.view.follow


async def test_a_long_log_is_searched_in_slices_and_ends_with_the_whole_count() -> None:
    hub = FakeHub(capacity=200_000)
    hub.lines = lines(60_000)
    async with deck(hub=hub) as d:
        d.main.choose_pane("logs")
        view = d.main.logs.view
        while view.store.end < 60_000:
            view.flush()
        await d.press("slash", *"needle", "enter")
        while view.search is not None and not view.search.complete:
            await d.pilot.pause(0.01)
        await d.pilot.pause()
        assert view.match == 59_900 and "600/600" in d.text()


async def test_a_filter_on_a_quiet_log_is_searched_to_its_end_and_no_old_count_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = FakeHub()
    hub.lines = lines(1000)
    async with deck(hub=hub) as d:
        d.main.choose_pane("logs")
        view = d.main.logs.view
        await d.press("slash", *"needle", "enter")
        assert "10/10" in d.text() and view.search is not None
        monkeypatch.setattr("console.tui.log_view.SCAN_S", 0.0)  # one slice at a time, as on a long log
        view.set_filter(read_filter("r4"))
        assert view.search.count < 5 and not view.search.complete
        for _ in range(10):
            view.flush()  # and not a line came
        await d.pilot.pause()
        assert view.search.complete and "5/5" in d.text()  # 100, 300, … 900 are rank 4's


def test_what_was_found_under_another_filter_counts_no_more() -> None:
    store = LogStore()
    store.append(lines(1000))
    found = LogSearch(store, re.compile("needle"), Stand(0, 10, False))
    found.scan(9.0)
    store.set_filter(read_filter("r4"))
    assert (found.count, found.place(300), found.words(300)) == (0, 0, "…")


@pytest.mark.parametrize("by", ["another boot", "the view itself"])
async def test_a_search_that_another_log_overtakes_is_not_said_to_go_on(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = FakeHub()
    hub.lines = lines(1000)
    async with deck(hub=hub) as d:
        d.main.choose_pane("logs")
        pane = d.main.logs
        with monkeypatch.context() as slow:
            slow.setattr(LogSearch, "scan", lambda self, budget_s: False)  # a log without end
            pane._search("needle")
            assert pane.searching and "searching" in plain(pane._title)
            if by == "another boot":
                d.hub.set_boot(booting(d.hub.now(), number=12))
                d.main.draw()
            else:
                pane.view.restart()
            await d.pilot.pause()
            assert not pane.searching and "searching" not in d.text()
        for _ in range(10):
            pane.view.flush()
        assert pane.view.search is not None and (pane.view.search.complete, pane.view.search.count) == (True, 10)


async def test_a_look_for_an_error_ends_with_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = FakeHub()
    hub.lines = lines(1000)
    async with deck(hub=hub) as d:
        d.main.choose_pane("logs")
        pane = d.main.logs
        monkeypatch.setattr(LogStore, "search", lambda *_: iter(lambda: -1, 0))
        pane.next_error(1)
        assert pane.searching
        d.hub.set_boot(booting(d.hub.now(), number=12))
        d.main.draw()
        assert not pane.searching
