"""How the memory guard is set up: two floors, and when the second one holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from console.base.units import GIB


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """`[guard]` of settings.toml and of a recipe. Floors are MemAvailable in GiB below which the rank is killed.

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

    def with_recipe(self, table: object) -> tuple[GuardPolicy, tuple[str, ...]]:
        """What a recipe's `[guard]` changes, and what is wrong with it in words; what is wrong changes nothing."""
        if table is None:
            return self, ()
        if not isinstance(table, Mapping):
            return self, ("[guard] must be a table",)
        good: dict[str, Any] = {}
        wrong: list[str] = []
        for key, value in table.items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            fits = {
                "enabled": isinstance(value, bool),
                "loading_floor_gib": number and 0 <= value <= 1024,
                "serving_floor_gib": number and 0 <= value <= 1024,
                "readings": number and isinstance(value, int) and 1 <= value <= 1000,
                "serving_after_s": number and 1 <= value <= 1e6,
            }.get(str(key))
            if fits:
                good[str(key)] = value
            else:
                wrong.append(f"[guard] {key}: {'unknown' if fits is None else 'not a fitting value'}")
        return replace(self, **good), tuple(wrong)
