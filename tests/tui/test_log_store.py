"""The log's ring, its filter and its search."""

from __future__ import annotations

import pytest

from console.base.errors import UsageError
from console.services.hub import LogLine
from console.tui.log_store import Filter, LogStore, level_of, read_filter
from tests.tui.fake_values import log_lines


def line(text: str, level: str = "") -> LogLine:
    return LogLine(0, 0, "dgx1", 0, 0.0, level, "", text)


def test_numbers_of_lines_never_change_when_older_ones_make_room() -> None:
    store = LogStore(100)
    store.append(log_lines(100))
    kept = store.line(60)
    assert store.append(log_lines(40, start=100)) == 40
    assert (store.base, store.end, len(store)) == (40, 140, 100)
    assert store.line(60) is kept
    assert store.line(39) is None


def test_ring_trims_with_slack_so_that_not_every_line_costs_a_copy() -> None:
    store = LogStore(100)
    store.append(log_lines(105))
    assert (len(store), store.dropped) == (105, 0)


@pytest.mark.parametrize(
    ("text", "ranks", "level", "pattern"),
    [
        ("r5", {5}, 0, None),
        ("r0,3 error", {0, 3}, 3, None),
        ("rank:2 warn+ nccl", {2}, 2, "nccl"),
        ("level:warning", None, 2, None),
        ("NCCL error", None, 0, "NCCL error"),
        ("", None, 0, None),
    ],
)
def test_filter_words(text: str, ranks: set[int] | None, level: int, pattern: str | None) -> None:
    got = read_filter(text)
    assert got.ranks == (None if ranks is None else frozenset(ranks))
    assert got.level == level
    assert (got.pattern.pattern if got.pattern else None) == pattern


def test_bad_expression_is_an_error_in_words() -> None:
    with pytest.raises(UsageError, match="not a regular expression"):
        read_filter("(")


def test_level_is_read_from_the_text_where_the_engine_gave_none() -> None:
    assert level_of(line("torch.OutOfMemoryError: CUDA out of memory")) == 3
    assert level_of(line("dgx1:1:1 [0] transport.cc:1 NCCL WARN call failed")) == 3
    assert level_of(line("WARNING: slow")) == 2
    assert level_of(line("Loading 3%")) == 1
    assert level_of(line("ERROR in name only", "info")) == 1


def test_filter_grows_with_new_lines_and_in_slices() -> None:
    store = LogStore(10_000)
    store.append(log_lines(4000))
    store.set_filter(read_filter("r3"))
    assert not store.scan(0.0)
    assert 0 < store.rows < 500
    while not store.scan(0.0):
        pass
    assert store.rows == 500
    store.append(log_lines(80, start=4000))
    assert store.scanning
    store.scan(1.0)
    assert store.rows == 510
    assert {store.line(store.number(row)).rank for row in range(store.rows)} == {3}  # type: ignore[union-attr]


def test_trimming_counts_the_rows_that_fall_off_the_filtered_view() -> None:
    store = LogStore(800)
    store.append(log_lines(800))
    store.set_filter(read_filter("r3"))
    store.scan(1.0)
    first = store.number(0)
    assert store.append(log_lines(160, start=800)) == 20
    assert store.number(0) == first + 160
    assert store.row_of(store.number(7)) == 7


def test_search_goes_once_round_both_ways_and_yields_between_slices() -> None:
    store = LogStore()
    store.append(log_lines(1000))
    wanted = {96, 193, 290}
    hits = [row for row in store.search(lambda ln: ln.seq in wanted, 100, 1, slice_rows=50) if row >= 0]
    assert hits == [193, 290, 96]
    back = [row for row in store.search(lambda ln: ln.seq in wanted, 100, -1, slice_rows=50) if row >= 0]
    assert back == [96, 290, 193]
    slices = list(store.search(lambda _: False, 0, 1, slice_rows=100))
    assert slices == [-1] * 10


def test_a_line_of_a_ranks_own_log_is_found_or_the_next_held() -> None:
    store = LogStore(100)
    store.append(log_lines(200))
    number = store.find_index(2, 20)
    assert number is not None
    found = store.line(number)
    assert found is not None
    assert (found.rank, found.index) == (2, 20)
    first = store.find_index(2, 0)
    assert first is not None
    assert store.line(first).index == 13  # type: ignore[union-attr]
    assert store.find_index(2, 9999) is None


def test_an_empty_filter_passes_all() -> None:
    assert Filter().passes_all
    assert Filter().wants(line("x"))
