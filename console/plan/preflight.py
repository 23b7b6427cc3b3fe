"""The preflight: everything that facts say against a launch, before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from console.base.absent import NOT_SAMPLED, Absent, known
from console.base.findings import Finding, Severity
from console.cluster.facts import NodeFacts
from console.cluster.model import Cluster
from console.plan.codes import finding, unique
from console.plan.effective import effective
from console.plan.model import Plan
from console.plan.odd import odd
from console.plan.preflight_engines import engine_findings
from console.plan.preflight_fabric import fabric_findings
from console.plan.preflight_host import host_findings
from console.plan.preflight_images import image_findings
from console.plan.preflight_mounts import mount_findings
from console.plan.preflight_routes import route_findings
from console.plan.references import found_id
from console.plan.silent import silent_finding
from console.plan.sizes import GIB, gib
from console.recipe.model import Recipe

Verdict = Literal["ready", "risky", "blocked"]
DISK_LOW: Final = 10 * GIB  # caches of compiled kernels and an engine's log of a night fit into less
DISK_FULL: Final = 1 * GIB
CLOCK_OFFSET_S: Final = 1.0  # log lines of two nodes are put in order by their time stamps
FRESH_UPTIME_S: Final = 600.0
# What an unreachable node's plan says too, and what `unreachable` says better.
_FOLLOWS: Final = frozenset({"facts-unknown", "memory-unknown"})
_DENIED: Final = ("permission denied", "access denied", "not permitted", "dial unix")


def preflight(
    recipe: Recipe, cluster: Cluster, plan: Plan, facts: Mapping[str, NodeFacts | Absent]
) -> tuple[Finding, ...]:
    """The plan's own findings and those of the facts of its nodes, the worst first. A fact that was not asked for says
    nothing; a node without facts blocks. Nothing is asked of a node here."""
    present: dict[str, NodeFacts] = {}
    found: list[Finding] = []
    for rank in plan.ranks:
        fact = facts.get(rank.node, Absent("the node was not asked yet"))
        if isinstance(fact, Absent):
            found.append(silent_finding(rank.node, fact.reason))
        else:
            present[rank.node] = fact
    settled = _settled(recipe, plan, present)
    found += [
        f
        for f in plan.findings
        if f.code not in settled and (f.code not in _FOLLOWS or f.node is None or f.node in present)
    ]
    for name, fact in present.items():
        found += _engine(name, fact)
        found += _disk(name, fact, plan)
        found += _clock(name, fact)
    found += image_findings(recipe, cluster, plan, facts)
    found += _ports(recipe, plan, present)
    found += _same(present, cluster, plan)
    found += _differing(present)
    found += fabric_findings(cluster, plan, present)
    found += _launch(recipe, cluster, plan, present)
    return unique(found)


def _settled(recipe: Recipe, plan: Plan, present: Mapping[str, NodeFacts]) -> set[str]:
    """Codes that say what every node must have, where every node of the plan was asked and has it."""
    facts = [present.get(rank.node) for rank in plan.ranks]
    settled = set()
    if all(fact is not None and found_id(plan.image, fact) for fact in facts):
        settled.add("local-image")
    if all(fact is not None and _whole(recipe.model, fact) for fact in facts):
        settled.add("offline-hub-model")
    return settled


def _whole(model: str, fact: NodeFacts) -> bool:
    models = () if isinstance(fact.launch, Absent) or isinstance(fact.launch.models, Absent) else fact.launch.models
    return any(m.name == model and m.state == "whole" for m in models)


def _launch(recipe: Recipe, cluster: Cluster, plan: Plan, present: Mapping[str, NodeFacts]) -> Iterator[Finding]:
    """What was asked for this launch; a node that was asked for its hardware alone says nothing here."""
    asked = {name: fact.launch for name, fact in present.items() if not isinstance(fact.launch, Absent)}
    yield from mount_findings(recipe, cluster, asked)
    yield from host_findings(cluster, plan, present, asked)
    yield from engine_findings(asked)
    yield from route_findings(cluster, plan, present, asked)


def verdict(findings: Iterable[Finding], override: Collection[str] = ()) -> Verdict:
    """`blocked` with a block whose code is not overridden, `risky` with a warning or an overridden block, else
    `ready`."""
    worst: Verdict = "ready"
    for item in findings:
        if item.severity is Severity.BLOCK and item.code not in override:
            return "blocked"
        if item.severity is not Severity.INFO:
            worst = "risky"
    return worst


def in_words(findings: Iterable[Finding], override: Collection[str] = ()) -> str:
    """The verdict for people, who read `ready` as if the engine were: `may launch, with 2 warnings`, `not yet: 1 block
    (image-missing)`. The same finding on several nodes counts once."""
    kinds: dict[Severity, list[str]] = {}
    for code, severity in dict.fromkeys((f.code, f.severity) for f in findings):
        kinds.setdefault(severity, []).append(code)
    blocks = [code for code in kinds.get(Severity.BLOCK, ()) if code not in override]
    lifted = [code for code in kinds.get(Severity.BLOCK, ()) if code in override]
    warns = kinds.get(Severity.WARN, [])
    if blocks:
        return f"not yet: {_several(blocks, 'block')} ({', '.join(blocks)})"
    rest = [_several(warns, "warning")] if warns else []
    if lifted:
        rest.append(f"{_several(lifted, 'block')} overridden by the recipe ({', '.join(lifted)})")
    return f"may launch, with {' and '.join(rest)}" if rest else "may launch"


def _several(codes: Sequence[str], word: str) -> str:
    return f"{len(codes)} {word}{'' if len(codes) == 1 else 's'}"


def _engine(name: str, fact: NodeFacts) -> Iterator[Finding]:
    for value in (fact.container_cli, fact.container_version):
        if not isinstance(value, Absent) or value == NOT_SAMPLED:
            continue
        denied = any(word in value.reason.lower() for word in _DENIED)
        code = "docker-permission" if denied else "container-engine-missing"
        yield finding(code, f"{name}: {value.reason}", node=name, observed=value.reason)
        return


def _disk(name: str, fact: NodeFacts, plan: Plan) -> Iterator[Finding]:
    if isinstance(fact.disk_free_bytes, Absent):
        return
    rank = next(r for r in plan.ranks if r.node == name)
    written = {
        path
        for path in fact.disk_free_bytes
        if path in ("/", "~") or path.startswith(("~/", "/var/lib/")) or any(d.startswith(path) for d in rank.mkdirs)
    }
    for path, free in sorted(fact.disk_free_bytes.items()):
        if free >= DISK_LOW:
            continue
        full = free < DISK_FULL and path in written
        yield finding(
            "disk-full" if full else "disk-low",
            f"{name}: {gib(free)} free on {path}",
            node=name,
            observed=gib(free),
            expected=f"at least {gib(DISK_LOW)}",
        )


def _clock(name: str, fact: NodeFacts) -> Iterator[Finding]:
    offset, uptime = fact.clock_offset_s, fact.uptime_s
    if known(offset) and abs(offset) - fact.clock_error_s > CLOCK_OFFSET_S:
        yield finding(
            "clock-offset",
            f"{name}: its clock is {abs(offset):.1f} s {'ahead' if offset > 0 else 'behind'}",
            node=name,
            observed=f"{offset:+.1f} s",
            expected=f"within {CLOCK_OFFSET_S:g} s",
        )
    if known(uptime) and uptime < FRESH_UPTIME_S:
        yield finding("recently-booted", f"{name} was started {uptime / 60:.0f} min ago", node=name)


def _ports(recipe: Recipe, plan: Plan, present: Mapping[str, NodeFacts]) -> Iterator[Finding]:
    head = present.get(plan.head_node)
    if head is None or isinstance(head.listening_ports, Absent):
        return
    ports = [(plan.port, "API")]
    if len(plan.ranks) > 1:
        ports.append((effective(recipe).master_port, "rendezvous"))
    for port, what in ports:
        if port in head.listening_ports:
            yield finding(
                "port-busy",
                f"{plan.head_node}: something listens on {port}, the {what} port",
                node=plan.head_node,
                observed=str(port),
                expected="free",
            )


def _same(present: Mapping[str, NodeFacts], cluster: Cluster, plan: Plan) -> Iterator[Finding]:
    """Two entries, one machine: the same kernel start and host name. Hosts that share only a kernel (containers,
    namespaces) have names of their own."""
    seen: dict[tuple[str, str], str] = {}
    for name, fact in present.items():
        if known(fact.boot_id) and known(fact.hostname):
            other = seen.setdefault((fact.boot_id, fact.hostname), name)
            if other != name:
                yield finding("same-machine", f"{name} and {other} are one machine: {fact.hostname}", node=name)
    hosts: dict[tuple[str, int | None], str] = {}
    for rank in plan.ranks:
        node = cluster.node(rank.node)
        if node is not None:
            other = hosts.setdefault((node.host, node.port), node.name)
            if other != node.name:
                yield finding("same-machine", f"{node.name} and {other} are one host: {node.host}", node=node.name)


def _differing(present: Mapping[str, NodeFacts]) -> Iterator[Finding]:
    columns: Sequence[tuple[str, str, Mapping[str, object]]] = (
        ("architecture-differs", "architectures", {n: f.architecture for n, f in present.items()}),
        ("driver-differs", "GPU drivers", {n: f.gpu_driver for n, f in present.items()}),
        ("gpu-differs", "GPUs", {n: f.gpu_names for n, f in present.items()}),
        ("kernel-differs", "kernels", {n: f.kernel for n, f in present.items()}),
        ("container-version-differs", "container engines", {n: f.container_version for n, f in present.items()}),
    )
    for code, what, values in columns:
        texts = {
            name: ", ".join(value) if isinstance(value, tuple) else str(value)
            for name, value in values.items()
            if not isinstance(value, Absent) and value != ()
        }
        yield from odd(code, what, texts)
