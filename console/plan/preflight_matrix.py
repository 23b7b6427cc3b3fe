"""What should be equal on all nodes, as one table: what the majority has, and who differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from console.base.absent import Absent, known
from console.base.units import size_text
from console.cluster.facts import NodeFacts
from console.cluster.launch_facts import LaunchFacts
from console.cluster.model import Cluster
from console.plan.model import MatrixRow, Plan


def matrix(cluster: Cluster, plan: Plan, facts: Mapping[str, NodeFacts | Absent]) -> tuple[MatrixRow, ...]:
    """Rows of which at least one node says something, in the order of a person's questions."""
    rows = []
    paths = dict.fromkeys(
        path
        for fact in facts.values()
        if isinstance(fact, NodeFacts) and isinstance(fact.launch, LaunchFacts) and known(fact.launch.mounts)
        for path in fact.launch.mounts
    )
    for what, read in _columns(cluster, plan, list(paths)):
        values: dict[str, str | None] = {}
        for rank in plan.ranks:
            fact = facts.get(rank.node)
            value = read(fact) if isinstance(fact, NodeFacts) else None
            values[rank.node] = value if isinstance(value, str) and value else None
        there = [v for v in values.values() if v is not None]
        if there:
            # The first of equally common ones, so that the head's value counts where nodes are split in half.
            majority = max(dict.fromkeys(there), key=there.count)
            rows.append(MatrixRow(what, majority, values))
    return tuple(rows)


Read = Callable[[NodeFacts], str | Absent | None]


def _columns(cluster: Cluster, plan: Plan, paths: Sequence[str]) -> list[tuple[str, Read]]:
    def interface(part: str) -> Read:
        def read(fact: NodeFacts) -> str | None:
            node = cluster.node(fact.node)
            for i in () if isinstance(fact.interfaces, Absent) else fact.interfaces:
                if node and (i.name == node.fabric_interface or node.fabric_address in i.addresses):
                    value = getattr(i, part)
                    return None if isinstance(value, Absent) else str(value)
            return None

        return read

    def launch(read: Callable[[LaunchFacts], str | None]) -> Read:
        return lambda fact: None if isinstance(fact.launch, Absent) else read(fact.launch)

    def image(fact: NodeFacts) -> str | None:
        if isinstance(fact.image_ids, Absent):
            return None
        return fact.image_ids.get(plan.image, "none")[:19]

    def layers(fact: LaunchFacts) -> str | None:
        found = None if isinstance(fact.images, Absent) else fact.images.get(plan.image)
        return f"{len(found.layers)} layers, the last {found.layers[-1][7:19]}" if found and found.layers else None

    def model(fact: LaunchFacts) -> str | None:
        found = () if isinstance(fact.models, Absent) else fact.models
        parts = [
            f"{m.state} {m.revision[:12]} {size_text(m.size_bytes) if m.size_bytes else ''}".strip() for m in found
        ]
        return " ".join("; ".join(parts).split()) or None

    def gids(fact: NodeFacts) -> str | None:
        found = () if isinstance(fact.hcas, Absent) else fact.hcas
        return ", ".join(str(h.gid_index_rocev2) for h in found if known(h.gid_index_rocev2)) or None

    def ports(fact: NodeFacts) -> str | None:
        found = () if isinstance(fact.hcas, Absent) else fact.hcas
        return ", ".join(f"{h.name} {h.state}" for h in found) or None

    columns: list[tuple[str, Read]] = [
        ("image Id", image),
        ("image content", launch(layers)),
        ("model", launch(model)),
        ("kernel", lambda f: _text(f.kernel)),
        ("GPU driver", lambda f: _text(f.gpu_driver)),
        ("GPUs", lambda f: ", ".join(f.gpu_names) if known(f.gpu_names) else None),
        ("architecture", lambda f: _text(f.architecture)),
        ("container engine", lambda f: _text(f.container_version)),
        ("storage driver", lambda f: _text(f.storage_driver)),
        ("fabric interface", interface("name")),
        ("fabric MTU", interface("mtu")),
        ("fabric Mbit/s", interface("speed_mbit")),
        ("RDMA ports", ports),
        ("RoCE v2 GID index", gids),
        ("memory", lambda f: size_text(f.mem_total_bytes) if known(f.mem_total_bytes) else None),
        ("swap", launch(lambda f: size_text(f.swap_total_bytes) if known(f.swap_total_bytes) else None)),
        ("/dev/shm", launch(lambda f: size_text(f.shm_total_bytes) if known(f.shm_total_bytes) else None)),
        ("open files", lambda f: str(f.nofile_limit) if known(f.nofile_limit) else None),
        ("memlock", lambda f: _either(f.memlock_unlimited, "unlimited", "limited")),
        ("RemoveIPC", launch(lambda f: _either(f.remove_ipc, "yes", "no"))),
        ("user", lambda f: _text(f.user)),
    ]  # fmt: skip
    return columns + [(path, _source(path)) for path in paths]


def _source(path: str) -> Read:
    def read(fact: NodeFacts) -> str | None:
        if isinstance(fact.launch, Absent) or isinstance(fact.launch.mounts, Absent):
            return None
        found = fact.launch.mounts.get(path)
        return None if found is None else found.kind

    return read


def _text(value: str | Absent) -> str | None:
    return value if known(value) else None


def _either(value: bool | Absent, yes: str, no: str) -> str | None:
    return None if isinstance(value, Absent) else yes if value else no
