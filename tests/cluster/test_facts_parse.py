"""Whatever bytes come for a report, the parser gives facts or reasons and never raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.base.absent import Absent
from console.cluster.facts import Interface, NodeFacts
from console.cluster.facts_parse import MARK, parse_facts


def parsed(report: object, **times: float) -> NodeFacts | Absent:
    data = MARK + json.dumps(report).encode() + b"\n"
    return parse_facts(data, "n1", 50.0, times.get("sent", 0.0), times.get("received", 1.0))


def one(name: str, value: Any) -> Any:
    facts = parsed({"facts": {name: {"v": value}}})
    assert isinstance(facts, NodeFacts)
    return getattr(facts, name)


def test_a_reason_stays_a_reason() -> None:
    facts = parsed({"facts": {"gpu_names": {"why": "nvidia-smi is not\x1b[31m installed\n"}, "uid": {}}})
    assert isinstance(facts, NodeFacts)
    assert facts.gpu_names == Absent("nvidia-smi is not installed")
    assert facts.uid == Absent("no reason given")
    assert facts.kernel == Absent("not reported")


def test_the_last_report_counts_and_noise_before_it_does_not() -> None:
    noise = b"Welcome!\n" + MARK + b"{broken\n\xff\xfe"
    data = noise + MARK + b'{"facts": {"uid": {"v": 7}}}\ntrailing'
    facts = parse_facts(data, "n1", 1, 0, 1)
    assert isinstance(facts, NodeFacts) and facts.uid == 7


def test_clock_offset_is_the_mean_of_both_ways() -> None:
    facts = parsed({"facts": {}, "began": 100.5, "ended": 102.5}, sent=0.0, received=3.0)
    assert isinstance(facts, NodeFacts)
    assert facts.clock_offset_s == pytest.approx((100.5 + 99.5) / 2)
    assert facts.clock_error_s == pytest.approx(0.5), "what the way there and back took"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("uid", True),
        ("uid", -1),
        ("uid", "0"),
        ("uid", 1 << 80),
        ("mem_total_bytes", 1.5),
        ("uptime_s", float("inf")),
        ("uptime_s", float("nan")),
        ("uptime_s", 10**400),
        ("user", ""),
        ("user", 5),
        ("nvidia_runtime", 1),
        ("gpu_names", "GB10"),
        ("gpu_names", [None]),
        ("listening_ports", [80, "x"]),
        ("image_ids", {"a": 5}),
        ("disk_free_bytes", [1]),
        ("interfaces", [{"name": "x"}]),
        ("interfaces", ["x"]),
        ("hcas", {"name": "x"}),
        ("listening_ports", list(range(70_001))),
    ],
)
def test_a_wrong_shape_is_absent_never_zero(name: str, value: object) -> None:
    found = one(name, value)
    assert isinstance(found, Absent) and found.reason.startswith("unreadable")


def test_an_interface_of_an_older_report() -> None:
    row = {"name": "eno1", "addresses": ["10.0.0.1"], "up": True, "mtu": None}
    says = Absent("the driver does not say")
    assert one("interfaces", [row]) == (Interface("eno1", ("10.0.0.1",), True, says, says, ()),)


@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 100, MARK, MARK + b"[]", MARK + b"[" * 100_000, MARK + b"null", MARK + b'{"facts": 3}']
)
def test_no_report(data: bytes) -> None:
    assert isinstance(parse_facts(data, "n1", 0, 0, 0), Absent)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
_NAMES = st.sampled_from(sorted(NodeFacts.__dataclass_fields__))


@given(st.dictionaries(_NAMES, st.fixed_dictionaries({"v": _JSON}) | _JSON, max_size=6), _JSON)
def test_any_json_is_survived(facts: dict[str, Any], missing: Any) -> None:
    parsed({"facts": facts, "missing": missing, "began": missing, "ended": missing})


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    parse_facts(data, "n1", 0, 0, 0)
    parse_facts(MARK + data, "n1", 0, 0, 0)
