"""What a node says of its containers is hostile: labels of every kind, half answers, none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.base.absent import Absent
from console.services.census import Found, epoch, read_census
from console.services.discovery import LARGEST_WORLD, by_deployment, open_found
from console.transport.base import Completed


def row(labels: Any, status: Any = "running", **more: Any) -> dict[str, Any]:
    return {"Id": "a" * 64, "Name": "/nd-x-r0", "State": {"Status": status}, "Config": {"Labels": labels}, **more}


def read(*rows: Any, status: int = 0, stderr: bytes = b"") -> tuple[Found, ...] | Absent:
    return read_census("dgx1", Completed(status, json.dumps(rows).encode(), stderr))


def one(labels: Any, **more: Any) -> Found:
    answer = read(row(labels, **more))
    assert isinstance(answer, tuple)
    (found,) = answer
    return found


def test_labels_with_commas_newlines_and_escapes_stay_one_clean_line() -> None:
    found = one(
        {"nightdeck.deployment": "a,b=c\nd", "nightdeck.recipe": "x\x1b[31mred\x1b[0m", "nightdeck.title": "t" * 9999}
    )
    assert found.deployment == "a,b=cd"
    assert found.recipe == "xred"
    assert len(found.title) == 300


@pytest.mark.parametrize("value", ["1e3", "-1", "٣", " 1", "1.0", "", "9" * 400, None, 7, ["1"], {"a": 1}])
def test_a_number_that_is_none_is_none(value: Any) -> None:
    found = one({"nightdeck.rank": value, "nightdeck.world": value, "nightdeck.boot": value})
    assert (found.rank, found.world, found.boot) == (None, None, None)


@pytest.mark.parametrize("labels", [None, [], "x", 3, {"nightdeck.deployment": None}])
def test_labels_that_are_no_table_are_no_labels(labels: Any) -> None:
    assert one(labels).deployment == ""


def test_a_world_of_a_billion_makes_no_billion_rows() -> None:
    found = one({"nightdeck.deployment": "d", "nightdeck.rank": "0", "nightdeck.world": "999999999"})
    assert found.world == 999_999_999
    opened = open_found([found], now=100.0)
    assert opened is not None and [r.rank for r in opened.ranks] == [0]
    far = one({"nightdeck.deployment": "d", "nightdeck.rank": str(LARGEST_WORLD)})
    assert open_found([far], now=100.0) is None


@pytest.mark.parametrize(("text", "port"), [("8000", 8000), ("0", None), ("65536", None), ("999999999", None)])
def test_a_port_is_one_that_can_be_asked(text: str, port: int | None) -> None:
    assert one({"nightdeck.port": text}).port == port


def test_a_launch_in_the_future_is_taken_for_now() -> None:
    found = one({"nightdeck.deployment": "d", "nightdeck.rank": "0", "nightdeck.launched_at": "99999999999"})
    opened = open_found([found], now=100.0)
    assert opened is not None and opened.launched_at <= 100.0


def test_states_in_all_shapes() -> None:
    assert one({}, State=None).status == "unknown"
    assert one({}, State={"Running": True}).status == "running"
    ended = one(
        {},
        State={"Status": "exited", "ExitCode": 137, "OOMKilled": True, "FinishedAt": "2026-11-30T03:00:01.123456789Z"},
    )
    assert (ended.exit_code, ended.oom_killed, ended.alive) == (137, True, False)
    assert ended.finished_at == pytest.approx(1796007601.123456)
    assert one({}, State={"Status": "created", "ExitCode": 0}).exit_code is None
    assert one({}, State={"Status": "created"}).alive, "a start that failed left it, and its name is taken"


def test_half_answers_are_no_answers() -> None:
    assert read_census("dgx1", Completed(0, b"", b"")) == Absent("the container engine answered with exit status 0")
    assert read_census("dgx1", Completed(127, b"", b"sh: docker: not found\n")) == Absent("sh: docker: not found")
    assert read_census("dgx1", Completed(0, b"[" * 100_000, b"")) == Absent(
        "the container engine answered with exit status 0"
    )
    assert isinstance(read_census("dgx1", Completed(0, b'{"a": 1}', b"")), Absent)
    assert read_census("dgx1", Completed(1, b"[]", b"Error: No such object: abc\n")) == (), "gone between two questions"
    assert read("x", 3, None, {"Id": 7}, []) == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
keys = st.sampled_from(
    ["Id", "Name", "State", "Config", "Labels", "Status", "ExitCode", "StartedAt", "FinishedAt", "Error", "Image"]
)
shaped = st.dictionaries(keys, json_values | st.dictionaries(keys, json_values, max_size=5), max_size=8)


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault of the values
@given(rows=st.lists(shaped.map(lambda d: {"Id": "x", **d}), max_size=3))
def test_no_answer_breaks_the_reader(rows: list[Any]) -> None:
    answer = read(*rows)
    assert isinstance(answer, tuple)
    for group in by_deployment({"dgx1": answer}).values():
        open_found(group, now=1.0)


@given(st.text(max_size=70))
def test_no_time_breaks_the_reader(text: str) -> None:
    assert epoch(text) is None or isinstance(epoch(text), float)


def test_zero_time_is_no_time() -> None:
    assert epoch("0001-01-01T00:00:00Z") is None
    assert epoch("2026-11-30T03:00:00+01:00") == epoch("2026-11-30T02:00:00Z")
