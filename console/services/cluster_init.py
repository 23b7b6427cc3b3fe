"""From host names to a cluster that works: what the nodes say, what is chosen from it, and what stands against it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from console.base.absent import Absent, known
from console.base.findings import Finding, Severity
from console.cluster.facts import NodeFacts
from console.cluster.model import Cluster, Node
from console.plan.codes import finding, unique
from console.plan.fabric import check_addresses, check_rdma, fabric_of
from console.plan.silent import silent_finding
from console.services.fabric_choice import bare_twin, choices
from console.services.facts import ask_facts
from console.transport.base import Fleet, TransportError

TIMEOUT_S: Final = 25.0
CONTAINER_CLIS: Final = ("docker", "podman", "nerdctl")
CLOCK_OFFSET_S: Final = 1.0
NOFILE_WANTED: Final = 1_048_576  # 1024 and 65535 were too few for NCCL at eight ranks
_DENIED: Final = ("permission denied", "access denied", "not permitted")

Asked = tuple[dict[str, NodeFacts], list[Finding]]


async def discover(
    hosts: Sequence[str],
    *,
    name: str,
    user: str | None,
    ssh_config: str | None,
    container_cli: str | None,
    make_fleet: Callable[[Cluster], Fleet],
) -> tuple[Cluster, Sequence[Finding]]:
    """A proposal for a cluster file from what the hosts say, and what stands against it. Hosts that do not answer stay
    in it, with a finding that says why; what they would have said is left out, to be found at launch."""
    nodes = tuple(
        Node(name=host, host=host, user=user, container_cli=container_cli or CONTAINER_CLIS[0])
        for host in dict.fromkeys(hosts)
    )
    cluster = Cluster(name=name, file="", nodes=nodes, ssh_config=ssh_config)
    fleet = make_fleet(cluster)
    try:
        facts, found = await _ask(fleet, nodes)
        if container_cli is None:
            nodes, facts = await _find_cli(fleet, nodes, facts)
    finally:
        await fleet.close()
    nodes, more = _with_fabric(nodes, facts)
    found += more
    found += _same_machine(facts)
    for node in nodes:
        if node.name in facts:
            found += _engine(node, facts[node.name])
    return replace(cluster, nodes=nodes), unique(found)


async def check(fleet: Fleet, cluster: Cluster) -> Sequence[Finding]:
    """What stands against a launch on this cluster, whatever the recipe, the worst first; empty when nothing does."""
    facts, found = await _ask(fleet, cluster.nodes)
    return unique([*found, *facts_findings(cluster, facts)])


def facts_findings(cluster: Cluster, facts: Mapping[str, NodeFacts]) -> list[Finding]:
    """The same of nodes that answered, from what they said."""
    found: list[Finding] = []
    nodes = [n for n in cluster.nodes if n.name in facts]
    for node in nodes:
        fact = facts[node.name]
        found += _engine(node, fact)
        found += _limits(node, fact)
        found += _clock(node, fact)
        found += _gpu(node, fact)
    found += _same_machine(facts)
    if len(cluster.nodes) > 1:
        fabrics = []
        for node in nodes:
            fabric, more = fabric_of(node, facts[node.name])
            fabrics.append(fabric)
            found += more
        found += check_addresses(nodes, fabrics)
        found += check_rdma(nodes, fabrics, facts)
    return found


async def _ask(fleet: Fleet, nodes: Sequence[Node]) -> Asked:
    """Facts of the nodes that answer, and a finding for each that does not, with the remedy of the transport."""
    answers = await asyncio.gather(
        *(ask_facts(fleet.link(n.name), n, timeout=TIMEOUT_S) for n in nodes), return_exceptions=True
    )
    facts: dict[str, NodeFacts] = {}
    found: list[Finding] = []
    for node, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, NodeFacts):
            facts[node.name] = answer
        elif isinstance(answer, TransportError):
            found.append(silent_finding(node.name, answer.what, observed=str(answer.trouble), remedy=answer.remedy))
        elif isinstance(answer, Absent):
            found.append(silent_finding(node.name, answer.reason))
        else:
            raise answer
    return facts, found


async def _find_cli(
    fleet: Fleet, nodes: tuple[Node, ...], facts: dict[str, NodeFacts]
) -> tuple[tuple[Node, ...], dict[str, NodeFacts]]:
    """Nodes without the first container command are asked for the next ones; one that has none keeps the first."""
    for cli in CONTAINER_CLIS[1:]:
        without = [
            replace(n, container_cli=cli)
            for n in nodes
            if n.name in facts and isinstance(facts[n.name].container_cli, Absent)
        ]
        if not without:
            break
        again, _ = await _ask(fleet, without)
        has = {name: fact for name, fact in again.items() if known(fact.container_cli)}
        facts = {**facts, **has}
        nodes = tuple(replace(n, container_cli=cli) if n.name in has else n for n in nodes)
    return nodes, facts


def _with_fabric(nodes: tuple[Node, ...], facts: Mapping[str, NodeFacts]) -> tuple[tuple[Node, ...], list[Finding]]:
    """Nodes with fabric address, interface and RDMA ports, and why these."""
    if len(facts) < 2:
        return nodes, []
    found = choices(facts)
    if not found:
        return nodes, [
            Finding(
                "fabric-not-found",
                Severity.WARN,
                "the nodes that answered share no network, as far as their interfaces say",
                observed="; ".join(f"{name}: {_addresses(fact)}" for name, fact in facts.items()),
                remedy="give each node its fabric_address in the cluster file",
            )
        ]
    best, others = found[0], found[1:]
    said = [f"ranks talk over {best.network}: {best.why()}"]
    said += [f"not {other.network}: {other.why()}" for other in others]
    findings = [Finding("fabric-chosen", Severity.INFO, "; ".join(said))]
    filled = []
    for node in nodes:
        place = best.places.get(node.name)
        if place is None:
            filled.append(node)
            continue
        filled.append(
            replace(
                node,
                fabric_address=place.address,
                fabric_interface=place.interface.name,
                hcas=place.hcas or None,
            )
        )
        twin = bare_twin(facts[node.name], place.interface.name)
        if twin is not None and place.hcas:
            findings.append(
                Finding(
                    "twin-without-address",
                    Severity.INFO,
                    f"{node.name}: {twin.name} on {twin.interface} is the second half of {place.interface.name}, "
                    "has no IPv4 address and is left out",
                    node.name,
                    remedy=f"give {twin.interface} an address of its own for the full bandwidth",
                )
            )
    return tuple(filled), findings


def _addresses(fact: NodeFacts) -> str:
    if isinstance(fact.interfaces, Absent):
        return fact.interfaces.reason
    own = [f"{i.name} {n}" for i in fact.interfaces if i.up for n in i.networks if not n.startswith("127.")]
    return ", ".join(own) or "no address"


def _same_machine(facts: Mapping[str, NodeFacts]) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for name, fact in facts.items():
        if not known(fact.boot_id):
            continue
        if fact.boot_id in first and known(fact.hostname) and fact.hostname == facts[first[fact.boot_id]].hostname:
            yield finding("same-machine", f"{name} and {first[fact.boot_id]} are one machine", node=name)
        first.setdefault(fact.boot_id, name)


def _engine(node: Node, fact: NodeFacts) -> Iterable[Finding]:
    for value in (fact.container_cli, fact.container_version):
        if isinstance(value, Absent):
            denied = any(word in value.reason.lower() for word in _DENIED)
            code = "docker-permission" if denied else "container-engine-missing"
            return [finding(code, f"{node.name}: {value.reason}", node=node.name, observed=value.reason)]
    return []


def _limits(node: Node, fact: NodeFacts) -> Iterator[Finding]:
    if known(fact.nofile_limit) and fact.nofile_limit < NOFILE_WANTED:
        yield finding(
            "nofile-low",
            f"{node.name}: a container may open {fact.nofile_limit} files",
            node=node.name,
            observed=str(fact.nofile_limit),
            expected=str(NOFILE_WANTED),
        )
    if fact.memlock_unlimited is False:
        yield finding("memlock-limited", f"{node.name}: a container may not lock memory without limit", node=node.name)


def _clock(node: Node, fact: NodeFacts) -> Iterator[Finding]:
    offset = fact.clock_offset_s
    if known(offset) and abs(offset) - fact.clock_error_s > CLOCK_OFFSET_S:
        yield finding(
            "clock-offset",
            f"{node.name}: its clock is {abs(offset):.1f} s {'ahead' if offset > 0 else 'behind'}",
            node=node.name,
            observed=f"{offset:+.1f} s",
            expected=f"within {CLOCK_OFFSET_S:g} s",
        )


def _gpu(node: Node, fact: NodeFacts) -> Iterator[Finding]:
    if isinstance(fact.gpu_names, Absent):
        yield finding("gpu-not-seen", f"{node.name}: {fact.gpu_names.reason}", node=node.name)
    elif fact.nvidia_runtime is False:
        yield finding("no-gpu-runtime", f"{node.name}: its container engine has no NVIDIA runtime", node=node.name)
