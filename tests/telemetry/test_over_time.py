"""Freshness, history, trends, thresholds and outliers: plain values, time as an argument."""

from __future__ import annotations

import pytest

from console.base.absent import Absent
from console.base.findings import Severity
from console.base.units import GIB
from console.telemetry.freshness import State, judge
from console.telemetry.history import FINE_S, Series, time_to_empty
from console.telemetry.outliers import column
from console.telemetry.sparkline import ASCII, sparkline
from console.telemetry.thresholds import RULES, Rule, Thresholds


@pytest.mark.parametrize(
    ("age", "state"), [(0, "fresh"), (2.99, "fresh"), (3, "late"), (9.99, "late"), (10, "lost"), (1e9, "lost")]
)
def test_age_decides(age: float, state: str) -> None:
    found = judge(100.0, 100.0 + age)
    assert found.state == State(state) and found.age_s == pytest.approx(age)
    assert bool(found.why) == (state != "fresh")


def test_a_node_never_heard_is_lost_without_an_age() -> None:
    found = judge(None, 5.0, trouble="permission denied (publickey)")
    assert (found.state, found.age_s, found.why) == (State.LOST, None, "permission denied (publickey)")


def test_history_keeps_gaps_and_the_newest_is_last() -> None:
    series = Series()
    series.add(100.2, 1.0)
    series.add(102.9, 3.0)
    series.add(103.0, Absent("x"))
    assert series.recent(5, 104.0) == [1.0, None, 3.0, None, None]
    assert Series().recent(3, 10.0) == [None, None, None]


def test_history_is_read_across_the_end_of_its_ring() -> None:
    series = Series()
    for second in range(FINE_S - 3, FINE_S + 4):
        if second != FINE_S + 1:
            series.add(second, float(second))
    f = float(FINE_S)
    assert series.recent(6, FINE_S + 3) == [f - 2, f - 1, f, None, f + 2, f + 3]
    assert series.recent(4, FINE_S + 5) == [f + 2, f + 3, None, None]
    assert series.recent(3, FINE_S - 1) == [f - 3, f - 2, f - 1]
    assert series.recent(3, FINE_S - 4) == [None, None, None] and series.recent(2, 5.0) == [None, None]


def test_history_forgets_what_is_older_than_its_ring() -> None:
    series = Series()
    series.add(0, 7.0)
    series.add(FINE_S, 8.0)
    assert series.recent(FINE_S, FINE_S) == [None] * (FINE_S - 1) + [8.0]
    series.add(FINE_S * 1000, 9.0)
    assert series.recent(FINE_S, FINE_S * 1000).count(None) == FINE_S - 1
    series.add(5.0, 1.0)  # time does not go back
    assert 1.0 not in series.recent(FINE_S, FINE_S * 1000)


def test_minutes_keep_the_cliff() -> None:
    series = Series()
    for second in range(180):
        series.add(second, 111.0 if second != 95 else 31.0)
    assert series.minutes(4, 180.0) == [(111.0, 111.0), (31.0, 111.0), (111.0, 111.0), None]
    assert series.lowest() == 31.0
    series.add(180 + 12 * 3600, 50.0)
    assert series.lowest() == 50.0


def test_slope_is_not_moved_by_a_jump() -> None:
    series = Series()
    for second in range(60):
        series.add(second, 100.0 - 0.1 * second if second != 30 else 5.0)
    assert series.slope(60, 59) == pytest.approx(-0.1)
    assert isinstance(Series().slope(60, 59), Absent)
    assert isinstance(series.slope(60, 100), Absent), "samples that cover less than half of the window say nothing"


def test_time_to_empty() -> None:
    assert time_to_empty(10.0, -0.5) == 20.0
    assert isinstance(time_to_empty(10.0, 0.0), Absent) and isinstance(time_to_empty(10.0, 1.0), Absent)
    assert time_to_empty(Absent("x"), -1.0) == Absent("x")


RULE = Rule("memory-low", "m", 4.0, 6.0, Severity.WARN, "low", hold_s=2.0)


def test_a_rule_speaks_once_up_and_once_down() -> None:
    watch = Thresholds("dgx1", [RULE])
    said = [
        (at, edge.raised)
        for at, value in enumerate([9, 3, 3, 3, 3, 5, 3, 7, 5, 7, 7, 7, 9])
        for edge in watch.step(float(at), {"m": float(value)})
    ]
    assert said == [(3, True), (11, False)]
    assert watch.raised == ()


def test_an_unknown_value_neither_raises_nor_clears() -> None:
    watch = Thresholds("dgx1", [Rule("x", "m", 90.0, 80.0, Severity.WARN, "hot")])
    assert [e.raised for e in watch.step(0, {"m": 91.0})] == [True]
    assert watch.step(1, {"m": Absent("lost")}) == [] and watch.step(2, {}) == []
    assert [r.code for r in watch.raised] == ["x"]
    assert [e.raised for e in watch.step(3, {"m": 80.0})] == [False]


def test_the_rules_shipped_leave_room_between_their_limits() -> None:
    assert all(r.enter != r.leave for r in RULES) and len({r.code for r in RULES}) == len(RULES)
    healthy_head = 1.6 * GIB  # serves for days at this
    assert not [r for r in RULES if r.measure == "available_bytes" and r.severity == "block" and r.bad(healthy_head)]


def test_the_laggard_stands_out() -> None:
    speeds: dict[str, float | Absent] = {f"dgx{i}": 690e6 + i * 5e6 for i in range(1, 8)}
    speeds |= {"dgx8": 310e6, "dgx9": Absent("lost")}
    found = column(speeds, bad="low", min_spread=50e6)
    assert found.worst == "dgx8" and found.outliers == ("dgx8",)
    assert column(speeds, bad="high", min_spread=50e6).outliers == ()


def test_noise_is_no_outlier() -> None:
    temps: dict[str, float | Absent] = dict(zip("abcdefgh", [64, 64, 64, 64, 64, 64, 64, 66], strict=True))
    assert column(temps, bad="high", min_spread=5.0).outliers == ()
    assert column({"a": 1.0, "b": 1.0}, bad="low", min_spread=1).worst is None
    assert column({"a": 1.0, "b": 99.0}, bad="high", min_spread=1).outliers == (), (
        "two nodes have no median to be far from"
    )
    assert isinstance(column({"a": Absent("x")}, bad="low", min_spread=1).median, Absent)


def test_sparkline_has_a_fixed_scale_and_gaps() -> None:
    assert sparkline([0, 50, 100], low=0, high=100, width=3) == "▁▅█"
    assert sparkline([0, None, 100], low=0, high=100, width=5, levels=ASCII) == "  _ @"
    assert sparkline([1e9, -5], low=0, high=100, width=2) == "█▁"
    assert sparkline([9, 1, 9, 9], low=0, high=8, width=2, keep="min", levels=ASCII) == ".@"
    assert sparkline([], low=0, high=1, width=3) == "   " and sparkline([1], low=0, high=1, width=0) == ""
    assert sparkline([1.0], low=5, high=5, width=1) == " "
