"""The recipe as values: what an operator wrote, checked, with nothing dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from console.base.findings import Finding

DEFAULT_PORT = 8000
DEFAULT_MASTER_PORT = 29501  # vLLM's own default of --master-port
DEFAULT_READY_TIMEOUT_S = 1800.0
SyncImage = Literal["missing", "differs", "never"]


@dataclass(frozen=True, slots=True)
class Mount:
    """One of `extra_mounts`. `host` may begin with `~`: the home of the node's user, expanded on the node."""

    host: str
    container: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class MemoryHints:
    """`[memory]`: the operator's own arithmetic. *_gb are decimal gigabytes, *_gib binary; per node."""

    weights_gb: float | None = None
    resident_gb: float | None = None
    process_gb: float | None = None
    reserve_gib: float | None = None


@dataclass(frozen=True, slots=True)
class SmokePrompt:
    """One check after ready: the prompt and, if given, a regular expression that the answer must match."""

    prompt: str
    expect: str | None = None
    max_tokens: int = 64


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """`[nodes]`: which nodes may be taken, which is the head, which come first. Names as in the cluster file."""

    only: tuple[str, ...] = ()
    head: str | None = None
    prefer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardHints:
    """`[guard]`: what the recipe changes of the memory guard that the settings describe; None: as they say. Floors are
    MemAvailable in GiB below which the rank is killed; 0: no floor in that stage."""

    enabled: bool | None = None
    loading_floor_gib: float | None = None
    serving_floor_gib: float | None = None
    readings: int | None = None
    serving_after_s: float | None = None

    def changes(self) -> dict[str, bool | int | float]:
        """What is set, by name."""
        names = ("enabled", "loading_floor_gib", "serving_floor_gib", "readings", "serving_after_s")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """`[launch]`. drop_caches: give the nodes' page cache back first. sync_image: the image is copied to nodes that
    lack it (`missing`), also to nodes that have another (`differs`), or never. override: codes of findings that do not
    stop this recipe."""

    drop_caches: bool = False
    sync_image: SyncImage = "missing"
    override: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe, validated. `slug` is the folder's name (what commands take); `title` is the recipe's own `name`.

    args: the engine's arguments after shell-word reading: what the engine's argv receives, in order.
    env: as written. extra: unknown keys with their values, kept and shown.
    source: the file's text; digest: sha256 (hex) of it. findings: warnings from reading (unknown keys and so on).
    gpus: "all" (default), "none", or docker's own --gpus value. smoke_judge: an answer must be text to be ready.
    """

    slug: str
    file: str
    title: str
    engine: str
    docker_image: str
    model: str
    required_nodes: int
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    distributed_backend: str = "mp"
    docker_image_dir: str | None = None
    shm_size: str | None = None
    entrypoint: tuple[str, ...] | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    port: int = DEFAULT_PORT
    master_port: int = DEFAULT_MASTER_PORT
    ready_timeout_s: float = DEFAULT_READY_TIMEOUT_S
    gpus: str = "all"
    memory: MemoryHints = MemoryHints()
    smoke: tuple[SmokePrompt, ...] = ()
    smoke_judge: bool = True
    nodes: NodeChoice = NodeChoice()
    guard: GuardHints = GuardHints()
    launch: LaunchOptions = LaunchOptions()
    extra: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    source: str = ""
    digest: str = ""

    @property
    def served_name(self) -> str:
        """What the API lists: the first `--served-model-name`, else the model itself."""
        return flag_value(self.args, "--served-model-name") or self.model


def flag_value(args: tuple[str, ...] | list[str], flag: str) -> str | None:
    """The last value of `flag` in `args` (`--flag v` or `--flag=v`; `_` and `-` are the same, as in vLLM)."""
    want = flag.replace("_", "-")
    found: str | None = None
    for i, word in enumerate(args):
        if not word.startswith("--"):
            continue
        name, eq, value = word.partition("=")
        if name.replace("_", "-") != want:
            continue
        if eq:
            found = value
        elif i + 1 < len(args) and not args[i + 1].startswith("--"):
            found = args[i + 1]
    return found
