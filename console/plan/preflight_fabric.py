"""The preflight of the fabric: interface, link, MTU, speed and RDMA ports of every node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from console.base.absent import Absent, known
from console.base.findings import Finding
from console.cluster.facts import Interface, NodeFacts
from console.cluster.model import Cluster, Node
from console.plan.codes import finding
from console.plan.model import Plan


def fabric_findings(cluster: Cluster, plan: Plan, present: Mapping[str, NodeFacts]) -> Iterator[Finding]:
    """Findings for a plan of several nodes; one node needs no fabric."""
    if len(plan.ranks) < 2:
        return
    used: dict[str, Interface] = {}
    for name, fact in present.items():
        node = cluster.node(name)
        if node is None or isinstance(fact.interfaces, Absent):
            continue
        yield from _named(node, fact.interfaces)
        interface = _used(node, fact.interfaces)
        if interface is None:
            continue
        used[name] = interface
        if not interface.up:
            yield finding("link-down", f"{name}: {interface.name} is down", node=name, observed="down", expected="up")
    yield from _uneven("mtu-differs", "MTU", {n: i.mtu for n, i in used.items()}, "bytes")
    yield from _uneven("speed-differs", "link speed", {n: i.speed_mbit for n, i in used.items()}, "Mbit/s")
    for name, fact in present.items():
        node = cluster.node(name)
        if node is not None:
            yield from _hcas(node, fact)


def _named(node: Node, interfaces: tuple[Interface, ...]) -> Iterator[Finding]:
    if node.fabric_interface is None:
        return
    named = next((i for i in interfaces if i.name == node.fabric_interface), None)
    if named is None:
        yield finding(
            "interface-missing",
            f"{node.name} has no interface {node.fabric_interface}",
            node=node.name,
            observed=", ".join(i.name for i in interfaces) or "none",
            expected=node.fabric_interface,
        )
    elif node.fabric_address is not None and node.fabric_address not in named.addresses:
        carrier = next((i.name for i in interfaces if node.fabric_address in i.addresses), None)
        yield finding(
            "interface-address",
            f"{node.name}: {node.fabric_address} is not on {named.name}"
            + (f" but on {carrier}" if carrier else " nor on another interface"),
            node=node.name,
            observed=", ".join(named.addresses) or "no address",
            expected=node.fabric_address,
        )


def _used(node: Node, interfaces: tuple[Interface, ...]) -> Interface | None:
    for interface in interfaces:
        if node.fabric_interface is not None:
            if interface.name == node.fabric_interface:
                return interface
        elif node.fabric_address is not None and node.fabric_address in interface.addresses:
            return interface
    return None


def _uneven(code: str, what: str, values: Mapping[str, int | Absent], unit: str) -> Iterator[Finding]:
    groups: dict[int, list[str]] = {}
    for name, value in values.items():
        if known(value):
            groups.setdefault(value, []).append(name)
    if len(groups) < 2:
        return
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), -item[0]))
    texts = [f"{value} {unit} on {', '.join(names)}" for value, names in ordered]
    yield finding(
        code,
        f"{what} differs: {'; '.join(texts)}",
        node=ordered[1][1][0] if len(ordered) == 2 and len(ordered[1][1]) == 1 else None,
        observed=str(ordered[1][0]),
        expected=str(ordered[0][0]),
    )


def _hcas(node: Node, fact: NodeFacts) -> Iterator[Finding]:
    if node.hcas is None or isinstance(fact.hcas, Absent):
        return
    there = {h.name: h for h in fact.hcas}
    for name in node.hcas:
        port = there.get(name) or there.get(f"{name}:1")
        if port is None:
            yield finding(
                "hca-missing",
                f"{node.name} has no RDMA port {name}",
                node=node.name,
                observed=", ".join(there) or "none",
                expected=name,
            )
        elif known(port.state) and port.state.split(":")[-1].strip().upper() != "ACTIVE":
            yield finding(
                "hca-inactive",
                f"{node.name}: RDMA port {name} is {port.state}",
                node=node.name,
                observed=port.state,
                expected="ACTIVE",
            )
