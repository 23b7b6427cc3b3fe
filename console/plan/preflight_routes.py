"""The preflight of the way between nodes: routes, large frames end to end, RoCE GIDs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from console.base.absent import Absent, known
from console.base.findings import Finding
from console.cluster.facts import NodeFacts
from console.cluster.launch_facts import LaunchFacts, Route
from console.cluster.model import Cluster
from console.plan.codes import finding
from console.plan.model import Plan


def route_findings(
    cluster: Cluster, plan: Plan, facts: Mapping[str, NodeFacts], present: Mapping[str, LaunchFacts]
) -> Iterator[Finding]:
    """Only between nodes that take part; one node needs no fabric."""
    if len(plan.ranks) < 2:
        return
    chosen = {r.node for r in plan.ranks}
    names = {n.fabric_address: n.name for n in cluster.nodes if n.fabric_address and n.name in chosen}
    for name, fact in present.items():
        routes = [r for r in (() if isinstance(fact.routes, Absent) else fact.routes) if r.peer in names]
        yield from _through(cluster, name, facts[name], routes, names)
        yield from _echoes(name, routes, names)
    env = plan.ranks[0].env
    yield from _gids(cluster, facts, env.get("NCCL_IB_GID_INDEX"))


def _through(
    cluster: Cluster, name: str, fact: NodeFacts, routes: list[Route], names: Mapping[str, str]
) -> Iterator[Finding]:
    node = cluster.node(name)
    if node is None or isinstance(fact.interfaces, Absent):
        return
    wanted = node.fabric_interface or next(
        (i.name for i in fact.interfaces if node.fabric_address and node.fabric_address in i.addresses), None
    )
    wrong = [r for r in routes if wanted and known(r.interface) and r.interface != wanted]
    if wrong:
        peers = ", ".join(names[r.peer] for r in wrong)
        yield finding(
            "fabric-route",
            f"{peers} {'is' if len(wrong) == 1 else 'are'} reached through {wrong[0].interface}, not {wanted}",
            node=name,
            observed=str(wrong[0].interface),
            expected=str(wanted),
        )


def _echoes(name: str, routes: list[Route], names: Mapping[str, str]) -> Iterator[Finding]:
    silent = [r for r in routes if r.small is False]
    lost = [r for r in routes if r.small is True and r.large is False]
    if silent:
        peers = ", ".join(names[r.peer] for r in silent)
        yield finding("peer-silent", f"no echo from {peers}", node=name, observed="no echo", expected="an echo")
    if lost:
        peers = ", ".join(names[r.peer] for r in lost)
        size = next((r.mtu for r in lost if known(r.mtu)), None)
        yield finding(
            "path-mtu",
            f"frames of {size} bytes to {peers} are lost, small ones pass",
            node=name,
            observed=f"less than {size}",
            expected=f"{size} bytes",
        )


def _gids(cluster: Cluster, facts: Mapping[str, NodeFacts], wanted: str | None) -> Iterator[Finding]:
    indexes: dict[str, list[str]] = {}
    for name, fact in facts.items():
        node = cluster.node(name)
        if node is None or isinstance(fact.hcas, Absent):
            continue
        # Ports that are in use: named in the cluster file, else those behind the fabric's interface.
        used = [
            h
            for h in fact.hcas
            if (node.hcas is not None and h.name in node.hcas)
            or (node.hcas is None and node.fabric_interface is not None and h.interface == node.fabric_interface)
        ]
        for hca in used:
            index = hca.gid_index_rocev2
            if isinstance(index, Absent):
                if "GID" in index.reason:
                    yield finding("gid-missing", f"{hca.name}: {index.reason}", node=name, observed="none")
                continue
            indexes.setdefault(str(index), []).append(name)
            if wanted is not None and wanted != str(index):
                yield finding(
                    "gid-index-wrong",
                    f"{hca.name}: the RoCE v2 GID has index {index}, and NCCL_IB_GID_INDEX is {wanted}",
                    node=name,
                    observed=str(index),
                    expected=wanted,
                )
    if wanted is None and len(indexes) > 1:
        ordered = sorted(indexes.items(), key=lambda item: -len(set(item[1])))
        texts = [f"{index} on {', '.join(dict.fromkeys(names))}" for index, names in ordered]
        yield finding(
            "gid-differs", f"RoCE v2 GID index: {'; '.join(texts)}", observed=ordered[1][0], expected=ordered[0][0]
        )
