"""The least memory of a cluster: who counts, whose value is old, and a fall that is told while it falls."""

from __future__ import annotations

import math
from dataclasses import replace

from console.base.absent import Absent
from console.base.units import GIB
from console.cluster.model import Cluster, Node
from console.services.hub import NodeView, Snapshot
from console.services.series import SeriesBook
from console.telemetry.least import lowest_of
from console.telemetry.sample import Memory, Sample
from console.tui.bars import top_line
from console.tui.glyphs import ASCII, UNICODE
from console.tui.spans import plain


def sample(name: str, second: float, left: float) -> Sample:
    memory = Memory(total_bytes=120 * GIB, available_bytes=int(left * GIB))
    return Sample(name, int(second), second, second, second, memory=memory)


def view(name: str, left: float | None, state: str = "fresh", age: float = 0.0) -> NodeView:
    found = Absent("no answer") if left is None else sample(name, 1.0, left)
    return NodeView(Node(name, name), state, age if left is not None else Absent("never"), found)


VIEWS = (
    view("dgx1", 20.0),
    view("dgx2", 1.0, "lost", 30.0),
    view("dgx3", 3.1, "late", 4.0),
    view("dgx4", None, "lost"),
)


def test_a_late_node_counts_as_old_and_a_lost_one_is_named_as_not_counted() -> None:
    least = lowest_of(VIEWS, {"dgx3": 12.0}, {"dgx3": -1e9})
    assert least is not None
    assert (least.node, least.age_s, least.not_counted) == ("dgx3", 4.0, ("dgx2", "dgx4"))
    assert (least.seconds_to_empty, least.slope_bytes_s) == (None, None), "no trend of what is old"
    assert least.sentence == "lowest free 3.1 GiB dgx3 (4s old) · 2 not counted"
    assert lowest_of(VIEWS[1:2]) is None


def test_the_top_line_says_so() -> None:
    cluster = Cluster("c", "c", tuple(v.node for v in VIEWS))
    snap = Snapshot(1, 0.0, cluster, VIEWS, None, (), (), (), lowest=lowest_of(VIEWS))
    assert "lowest free 3.1 GiB dgx3 4s old · 2 not counted" in plain(top_line(snap, 0.0, 160, UNICODE))
    assert plain(top_line(snap, 0.0, 160, ASCII)).isascii()
    fresh = replace(snap, nodes=VIEWS[:1], lowest=lowest_of(VIEWS[:1]))
    text = plain(top_line(fresh, 0.0, 160, UNICODE))
    assert "lowest free 20.0 GiB dgx1" in text and "old" not in text and "not counted" not in text


def fall(rate: float, seconds: int, left: float = 14.0, before: int = 60) -> tuple[SeriesBook, Sample]:
    """A minute of standing still, then a fall of `rate` GiB a second for some seconds; a sample a second."""
    book = SeriesBook()
    last = sample("dgx1", 0.0, left)
    for second in range(before + seconds):
        last = sample("dgx1", float(second), left - rate * max(0, second - before + 1))
        book.add(last)
    return book, last


def test_a_fall_is_told_after_three_samples_and_never_as_steady() -> None:
    for seconds in (3, 4, 6, 9):
        book, last = fall(1.0, seconds)
        slope = book.slope("dgx1", "mem_available", last.received_at)
        assert not isinstance(slope, Absent) and round(slope / GIB, 1) <= -0.9, seconds
        empty = book.seconds_to_empty_now("dgx1", last.memory.available_bytes, last.received_at)
        assert not isinstance(empty, Absent) and abs(empty - (14.0 - seconds)) < 2.0, seconds
    calm, last = fall(0.0, 9)
    assert calm.slope("dgx1", "mem_available", last.received_at) == 0.0
    assert calm.seconds_to_empty_now("dgx1", last.memory.available_bytes, last.received_at) == math.inf


def test_the_alarm_still_waits_for_both_windows() -> None:
    book, last = fall(1.0, 6)
    assert book.seconds_to_empty("dgx1", last.memory.available_bytes, last.received_at) == math.inf


def test_weights_that_load_with_plenty_left_are_no_countdown() -> None:
    book, last = fall(5.0, 6, left=110.0)
    assert book.seconds_to_empty_now("dgx1", last.memory.available_bytes, last.received_at) == math.inf
