"""What the facts program printed on a node, as NodeFacts: strange bytes become absences with a reason."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from console.base.absent import Absent
from console.base.text import clean_line, decode
from console.cluster.facts import Hca, Interface, NodeFacts

T = TypeVar("T")

MARK: Final = b"nightdeck-facts-1 "
MAX_ITEMS: Final = 70_000  # a node has at most 65,535 ports; nothing else in the report is longer
_MAX_INT: Final = 1 << 62


class _Odd(Exception):
    """A value of the wrong shape."""


def parse_facts(data: bytes, node: str, at: float, sent_at: float, received_at: float) -> NodeFacts | Absent:
    """The facts of one node. Never raises; each fact that cannot be read is Absent alone.

    at, sent_at, received_at: epoch seconds on the console's clock, the last two around the request: the node's clock
    offset is the mean of what the way there and the way back show."""
    start = data.rfind(MARK)
    if start < 0:
        return Absent("the facts program printed no report")
    try:
        report = json.loads(decode(data[start + len(MARK) :]).splitlines()[0])
    except (ValueError, IndexError, RecursionError):
        return Absent("the report of the facts program cannot be read")
    facts = report.get("facts") if isinstance(report, dict) else None
    if not isinstance(facts, dict):
        return Absent("the report of the facts program has no facts")

    def fact(name: str, read: Callable[[Any], T]) -> T | Absent:
        item = facts.get(name)
        if not isinstance(item, dict):
            return Absent("not reported")
        if "v" not in item:
            return Absent(clean_line(str(item.get("why") or "no reason given"), limit=300))
        try:
            return read(item["v"])
        except _Odd as odd:
            return Absent(f"unreadable: {odd}")

    return NodeFacts(
        node=node,
        at=at,
        user=fact("user", _text),
        uid=fact("uid", _count),
        home=fact("home", _text),
        hostname=fact("hostname", _text),
        kernel=fact("kernel", _text),
        architecture=fact("architecture", _text),
        boot_id=fact("boot_id", _text),
        uptime_s=fact("uptime_s", _number),
        clock_offset_s=_offset(report, sent_at, received_at),
        mem_total_bytes=fact("mem_total_bytes", _count),
        mem_available_bytes=fact("mem_available_bytes", _count),
        container_cli=fact("container_cli", _text),
        container_version=fact("container_version", _text),
        container_runtimes=fact("container_runtimes", _texts),
        storage_driver=fact("storage_driver", _text),
        image_ids=fact("image_ids", lambda v: _table(v, _text)),
        gpu_names=fact("gpu_names", _texts),
        gpu_driver=fact("gpu_driver", _text),
        nvidia_runtime=fact("nvidia_runtime", _truth),
        infiniband=fact("infiniband", _truth),
        interfaces=fact("interfaces", lambda v: tuple(_interface(i) for i in _items(v))),
        hcas=fact("hcas", lambda v: tuple(_hca(i) for i in _items(v))),
        nofile_limit=fact("nofile_limit", _count),
        memlock_unlimited=fact("memlock_unlimited", _truth),
        listening_ports=fact("listening_ports", lambda v: frozenset(_count(p) for p in _items(v))),
        disk_free_bytes=fact("disk_free_bytes", lambda v: _table(v, _count)),
        missing=_missing(report.get("missing")),
        control_address=fact("control_address", _text),
    )


def _offset(report: Mapping[str, Any], sent_at: float, received_at: float) -> float | Absent:
    """Seconds that the node's clock is ahead of the console's."""
    try:
        began, ended = _number(report.get("began")), _number(report.get("ended"))
    except _Odd:
        return Absent("the node did not report its clock")
    return ((began - sent_at) + (ended - received_at)) / 2


def _missing(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    pairs = list(value.items())[:1000]
    return {clean_line(str(k), limit=300): clean_line(str(v), limit=300) for k, v in pairs}


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _Odd("not text")
    return clean_line(value, limit=1000)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise _Odd("not true or false")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX_INT:
        raise _Odd("not a count")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Odd("not a number")
    try:
        number = float(value)
    except OverflowError:
        raise _Odd("too large") from None
    if not math.isfinite(number):
        raise _Odd("not finite")
    return number


def _items(value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise _Odd("not a list")
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_text(v) for v in _items(value))


def _table(value: object, read: Callable[[Any], T]) -> dict[str, T]:
    if not isinstance(value, dict) or len(value) > MAX_ITEMS:
        raise _Odd("not a table")
    return {_text(k): read(v) for k, v in value.items()}


def _row(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Odd("not a table")
    return value


def _or_absent(row: Mapping[str, Any], key: str, read: Callable[[Any], T], reason: str) -> T | Absent:
    value = row.get(key)
    if value is None:
        return Absent(reason)
    try:
        return read(value)
    except _Odd as odd:
        return Absent(f"unreadable: {odd}")


def _interface(value: object) -> Interface:
    row = _row(value)
    return Interface(
        name=_text(row.get("name")),
        addresses=_texts(row.get("addresses")),
        up=_truth(row.get("up")),
        mtu=_or_absent(row, "mtu", _count, "the driver does not say"),
        speed_mbit=_or_absent(row, "speed_mbit", _count, "the driver does not say"),
        networks=_texts(row.get("networks", [])),
    )


def _hca(value: object) -> Hca:
    row = _row(value)
    return Hca(
        name=_text(row.get("name")),
        interface=_or_absent(row, "interface", _text, "sysfs names no interface"),
        state=_or_absent(row, "state", _text, "sysfs names no state"),
        gid_index_rocev2=_or_absent(row, "gid_index_rocev2", _count, "no RoCE v2 GID with an IPv4 address"),
    )
