"""What the nodes' facts change in the container's flags: devices, GPUs and limits that a node does not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from console.base.absent import Absent, known
from console.base.findings import Finding
from console.cluster.facts import NodeFacts
from console.cluster.model import Node
from console.plan.codes import INFO, WARN, finding
from console.plan.container import NOFILE, Adapt
from console.recipe.model import Recipe

Facts = Mapping[str, NodeFacts | Absent]
_NO_TOOL = ("not installed", "not found", "no such file", "lists no gpu")
NOT_ASKED = Absent("the node was not asked yet")


def adapt_flags(
    recipe: Recipe, nodes: Sequence[Node], facts: Facts, *, per_node_gpus: int = 1
) -> tuple[list[Adapt], list[Finding]]:
    """Flags for each node, and why they were changed. A node without facts changes nothing. Devices and GPUs are the
    same on all ranks; limits are each node's own."""
    known_facts = [f for f in (facts.get(n.name, NOT_ASKED) for n in nodes) if not isinstance(f, Absent)]
    found = [
        finding("facts-unknown", f"{n.name}: {f.reason}", node=n.name, observed=f.reason)
        for n in nodes
        if isinstance(f := facts.get(n.name, NOT_ASKED), Absent)
    ]
    gpus, gpu_findings = _gpus(recipe, nodes, facts, known_facts, per_node_gpus)
    infiniband, ib_findings = _infiniband(recipe, nodes, known_facts)
    base = Adapt(gpus=gpus, infiniband=infiniband)
    out = [base] * len(nodes)
    for i, node in enumerate(nodes):
        fact = facts.get(node.name, NOT_ASKED)
        if isinstance(fact, Absent):
            continue
        limit = fact.nofile_limit
        if known(limit) and 0 < limit < NOFILE:
            out[i] = replace(out[i], nofile=limit)
            found.append(
                finding(
                    "nofile-low",
                    f"{node.name}: a container may have {limit} open files at most",
                    node=node.name,
                    observed=str(limit),
                    expected=str(NOFILE),
                )
            )
        if fact.memlock_unlimited is False:
            out[i] = replace(out[i], memlock=False)
            found.append(
                finding(
                    "memlock-limited",
                    f"{node.name}: memlock cannot be raised to unlimited, so it is left as it is",
                    node=node.name,
                    expected="unlimited",
                )
            )
    return out, found + gpu_findings + ib_findings


def has_no_gpu(fact: NodeFacts) -> bool:
    """True when the node says that it has no NVIDIA GPU: an empty list, or no nvidia-smi at all. A tool that is there
    and fails says nothing: the driver may be broken, and then the GPU is missed later, not left out here."""
    if isinstance(fact.gpu_names, Absent):
        return any(word in fact.gpu_names.reason.lower() for word in _NO_TOOL)
    return fact.gpu_names == ()


def _gpus(
    recipe: Recipe, nodes: Sequence[Node], facts: Facts, known_facts: Sequence[NodeFacts], per_node: int
) -> tuple[str | None, list[Finding]]:
    if recipe.gpus == "none":
        return None, []
    complete = len(known_facts) == len(nodes)
    if complete and all(has_no_gpu(f) and f.nvidia_runtime is False for f in known_facts):
        return None, [finding("gpu-left-out", "no node has an NVIDIA GPU, so --gpus is left out")]
    found: list[Finding] = []
    some = any(known(f.gpu_names) and f.gpu_names for f in known_facts)
    cli = {n.name: n.container_cli for n in nodes}
    for fact in known_facts:
        if known(fact.gpu_names) and fact.gpu_names and fact.nvidia_runtime is False:
            podman = cli[fact.node].rsplit("/", 1)[-1] == "podman"  # it needs a CDI specification, not the runtime
            code = "podman-gpus" if podman else "no-gpu-runtime"
            found.append(
                finding(code, f"{fact.node}: {len(fact.gpu_names)} GPU(s), no NVIDIA container runtime", node=fact.node)
            )
        elif some and has_no_gpu(fact):
            found.append(finding("gpu-missing", f"{fact.node} has no GPU, others have", node=fact.node))
        if known(fact.gpu_names) and fact.gpu_names and len(fact.gpu_names) < per_node:
            found.append(
                finding(
                    "gpus-too-few",
                    f"{fact.node} has {len(fact.gpu_names)} GPU(s), the recipe needs {per_node} on each node",
                    node=fact.node,
                    observed=str(len(fact.gpu_names)),
                    expected=str(per_node),
                )
            )
    return recipe.gpus, found


def _infiniband(recipe: Recipe, nodes: Sequence[Node], known_facts: Sequence[NodeFacts]) -> tuple[bool, list[Finding]]:
    have = [f.node for f in known_facts if f.infiniband is True]
    lack = [f.node for f in known_facts if f.infiniband is False]
    if have and lack:
        return True, [
            finding("infiniband-missing", f"{name} has no /dev/infiniband, {', '.join(have)} have", node=name)
            for name in lack
        ]
    if lack:
        named = any(n.hcas for n in nodes)
        severity = WARN if named and recipe.gpus != "none" else INFO
        text = "no node has /dev/infiniband, so the device is left out"
        if named:
            text += ", although the cluster file names RDMA devices"
        return False, [finding("infiniband-left-out", text, severity=severity, observed=", ".join(lack))]
    return True, []
