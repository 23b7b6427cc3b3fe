"""What an engine module is: a name, its entrypoint, and a function from recipe and rank to arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from console.recipe.model import Recipe


@dataclass(frozen=True, slots=True)
class RankContext:
    """What a rank's arguments depend on. world: number of nodes, one engine process each."""

    rank: int
    world: int
    head_address: str
    tensor_parallel: int
    pipeline_parallel: int
    port: int
    master_port: int
    api_host: str

    @property
    def is_head(self) -> bool:
        return self.rank == 0


@dataclass(frozen=True, slots=True)
class RankArgs:
    """shared: the same on all ranks but for the value of the rank's own number. own: what stands last and only on this
    rank (the head's address and port, a worker's `--headless`)."""

    shared: tuple[str, ...]
    own: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return self.shared + self.own


@dataclass(frozen=True, slots=True)
class Engine:
    """entrypoint: used when the recipe names none; None: the image's own ENTRYPOINT. host_ip_env: the variable that
    tells a rank its own fabric address. owned: flags that only the launcher may write, by their long names."""

    name: str
    entrypoint: tuple[str, ...] | None
    host_ip_env: str
    owned: frozenset[str]
    rank_args: Callable[[Recipe, RankContext], RankArgs]
