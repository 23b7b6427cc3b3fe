"""The shape of a recipe file: keys, types and ranges, as pydantic checks them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from console.recipe.model import SyncImage

ENGINES: Final = ("vllm", "sglang")
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class MountTable(_Table):
    """`[[extra_mounts]]`."""

    host: Text
    container: Text
    read_only: bool = False


class MemoryTable(_Table):
    """`[memory]`: decimal gigabytes (`_gb`) and binary gibibytes (`_gib`), per node."""

    weights_gb: Amount | None = None
    resident_gb: Amount | None = None
    process_gb: Amount | None = None
    reserve_gib: Amount | None = None


class SmokeTable(_Table):
    """One of `[[smoke.checks]]`."""

    prompt: Text
    expect: Text | None = None
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 64


class SmokesTable(_Table):
    """`[smoke]`: bare prompts, checks, or both. judge: "off" where answers are noise by nature (random weights)."""

    judge: Literal["on", "off"] = "on"
    prompts: list[Text] = []
    checks: list[SmokeTable] = []


class NodesTable(_Table):
    """`[nodes]`: names as in the cluster file."""

    only: list[Text] = []
    head: Text | None = None
    prefer: list[Text] = []


class GuardTable(_Table):
    """`[guard]`. Floors are checked by hand: a number or "off", in GiB or in MiB."""

    enabled: bool | None = None
    loading_floor_gib: Any = None
    loading_floor_mib: Any = None
    serving_floor_gib: Any = None
    serving_floor_mib: Any = None
    readings: Annotated[int, Field(ge=1, le=1000)] | None = None
    serving_after_s: Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)] | None = None


class LaunchTable(_Table):
    """`[launch]`. override: codes of findings."""

    drop_caches: bool = False
    sync_image: SyncImage = "missing"
    override: list[Text] = []


class RecipeTable(_Table):
    """The file itself. `env` is checked by hand: its errors need better words than a type's."""

    engine: Text
    name: Text
    docker_image: Text
    docker_image_dir: Text | None = None
    model: Text
    required_nodes: Count
    tensor_parallel_size: Count | None = None
    pipeline_parallel_size: Count | None = None
    distributed_backend: Literal["mp", "ray"] | None = None
    shm_size: Text | None = None
    entrypoint: str | list[str] | None = None
    args: list[str] = []
    env: Any = None
    extra_mounts: list[MountTable] = []
    port: Port | None = None
    master_port: Port | None = None
    ready_timeout_s: Seconds | None = None
    gpus: Text | None = None
    memory: MemoryTable = MemoryTable()
    smoke: SmokesTable = SmokesTable()
    nodes: NodesTable = NodesTable()
    guard: GuardTable = GuardTable()
    launch: LaunchTable = LaunchTable()


TABLES: Final[dict[str, type[BaseModel]]] = {
    "": RecipeTable,
    "extra_mounts": MountTable,
    "memory": MemoryTable,
    "smoke": SmokesTable,
    "smoke.checks": SmokeTable,
    "nodes": NodesTable,
    "guard": GuardTable,
    "launch": LaunchTable,
}
PLAIN_TABLES: Final = ("memory", "smoke", "nodes", "guard", "launch")


def known_keys(table: str = "") -> tuple[str, ...]:
    """The keys of a table of the recipe (`""`: the file itself; `smoke.checks`: one check)."""
    return tuple(TABLES[table].model_fields)
