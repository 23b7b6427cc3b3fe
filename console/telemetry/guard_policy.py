"""How the memory guard is set up: two floors, and when the second one holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from console.base.units import GIB
from console.recipe.model import GuardHints


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """`[guard]` of settings.toml and of a recipe. Floors are MemAvailable in GiB below which the rank is killed; 0: no
    floor in that stage.

    Public notes on GB10: guards of 4-6 GiB while weights load saved nodes; healthy services run at 1.6-5 GiB, and a
    floor of 8 GiB killed them; so the floor falls to 1 GiB once the engine serves. readings: so many in a row.
    serving_after_s: without a console and with no answer of the API, the engine is taken to serve after this time;
    None: the recipe's time to ready."""

    enabled: bool = True
    loading_floor_gib: float = 4.0
    serving_floor_gib: float = 1.0
    readings: int = 3
    serving_after_s: float | None = None

    @property
    def loading_floor_bytes(self) -> int:
        return int(self.loading_floor_gib * GIB)

    @property
    def serving_floor_bytes(self) -> int:
        return int(self.serving_floor_gib * GIB)

    def with_recipe(self, hints: GuardHints) -> GuardPolicy:
        """The policy with what a recipe's `[guard]` changes."""
        return replace(self, **hints.changes())  # type: ignore[arg-type]  # its names and types are this class's own
