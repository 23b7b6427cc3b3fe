"""How ranks reach each other: address, interface and RDMA devices of each node, from the cluster file or from facts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.base.absent import NOT_SAMPLED, Absent
from console.base.findings import Finding, Severity
from console.cluster.facts import NodeFacts
from console.cluster.model import Node
from console.plan.codes import finding


@dataclass(frozen=True, slots=True)
class Fabric:
    """One node's place in the fabric. address: what the other ranks connect to; interface None and hcas None: not
    known, left to NCCL."""

    address: str
    interface: str | None
    hcas: tuple[str, ...] | None


def fabric_of(node: Node, facts: NodeFacts | Absent) -> tuple[Fabric, list[Finding]]:
    """Address: the cluster file's, else that of the named interface, else the host's own address, else the only
    address that the node has. Interface: the cluster file's, else the one that carries the address."""
    found: list[Finding] = []
    address = node.fabric_address
    if address is None:
        address, how = _address_from_facts(node, facts)
        if address is None:
            address = node.host
            found.append(
                finding(
                    "fabric-unknown",
                    f"{node.name}: no fabric address is known; {node.host!r} stands in its place",
                    node=node.name,
                    observed=how,
                )
            )
        else:
            found.append(finding("fabric-assumed", f"{node.name}: fabric address {address} ({how})", node=node.name))
    interface = node.fabric_interface or _interface_of(address, facts)
    if interface is None:
        found.append(
            finding(
                "interface-unknown",
                f"{node.name}: no interface is known to carry {address}",
                node=node.name,
                observed="no facts" if isinstance(facts, Absent) else "no interface of the node has this address",
                severity=Severity.INFO if facts == NOT_SAMPLED else None,  # nobody wanted to know
            )
        )
    return Fabric(address, interface, _hcas(node, facts)), found


def check_addresses(nodes: Sequence[Node], fabrics: Sequence[Fabric]) -> list[Finding]:
    """Addresses that cannot work between several nodes: loopback, unspecified, or one address twice."""
    found: list[Finding] = []
    seen: dict[str, str] = {}
    for node, fabric in zip(nodes, fabrics, strict=True):
        if is_loopback(fabric.address):
            found.append(
                finding(
                    "fabric-loopback",
                    f"{node.name}: the fabric address {fabric.address} is a loopback address",
                    node=node.name,
                    observed=fabric.address,
                )
            )
        if fabric.address in seen:
            found.append(
                finding(
                    "fabric-duplicate",
                    f"{node.name} and {seen[fabric.address]} have one fabric address: {fabric.address}",
                    node=node.name,
                    observed=fabric.address,
                )
            )
        seen.setdefault(fabric.address, node.name)
    return found


def check_rdma(
    nodes: Sequence[Node], fabrics: Sequence[Fabric], facts: Mapping[str, NodeFacts | Absent]
) -> list[Finding]:
    """RDMA on some nodes and none on others. A node whose devices are not known is no contradiction."""
    have = [n.name for n, f in zip(nodes, fabrics, strict=True) if f.hcas]
    none = [n.name for n, f in zip(nodes, fabrics, strict=True) if f.hcas == ()]
    unknown = [n.name for n, f in zip(nodes, fabrics, strict=True) if f.hcas is None]
    found: list[Finding] = []
    if have and none:
        for name in none:
            found.append(
                finding("hcas-on-some", f"{name} has no active RDMA device, {', '.join(have)} have", node=name)
            )
    elif none and not unknown:
        found.append(finding("no-rdma", f"no node has an active RDMA device: {', '.join(none)}"))
    for name in unknown:
        known = facts.get(name)
        if known is not None and not isinstance(known, Absent):
            found.append(finding("hcas-unknown", f"{name}: its RDMA devices are not known", node=name))
    return found


def is_loopback(address: str) -> bool:
    """True for 127.0.0.0/8, ::1, 0.0.0.0 and `localhost`."""
    if address.lower().rstrip(".") in ("localhost", "localhost.localdomain"):
        return True
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_loopback or parsed.is_unspecified


def _address_from_facts(node: Node, facts: NodeFacts | Absent) -> tuple[str | None, str]:
    if isinstance(facts, Absent):
        literal = _literal(node.host)
        return (literal, "the address of the host") if literal else (None, facts.reason)
    if isinstance(facts.interfaces, Absent):
        literal = _literal(node.host)
        return (literal, "the address of the host") if literal else (None, facts.interfaces.reason)
    if node.fabric_interface:
        for interface in facts.interfaces:
            if interface.name == node.fabric_interface and interface.addresses:
                return interface.addresses[0], f"the address of {interface.name}"
        return None, f"{node.fabric_interface} has no address on the node"
    literal = _literal(node.host)
    if literal:
        return literal, "the address of the host"
    own = [
        (address, i.name)
        for i in facts.interfaces
        if i.up and not i.name.startswith(("lo", "docker", "br-", "veth", "virbr", "cni", "podman"))
        for address in i.addresses
        if not is_loopback(address)
    ]
    if len(own) == 1:
        return own[0][0], f"the only address of the node, on {own[0][1]}"
    return None, f"the node has {len(own)} addresses"


def _interface_of(address: str, facts: NodeFacts | Absent) -> str | None:
    if isinstance(facts, Absent) or isinstance(facts.interfaces, Absent):
        return None
    return next((i.name for i in facts.interfaces if address in i.addresses), None)


def _hcas(node: Node, facts: NodeFacts | Absent) -> tuple[str, ...] | None:
    """The cluster file's devices, else the active ones whose interface has an address (RoCE has no GID without)."""
    if node.hcas is not None:
        return node.hcas
    if isinstance(facts, Absent) or isinstance(facts.hcas, Absent):
        return () if not isinstance(facts, Absent) and facts.infiniband is False else None
    bare = set()
    if not isinstance(facts.interfaces, Absent):
        bare = {i.name for i in facts.interfaces if not i.addresses}
    return tuple(h.name for h in facts.hcas if _active(h.state) and h.interface not in bare)


def _active(state: str | Absent) -> bool:
    return not isinstance(state, Absent) and "ACTIVE" in state.upper().replace("INACTIVE", "")


def _literal(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None
