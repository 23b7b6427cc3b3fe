"""The cluster as values: where ranks run, and how the console and the ranks reach each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from console.base.findings import Finding

LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `name` is how it is shown and named in commands (the `host` as written unless `name` is given).

    host: an ssh alias or address: how the console reaches it; `local` means this machine, without SSH.
    fabric_address: how ranks reach each other; None: found on the node.
    hcas: RDMA devices as `device:port`; None: found on the node.
    """

    name: str
    host: str
    user: str | None = None
    port: int | None = None
    fabric_address: str | None = None
    fabric_interface: str | None = None
    hcas: tuple[str, ...] | None = None
    container_cli: str = "docker"
    hf_cache: str | None = None

    @property
    def is_local(self) -> bool:
        return self.host == LOCAL


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster file, validated; `ssh_config` names a file read instead of ~/.ssh/config (as `ssh -F`)."""

    name: str
    file: str
    nodes: tuple[Node, ...]
    api_host: str = "0.0.0.0"
    ssh_config: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def node(self, name: str) -> Node | None:
        return next((n for n in self.nodes if n.name == name), None)
