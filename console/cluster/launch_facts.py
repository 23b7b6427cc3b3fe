"""What a launch must know of a node beside its hardware: folders, the model, what else runs, shared memory, routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.base.absent import NOT_SAMPLED, Absent
from console.base.containers import ENDED


@dataclass(frozen=True, slots=True)
class PathFact:
    """A folder or file of the node. kind: `dir`, `file`, `other`, `missing`, `hung` or `error`, with the reason of the
    last two. writable: the path, or its nearest parent that is there, takes new entries of the node's user."""

    kind: str
    why: str = ""
    writable: bool = False


@dataclass(frozen=True, slots=True)
class ModelFact:
    """A model's files. state: `whole`, `incomplete`, `missing`, `hung`, `error`. damaged: file and what is wrong.
    tensor_bytes: of all tensors, by the headers of the shards, where every one of them could be read."""

    name: str
    folder: str
    state: str
    why: str = ""
    revision: str = ""
    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    files: int = 0
    size_bytes: int = 0
    tensor_bytes: int | Absent = NOT_SAMPLED


@dataclass(frozen=True, slots=True)
class ImageFact:
    """An image as the engine inspects it. layers: digests of the unpacked layers, equal wherever the content is.
    settings: a digest of entrypoint, command, environment, folder and user."""

    id: str
    layers: tuple[str, ...] = ()
    size_bytes: int | Absent = NOT_SAMPLED
    user: str = ""
    architecture: str = ""
    settings: str = ""


@dataclass(frozen=True, slots=True)
class ContainerFact:
    """A container of the node; ours: it carries a deployment's label. state: the engine's word."""

    id: str
    name: str
    image: str
    state: str
    ours: bool = False

    @property
    def alive(self) -> bool:
        return self.state != "" and self.state not in ENDED


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A process of an inference engine; container: the full id of the one it runs in, or empty."""

    pid: int
    line: str
    container: str
    rss_bytes: int
    age_s: float


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A process that holds GPU memory, as nvidia-smi lists it."""

    pid: int
    name: str
    container: str
    size_bytes: int | Absent


@dataclass(frozen=True, slots=True)
class GpuClock:
    """One GPU's clock in MHz, power in W, load in percent; reasons: nvidia-smi's bit mask of what holds the clock."""

    sm_mhz: float | Absent
    power_w: float | Absent
    util: float | Absent
    reasons: int | Absent


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a peer's fabric address. small, large: whether an echo of 56 bytes, and one as large as the
    interface's MTU, came back unsplit; Absent where that could not be tried."""

    peer: str
    interface: str | Absent
    mtu: int | Absent
    small: bool | Absent
    large: bool | Absent
    why: str = ""


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """Asked for a launch only. mounts: path as asked -> what is there. remove_ipc: logind removes a user's shared
    memory with his last session. consoles: probes of other consoles. shm_leftovers: file -> bytes in /dev/shm."""

    mounts: Mapping[str, PathFact] | Absent = NOT_SAMPLED
    models: tuple[ModelFact, ...] | Absent = NOT_SAMPLED
    images: Mapping[str, ImageFact] | Absent = NOT_SAMPLED
    containers: tuple[ContainerFact, ...] | Absent = NOT_SAMPLED
    engines: tuple[EngineProcess, ...] | Absent = NOT_SAMPLED
    gpu_holders: tuple[GpuHolder, ...] | Absent = NOT_SAMPLED
    gpu_clocks: tuple[GpuClock, ...] | Absent = NOT_SAMPLED
    routes: tuple[Route, ...] | Absent = NOT_SAMPLED
    watchdogs: tuple[str, ...] | Absent = NOT_SAMPLED
    consoles: int | Absent = NOT_SAMPLED
    remove_ipc: bool | Absent = NOT_SAMPLED
    linger: bool | Absent = NOT_SAMPLED
    shm_total_bytes: int | Absent = NOT_SAMPLED
    shm_free_bytes: int | Absent = NOT_SAMPLED
    shm_leftovers: Mapping[str, int] | Absent = NOT_SAMPLED
    swap_total_bytes: int | Absent = NOT_SAMPLED
    swap_free_bytes: int | Absent = NOT_SAMPLED
    cma_total_bytes: int | Absent = NOT_SAMPLED
    cma_free_bytes: int | Absent = NOT_SAMPLED
    page_cache_bytes: int | Absent = NOT_SAMPLED
