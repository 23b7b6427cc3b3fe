"""Times for people are this machine's own, as in the console; JSON has UTC."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from console.cli.cmd_boots import parse_since
from console.cli.times import clock, day, minute, whole
from console.tui.figures import hhmm, hhmmss

AT = 1_789_778_478.25  # 2026-09-19 00:41:18.25 UTC


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


def test_times_are_those_of_this_machine(far_east: None) -> None:
    assert (clock(AT), clock(AT, millis=True), minute(AT)) == ("09:41:18", "09:41:18.250", "09:41")
    assert (day(AT), whole(AT)) == ("09-19 09:41", "2026-09-19 09:41:18 JST")
    assert clock(None) == ""


@pytest.mark.parametrize("at", [-62_135_596_800.0, 253_402_300_799.0, 1e20, -1e20, float("inf"), float("nan")])
def test_no_number_of_a_log_or_a_node_is_more_than_a_word(far_east: None, at: float) -> None:
    for said in (clock(at), clock(at, millis=True), minute(at), day(at), whole(at), hhmm(at), hhmmss(at)):
        assert said == "n/a" or said[-3:-2] == ":" or "JST" in said or "." in said


def test_a_time_without_a_zone_is_of_this_machine_too(far_east: None) -> None:
    assert parse_since("2026-09-19T09:41:18", AT) == int(AT)
    assert parse_since("2026-09-19T00:41:18Z", AT) == int(AT)
