"""Alarms are told once, come back quietly, are taken note of, and can be muted; rules bend to the settings."""

from __future__ import annotations

import math

from console.base.absent import Absent
from console.base.findings import Severity
from console.base.units import GIB
from console.recipe.model import GuardHints
from console.telemetry.alarm_rules import CODES, AlarmPolicy, RuleChange
from console.telemetry.alarms import FLAP_S, KEEP, AlarmList
from console.telemetry.guard_policy import GuardPolicy
from console.telemetry.guard_rows import guard
from console.telemetry.history import Series
from console.telemetry.trend import Lowest, lowest, seconds_to_empty

WARN = Severity.WARN


def raised(alarms: AlarmList, at: float, *, text: str = "low", lasts_s: float | None = None) -> int:
    return len(alarms.raise_("memory-low", "dgx1", WARN, text, at, node="dgx1", lasts_s=lasts_s))


def test_an_alarm_is_told_when_it_begins_and_when_it_is_over() -> None:
    alarms = AlarmList()
    assert raised(alarms, 10.0) == 1
    assert raised(alarms, 11.0, text="lower") == 0
    assert [a.text for a in alarms.active] == ["lower"]
    assert len(alarms.clear("memory-low", "dgx1", 20.0)) == 1
    assert alarms.clear("memory-low", "dgx1", 21.0) == []
    assert alarms.active == () and alarms.all[0].cleared_at == 20.0


def test_what_comes_back_soon_is_counted_not_told() -> None:
    alarms = AlarmList()
    raised(alarms, 0.0)
    alarms.clear("memory-low", "dgx1", 5.0)
    assert raised(alarms, 5.0 + FLAP_S - 1) == 0
    assert alarms.active[0].count == 2
    alarms.clear("memory-low", "dgx1", 100.0)
    assert raised(alarms, 100.0 + FLAP_S) == 1
    assert [a.id for a in alarms.all] == [2, 1]


def test_one_that_lasts_a_while_clears_by_itself() -> None:
    alarms = AlarmList()
    raised(alarms, 0.0, lasts_s=60.0)
    assert alarms.step(59.0) == []
    raised(alarms, 59.0, lasts_s=60.0)
    assert alarms.step(60.0) == []
    assert [a.code for a in alarms.step(119.0)] == ["memory-low"]


def test_taking_note_and_muting() -> None:
    alarms = AlarmList()
    raised(alarms, 0.0)
    assert alarms.active[0].calls
    assert alarms.acknowledge(None, 1.0, "op") == 1
    assert alarms.acknowledge(None, 2.0) == 0
    assert (alarms.active[0].acked_by, alarms.active[0].calls) == ("op", False)
    alarms.mute("", "dgx2", 100.0)
    assert alarms.raise_("gpu-hot", "dgx2", WARN, "hot", 50.0, node="dgx2") == []
    assert alarms.clear("gpu-hot", "dgx2", 60.0) == []
    assert alarms.raise_("gpu-hot", "dgx3", WARN, "hot", 50.0, node="dgx3") != []
    alarms.step(101.0)
    assert alarms.mutes == ()
    assert alarms.raise_("xid", "dgx2", WARN, "Xid", 101.0, node="dgx2") != []


def test_the_list_stays_short_and_never_forgets_what_holds() -> None:
    alarms = AlarmList()
    raised(alarms, 0.0)
    for n in range(2 * KEEP):
        alarms.raise_("xid", f"n{n}", WARN, "x", float(n))
        alarms.clear("xid", f"n{n}", float(n))
    assert len(alarms.all) <= KEEP + 1
    assert [a.code for a in alarms.active] == ["memory-low"]


def test_settings_change_rules_and_cannot_turn_them_around() -> None:
    policy = AlarmPolicy(
        rules={
            "memory-low": RuleChange(enter=8.0 * GIB),
            "gpu-hot": RuleChange(enter=70.0, leave=90.0),
            "disk-full": RuleChange(off=True),
            "xid": RuleChange(severity=Severity.INFO),
            "rebooted": RuleChange(off=True),
        }
    )
    rules = {r.code: r for r in policy.levels()}
    assert (rules["memory-low"].enter, rules["memory-low"].leave) == (8 * GIB, 9 * GIB)
    assert rules["gpu-hot"].bad(75.0) and rules["gpu-hot"].good(64.0) and not rules["gpu-hot"].bad(69.0)
    assert "disk-full" not in rules and policy.happening("rebooted") is None
    xid = policy.happening("xid")
    assert xid is not None and not policy.tells(xid.severity)
    assert AlarmPolicy(enabled=False).levels() == () and len(set(CODES)) == len(CODES)


def test_a_recipe_changes_what_it_names_of_the_guard() -> None:
    policy = GuardPolicy(readings=5).with_recipe(GuardHints(loading_floor_gib=0.0, serving_floor_gib=2.0))
    assert policy == GuardPolicy(readings=5, loading_floor_gib=0.0, serving_floor_gib=2.0)
    assert policy.loading_floor_bytes == 0 and policy.serving_floor_bytes == 2 * GIB
    assert not GuardPolicy().with_recipe(GuardHints(enabled=False)).enabled
    assert GuardPolicy().with_recipe(GuardHints()) == GuardPolicy()
    assert GuardPolicy().loading_floor_bytes == 4 * GIB


def falling(rate: float, start: float, seconds: int = 60) -> Series:
    series = Series()
    for s in range(seconds):
        series.add(float(s), max(0.0, start - rate * s))
    return series


def test_a_leak_is_forecast_once_memory_is_near_its_end() -> None:
    left = 15 * GIB - 59 * 0.1 * GIB
    assert round(seconds_to_empty(falling(0.1 * GIB, 15 * GIB), left, 59.0)) == 91  # type: ignore[arg-type]
    assert seconds_to_empty(falling(1.0 * GIB, 110 * GIB), 51.0 * GIB, 59.0) == math.inf
    assert seconds_to_empty(falling(0.0, 10 * GIB), 10.0 * GIB, 59.0) == math.inf
    assert isinstance(seconds_to_empty(falling(1.0, 5.0, 3), 5.0, 3.0), Absent)


def test_the_cliff_of_a_boot_is_no_forecast() -> None:
    """80 GiB in five seconds as parameters are allocated, then a slow fall: published host logs."""
    series = Series()
    value = 111.0 * GIB
    worst = math.inf
    for s in range(180):
        value -= 16 * GIB if 60 <= s < 65 else 0.1 * GIB if s >= 65 else 0.0
        series.add(float(s), value)
        seconds = seconds_to_empty(series, value, float(s))
        worst = worst if isinstance(seconds, Absent) else min(worst, seconds)
    assert worst > 120


def test_the_lowest_node_or_the_first_to_run_out() -> None:
    available = {"dgx1": 14 * GIB, "dgx3": 15 * GIB}
    assert lowest(available, {"dgx1": math.inf}) == Lowest("dgx1", 14 * GIB)
    soon = lowest(available, {"dgx1": math.inf, "dgx3": 40.0})
    assert soon is not None and soon.sentence == "dgx3 out of memory in 0:40 at this rate"
    assert lowest({}, {}) is None
    assert Lowest("dgx1", int(13.9 * GIB)).sentence == "lowest free 13.9 GiB dgx1"


def test_a_guard_of_any_shape_is_read_or_left_out() -> None:
    assert guard({"deployment": "d"}) is None and guard({"rank": 1}) is None
    hostile = {"deployment": "d\x1b[2J", "rank": 3, "since": "x", "tripped": {"at": [], "history": "no"}, "why": 7}
    found = guard(hostile)
    assert found is not None and found.deployment == "d" and found.trip is None and not found.running
    trip = {"at": 5.0, "floor_bytes": 4, "available_bytes": 3, "history": [[0.0, 3], [1], "x", [-1, "9"]]}
    found = guard({"deployment": "d", "rank": 0, "tripped": trip})
    assert found is not None and found.trip is not None and found.trip.history == ((0.0, 3), (-1.0, 9))


def test_what_holds_is_marked_as_muted_at_once_and_calls_again_when_that_is_over() -> None:
    alarms = AlarmList()
    alarms.raise_("memory-low", "dgx3", Severity.BLOCK, "low", 10.0, node="dgx3")
    alarms.mute("memory-low", "dgx3", 3610.0, 10.0)
    assert [(a.muted, a.calls) for a in alarms.all] == [(True, False)]
    alarms.step(3000.0)
    assert alarms.all[0].muted
    alarms.step(3611.0)
    assert [(a.muted, a.calls) for a in alarms.all] == [(False, True)]
    alarms.mute("", "", 9000.0, 4000.0)
    alarms.mute("", "", 4001.0, 4001.0)
    assert not alarms.all[0].muted
