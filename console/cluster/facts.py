"""What a node says of itself: the facts that a plan needs. Every one can be absent, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from console.base.absent import NOT_SAMPLED, Absent
from console.cluster.launch_facts import LaunchFacts


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface: IPv4 addresses without prefix, MTU in bytes, speed in Mbit/s where the driver says it.

    networks: the addresses' networks as `10.0.0.0/24`, in the same order; empty where the node could not say."""

    name: str
    addresses: tuple[str, ...]
    up: bool
    mtu: int | Absent = NOT_SAMPLED
    speed_mbit: int | Absent = NOT_SAMPLED
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hca:
    """An RDMA port: `device:port`, the netdev behind it, and its state as sysfs words it (`ACTIVE`)."""

    name: str
    interface: str | Absent
    state: str | Absent
    gid_index_rocev2: int | Absent = NOT_SAMPLED


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts of one node at one moment (`at`: epoch seconds on the console's clock). Bytes are bytes.

    clock_offset_s: how far the node's clock is ahead; clock_error_s: how far off that may be at most.
    home: the user's home folder. nofile_limit/memlock: what a container may raise its limits to
    (files; memlock_unlimited False where `--ulimit memlock=-1` would be refused).
    control_address: the node's own address at which the console's SSH connection arrived.
    launch: only where it was asked for.
    image_ids: image reference -> Id, for references asked about; absent reference: not in the mapping.
    """

    node: str
    at: float
    user: str | Absent = NOT_SAMPLED
    uid: int | Absent = NOT_SAMPLED
    home: str | Absent = NOT_SAMPLED
    hostname: str | Absent = NOT_SAMPLED
    kernel: str | Absent = NOT_SAMPLED
    architecture: str | Absent = NOT_SAMPLED
    boot_id: str | Absent = NOT_SAMPLED
    uptime_s: float | Absent = NOT_SAMPLED
    clock_offset_s: float | Absent = NOT_SAMPLED
    clock_error_s: float = 0.0
    mem_total_bytes: int | Absent = NOT_SAMPLED
    mem_available_bytes: int | Absent = NOT_SAMPLED
    container_cli: str | Absent = NOT_SAMPLED
    container_version: str | Absent = NOT_SAMPLED
    container_runtimes: tuple[str, ...] | Absent = NOT_SAMPLED
    storage_driver: str | Absent = NOT_SAMPLED
    image_ids: Mapping[str, str] | Absent = NOT_SAMPLED
    gpu_names: tuple[str, ...] | Absent = NOT_SAMPLED
    gpu_driver: str | Absent = NOT_SAMPLED
    nvidia_runtime: bool | Absent = NOT_SAMPLED
    infiniband: bool | Absent = NOT_SAMPLED
    interfaces: tuple[Interface, ...] | Absent = NOT_SAMPLED
    hcas: tuple[Hca, ...] | Absent = NOT_SAMPLED
    nofile_limit: int | Absent = NOT_SAMPLED
    memlock_unlimited: bool | Absent = NOT_SAMPLED
    listening_ports: frozenset[int] | Absent = NOT_SAMPLED
    disk_free_bytes: Mapping[str, int] | Absent = NOT_SAMPLED
    missing: Mapping[str, str] = field(default_factory=dict)
    control_address: str | Absent = NOT_SAMPLED
    launch: LaunchFacts | Absent = NOT_SAMPLED
