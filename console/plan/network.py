"""The network environment of each rank: what the recipe cannot know because it differs from node to node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from console.base.findings import Finding
from console.plan.codes import finding
from console.plan.fabric import Fabric


def network_env(fabric: Fabric, *, host_ip_env: str, rdma: bool) -> dict[str, str]:
    """Variables for one rank of several. `NCCL_*_IFNAME` and `NCCL_IB_HCA` begin with `=`: the exact name, not a
    prefix. Where no node has a device NCCL_IB_HCA stays unset and NCCL_IB_DISABLE too: NCCL then finds by itself that
    there is none, and a device that appears later is used rather than forbidden."""
    env = {host_ip_env: fabric.address}
    if fabric.interface:
        env["NCCL_SOCKET_IFNAME"] = f"={fabric.interface}"
        env["GLOO_SOCKET_IFNAME"] = fabric.interface
        env["TP_SOCKET_IFNAME"] = fabric.interface
    if rdma and fabric.hcas:
        env["NCCL_IB_HCA"] = "=" + ",".join(fabric.hcas)
        env["NCCL_IB_DISABLE"] = "0"
    return env


def merge_env(
    network: Sequence[Mapping[str, str]], cluster: Mapping[str, str], recipe: Mapping[str, str]
) -> tuple[list[dict[str, str]], list[Finding]]:
    """Each rank's whole environment: the launcher's, over it the cluster file's, over it the recipe's; each name once,
    and one finding for each of ours that another value was given."""
    found = [
        finding("env-overridden", f"{name} is set by the {who}; it would be {_values(network, name)}", observed=name)
        for name in sorted({name for env in network for name in env})
        for who, env in (("recipe", recipe), ("cluster file", cluster))
        if name in env
        and not (who == "cluster file" and name in recipe)
        and any(rank.get(name) != env[name] for rank in network)
    ]
    return [{**env, **cluster, **recipe} for env in network], found


def _values(network: Sequence[Mapping[str, str]], name: str) -> str:
    values = list(dict.fromkeys(env[name] for env in network if name in env))
    return values[0] if len(values) == 1 else f"{values[0]} and so on, by node"
