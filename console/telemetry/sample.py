"""One moment of one node as values: what a frame says once it is parsed and compared with the frame before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from console.base.absent import NOT_SAMPLED, Absent, known

Int = int | Absent
Float = float | Absent
Text = str | Absent


class MemKind(StrEnum):
    """unified: the GPU uses the node's memory (GB10), which NVML does not report. dedicated: it has its own."""

    UNIFIED = "unified"
    DEDICATED = "dedicated"


@dataclass(frozen=True, slots=True)
class Memory:
    """/proc/meminfo in bytes; rates in bytes per second. largest_order/high_order_bytes: /proc/buddyinfo, free blocks
    of 2 MiB and more (failures: launches crawl and NV_ERR_NO_MEMORY with GiBs free when there are none)."""

    total_bytes: Int = NOT_SAMPLED
    available_bytes: Int = NOT_SAMPLED
    free_bytes: Int = NOT_SAMPLED
    cached_bytes: Int = NOT_SAMPLED
    buffers_bytes: Int = NOT_SAMPLED
    shmem_bytes: Int = NOT_SAMPLED
    swap_total_bytes: Int = NOT_SAMPLED
    swap_free_bytes: Int = NOT_SAMPLED
    cma_total_bytes: Int = NOT_SAMPLED
    cma_free_bytes: Int = NOT_SAMPLED
    dirty_bytes: Int = NOT_SAMPLED
    writeback_bytes: Int = NOT_SAMPLED
    swap_in_bytes_s: Float = NOT_SAMPLED
    swap_out_bytes_s: Float = NOT_SAMPLED
    largest_order: Int = NOT_SAMPLED
    high_order_bytes: Int = NOT_SAMPLED

    @property
    def used_bytes(self) -> Int:
        """What cannot be had without swapping: total less available."""
        return _less(self.total_bytes, self.available_bytes)

    @property
    def page_cache_bytes(self) -> Int:
        """What the kernel holds of files and could drop: Cached and Buffers, without shared memory, which Cached counts
        too and which nobody can drop."""
        cached, buffers, shmem = self.cached_bytes, self.buffers_bytes, self.shmem_bytes
        if isinstance(cached, Absent) or isinstance(buffers, Absent) or isinstance(shmem, Absent):
            return next(part for part in (cached, buffers, shmem) if isinstance(part, Absent))
        return max(0, cached + buffers - shmem)

    @property
    def swap_used_bytes(self) -> Int:
        return _less(self.swap_total_bytes, self.swap_free_bytes)


@dataclass(frozen=True, slots=True)
class Pressure:
    """PSI of one resource: percent of time that some / all tasks waited, over 10 and 60 seconds."""

    some10: Float = NOT_SAMPLED
    some60: Float = NOT_SAMPLED
    full10: Float = NOT_SAMPLED
    full60: Float = NOT_SAMPLED


@dataclass(frozen=True, slots=True)
class Cpu:
    """Percent of all cores together (0-100) since the frame before; load as the kernel gives it."""

    percent: Float = NOT_SAMPLED
    iowait_percent: Float = NOT_SAMPLED
    steal_percent: Float = NOT_SAMPLED
    cores: Int = NOT_SAMPLED
    load1: Float = NOT_SAMPLED
    load5: Float = NOT_SAMPLED
    load15: Float = NOT_SAMPLED
    blocked: Int = NOT_SAMPLED


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as nvidia-smi reports it. With unified memory mem_* are absent, never 0: the node's memory is the truth.

    throttle: names of the active clock event reasons that slow it down (idle is not one)."""

    index: int
    name: Text = NOT_SAMPLED
    uuid: Text = NOT_SAMPLED
    util_percent: Float = NOT_SAMPLED
    temp_c: Float = NOT_SAMPLED
    power_w: Float = NOT_SAMPLED
    clock_mhz: Float = NOT_SAMPLED
    clock_max_mhz: Float = NOT_SAMPLED
    mem_kind: MemKind | Absent = NOT_SAMPLED
    mem_used_bytes: Int = NOT_SAMPLED
    mem_total_bytes: Int = NOT_SAMPLED
    throttle: tuple[str, ...] | Absent = NOT_SAMPLED


@dataclass(frozen=True, slots=True)
class GpuApp:
    """A process that uses a GPU, and the memory it holds there; the only per-process truth on GB10."""

    pid: int
    name: str
    used_bytes: Int
    gpu_uuid: Text = NOT_SAMPLED


@dataclass(frozen=True, slots=True)
class NetRate:
    """One network interface. errors, drops: counts since the frame before; the totals: since the interface came up."""

    name: str
    rx_bytes_s: Float = NOT_SAMPLED
    tx_bytes_s: Float = NOT_SAMPLED
    errors: Int = NOT_SAMPLED
    drops: Int = NOT_SAMPLED
    errors_total: Int = NOT_SAMPLED
    drops_total: Int = NOT_SAMPLED
    speed_mbit: Int = NOT_SAMPLED
    mtu: Int = NOT_SAMPLED
    operstate: Text = NOT_SAMPLED


@dataclass(frozen=True, slots=True)
class RdmaRate:
    """One RDMA port (`device:port`). port_*_data counts words of four bytes; rates here are bytes per second.

    errors: every error counter that grew since the frame before, by its sysfs name. error_totals: all of them, as the
    driver counts."""

    name: str
    rx_bytes_s: Float = NOT_SAMPLED
    tx_bytes_s: Float = NOT_SAMPLED
    state: Text = NOT_SAMPLED
    rate_gbit: Float = NOT_SAMPLED
    errors: Mapping[str, int] | Absent = NOT_SAMPLED
    error_totals: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiskRate:
    """One block device since the frame before."""

    name: str
    read_bytes_s: Float = NOT_SAMPLED
    write_bytes_s: Float = NOT_SAMPLED
    busy_percent: Float = NOT_SAMPLED


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Space behind a watched path; absent with the reason when it did not answer (a mount that hangs)."""

    path: str
    total_bytes: Int
    available_bytes: Int
    device: Text = NOT_SAMPLED
    kind: Text = NOT_SAMPLED


@dataclass(frozen=True, slots=True)
class Proc:
    """A process among the largest or busiest. cpu_percent: of one core, over the last scans (5 s apart)."""

    pid: int
    name: str
    rss_bytes: int
    cpu_percent: Float
    state: str


@dataclass(frozen=True, slots=True)
class Container:
    """A labelled container. state: the engine's word (`running`, `exited`, `created`, `dead`, ...).

    started_at/finished_at: as the engine writes them (RFC 3339). cpu_s: CPU seconds of all its processes so far;
    io_bytes: bytes read and written so far; both only grow, and stand still when the engine hangs."""

    id: str
    name: str
    image: Text
    state: Text
    labels: Mapping[str, str] = field(default_factory=dict)
    exit_code: Int = NOT_SAMPLED
    oom_killed: bool | Absent = NOT_SAMPLED
    pid: Int = NOT_SAMPLED
    started_at: Text = NOT_SAMPLED
    finished_at: Text = NOT_SAMPLED
    error: Text = NOT_SAMPLED
    restarts: Int = NOT_SAMPLED
    cpu_s: Float = NOT_SAMPLED
    cpu_percent: Float = NOT_SAMPLED
    io_bytes: Int = NOT_SAMPLED
    io_bytes_s: Float = NOT_SAMPLED
    mem_bytes: Int = NOT_SAMPLED

    @property
    def running(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True, slots=True)
class ContainerEvent:
    """What the engine told at the moment it happened: `start`, `die`, `oom`, `kill`, `destroy`. at: node's clock."""

    number: int
    action: str
    id: str
    name: str
    exit_code: Int
    at: Float


@dataclass(frozen=True, slots=True)
class KernelLine:
    """A line of the kernel log that matters: Xid, NVRM, OOM, hung tasks, dead mounts. number: the kernel's own."""

    number: int
    uptime_s: Float
    text: str


@dataclass(frozen=True, slots=True)
class Containers:
    """What the container engine says. how: the way it was asked. why: why it does not answer now, "" when it does.

    age_s: how old `rows` are on the node's own clock."""

    rows: tuple[Container, ...]
    how: str
    why: str = ""
    age_s: float = 0.0
    events: tuple[ContainerEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardTrip:
    """The memory guard ended its container. at: epoch s, the node's clock. history: (seconds before the trip, bytes
    available). killed_by: `engine`, `signal`, `command`, or "" when no way worked; `tried` says why."""

    at: float
    stage: str
    floor_bytes: int
    available_bytes: int
    killed_by: str
    tried: tuple[str, ...] = ()
    history: tuple[tuple[float, int], ...] = ()
    took_s: Float = NOT_SAMPLED

    @property
    def fall_bytes_s(self) -> float | None:
        """How fast memory fell in the last second before the trip; None where it did not, or too little is known."""
        near = [(when, left) for when, left in self.history if -1.0 <= when <= 0.0]
        if len(near) < 2 or near[-1][0] <= near[0][0] or near[-1][1] >= near[0][1]:
            return None
        return (near[0][1] - near[-1][1]) / (near[-1][0] - near[0][0])


@dataclass(frozen=True, slots=True)
class Guard:
    """The memory guard of one deployment on a node. since, at: epoch s, the node's clock; at: when it last wrote.

    running: it lives now. ended: why it ended. stage: `loading` or `serving`, which decides the floor.
    oom_score_adj: what the kernel's OOM killer thinks of it (-1000: passed by; only root can ask for that)."""

    deployment: str
    rank: int
    running: bool
    since: Float
    at: Float
    stage: str
    stage_why: str
    floor_bytes: Int
    available_bytes: Int
    lowest_bytes: Int
    oom_score_adj: Int
    locked: bool
    why: str = ""
    ended: str = ""
    how: str = ""
    trip: GuardTrip | None = None


Part = Literal["all", "containers"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One node at one moment. received_at: the console's monotonic clock, seconds: all ages come from it.

    heard_at: the same moment by the console's wall clock, epoch seconds: what is compared across nodes, or laid beside
    what the console itself did, goes by it. node_time/wall: the node's monotonic and wall clocks; wall is 0.0 where the
    node does not tell it, and clock_offset_s is absent then. clock_offset_s: node's wall clock less the console's, the
    way of the frame included. rebooted: boot_id differs from the sample before. missed: frames lost before this.
    groups keep their last values when a frame does not carry them (part "containers": a death told at once)."""

    node: str
    seq: int
    received_at: float
    node_time: float
    wall: float
    part: Part = "all"
    boot_id: Text = NOT_SAMPLED
    uptime_s: Float = NOT_SAMPLED
    clock_offset_s: Float = NOT_SAMPLED
    rebooted: bool = False
    missed: int = 0
    memory: Memory = field(default_factory=Memory)
    psi_memory: Pressure | Absent = NOT_SAMPLED
    psi_cpu: Pressure | Absent = NOT_SAMPLED
    psi_io: Pressure | Absent = NOT_SAMPLED
    cpu: Cpu = field(default_factory=Cpu)
    gpus: tuple[Gpu, ...] | Absent = NOT_SAMPLED
    gpu_apps: tuple[GpuApp, ...] | Absent = NOT_SAMPLED
    net: tuple[NetRate, ...] | Absent = NOT_SAMPLED
    rdma: tuple[RdmaRate, ...] | Absent = NOT_SAMPLED
    disks: tuple[DiskRate, ...] | Absent = NOT_SAMPLED
    filesystems: tuple[FileSystem, ...] | Absent = NOT_SAMPLED
    procs: tuple[Proc, ...] | Absent = NOT_SAMPLED
    containers: Containers | Absent = NOT_SAMPLED
    kernel: tuple[KernelLine, ...] | Absent = NOT_SAMPLED
    guards: tuple[Guard, ...] | Absent = NOT_SAMPLED
    probe_cpu_s: Float = NOT_SAMPLED
    dropped_frames: Int = NOT_SAMPLED
    heard_at: Float = NOT_SAMPLED

    @property
    def unified(self) -> bool:
        """True when a GPU of this node says that it has no memory of its own."""
        return known(self.gpus) and any(g.mem_kind == MemKind.UNIFIED for g in self.gpus)


def _less(a: Int, b: Int) -> Int:
    if isinstance(a, Absent):
        return a
    if isinstance(b, Absent):
        return b
    return a - b if a >= b else Absent("the node says that more is left than there is")
