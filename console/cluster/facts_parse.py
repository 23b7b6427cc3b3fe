"""What the facts program printed on a node, as NodeFacts: strange bytes become absences with a reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from console.base.absent import NOT_SAMPLED, Absent
from console.base.text import clean_line, decode
from console.cluster.facts import Hca, Interface, NodeFacts
from console.cluster.facts_shapes import Odd, count, items, number, or_absent, row, table, text, texts, truth
from console.cluster.launch_facts_parse import parse_launch

T = TypeVar("T")

MARK: Final = b"nightdeck-facts-1 "


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
        except Odd as odd:
            return Absent(f"unreadable: {odd}")

    offset, error = _offset(report, sent_at, received_at)
    return NodeFacts(
        node=node,
        at=at,
        user=fact("user", text),
        uid=fact("uid", count),
        home=fact("home", text),
        hostname=fact("hostname", text),
        kernel=fact("kernel", text),
        architecture=fact("architecture", text),
        boot_id=fact("boot_id", text),
        uptime_s=fact("uptime_s", number),
        clock_offset_s=offset,
        clock_error_s=error,
        mem_total_bytes=fact("mem_total_bytes", count),
        mem_available_bytes=fact("mem_available_bytes", count),
        container_cli=fact("container_cli", text),
        container_version=fact("container_version", text),
        container_runtimes=fact("container_runtimes", texts),
        storage_driver=fact("storage_driver", text),
        image_ids=fact("image_ids", lambda v: table(v, text)),
        gpu_names=fact("gpu_names", texts),
        gpu_driver=fact("gpu_driver", text),
        nvidia_runtime=fact("nvidia_runtime", truth),
        infiniband=fact("infiniband", truth),
        interfaces=fact("interfaces", lambda v: tuple(_interface(i) for i in items(v))),
        hcas=fact("hcas", lambda v: tuple(_hca(i) for i in items(v))),
        nofile_limit=fact("nofile_limit", count),
        memlock_unlimited=fact("memlock_unlimited", truth),
        listening_ports=fact("listening_ports", lambda v: frozenset(count(p) for p in items(v))),
        disk_free_bytes=fact("disk_free_bytes", lambda v: table(v, count)),
        missing=_missing(report.get("missing")),
        control_address=fact("control_address", text),
        launch=parse_launch(fact) if "mounts" in facts else NOT_SAMPLED,
    )


def _offset(report: Mapping[str, Any], sent_at: float, received_at: float) -> tuple[float | Absent, float]:
    """Seconds that the node's clock is ahead of the console's, and how far off that may be: what the way to the node
    and back took, and a node too busy to begin at once."""
    try:
        began, ended = number(report.get("began")), number(report.get("ended"))
    except Odd:
        return Absent("the node did not report its clock"), 0.0
    most, least = began - sent_at, ended - received_at
    return (most + least) / 2, max((most - least) / 2, 0.0)


def _missing(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    pairs = list(value.items())[:1000]
    return {clean_line(str(k), limit=300): clean_line(str(v), limit=300) for k, v in pairs}


def _interface(value: object) -> Interface:
    r = row(value)
    return Interface(
        name=text(r.get("name")),
        addresses=texts(r.get("addresses")),
        up=truth(r.get("up")),
        mtu=or_absent(r, "mtu", count, "the driver does not say"),
        speed_mbit=or_absent(r, "speed_mbit", count, "the driver does not say"),
        networks=texts(r.get("networks", [])),
    )


def _hca(value: object) -> Hca:
    r = row(value)
    return Hca(
        name=text(r.get("name")),
        interface=or_absent(r, "interface", text, "sysfs names no interface"),
        state=or_absent(r, "state", text, "sysfs names no state"),
        gid_index_rocev2=or_absent(r, "gid_index_rocev2", count, "no RoCE v2 GID with an IPv4 address"),
    )
