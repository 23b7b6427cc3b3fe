"""`[guard]` and `[launch]`: floors in either unit or "off", and codes of findings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from console.base.errors import FileError
from console.base.toml_check import named
from console.base.toml_locate import Document, Path
from console.recipe.model import GuardHints
from console.recipe.schema import GuardTable

OFF: Final = "off"
_STAGES: Final = ("loading", "serving")
_MOST_GIB: Final = 1024
_CODE: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


def launch_errors(doc: Document) -> list[FileError]:
    """What is wrong with the two tables beyond the types that the schema checks."""
    return [*_guard_errors(doc), *_override_errors(doc)]


def _guard_errors(doc: Document) -> list[FileError]:
    table: Any = doc.data.get("guard")
    if not isinstance(table, Mapping):
        return []
    errors: list[FileError] = []
    for stage in _STAGES:
        given = [unit for unit in ("gib", "mib") if f"{stage}_floor_{unit}" in table]
        for unit in given:
            path: Path = ("guard", f"{stage}_floor_{unit}")
            value = table[path[1]]
            if fault := _floor_fault(value, unit):
                errors.append(doc.error(f"{fault}, found {named(value)}", path))
        if len(given) == 2:
            line, _ = doc.place(("guard", f"{stage}_floor_gib"))
            message = f"the floor stands twice: {stage}_floor_gib is on line {line}"
            errors.append(doc.error(message, ("guard", f"{stage}_floor_mib"), remedy="keep one of the two"))
    return errors


def _floor_fault(value: object, unit: str) -> str | None:
    if value == OFF:
        return None
    most = _MOST_GIB * (1024 if unit == "mib" else 1)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return f'must be a number of {"MiB" if unit == "mib" else "GiB"}, or "off"'
    return None if 0 <= value <= most else f"must be 0 to {most}"


def guard_hints(table: GuardTable) -> GuardHints:
    """The table as values, once it has no errors."""
    return GuardHints(
        enabled=table.enabled,
        loading_floor_gib=_floor(table.loading_floor_gib, table.loading_floor_mib),
        serving_floor_gib=_floor(table.serving_floor_gib, table.serving_floor_mib),
        readings=table.readings,
        serving_after_s=table.serving_after_s,
    )


def _floor(in_gib: Any, in_mib: Any) -> float | None:
    if OFF in (in_gib, in_mib):
        return 0.0
    if in_gib is not None:
        return float(in_gib)
    return None if in_mib is None else float(in_mib) / 1024


def _override_errors(doc: Document) -> list[FileError]:
    launch: Any = doc.data.get("launch")
    codes = launch.get("override") if isinstance(launch, Mapping) else None
    errors: list[FileError] = []
    seen: set[str] = set()
    for i, code in enumerate(codes if isinstance(codes, list) else []):
        if not isinstance(code, str) or not code:
            continue  # the shape says so
        path: Path = ("launch", "override", i)
        if not _CODE.fullmatch(code):
            errors.append(doc.error(f'must be the code of a finding, as "gpu-held", found {named(code)}', path))
        elif code in seen:
            errors.append(doc.error(f"named twice: {named(code)}", path))
        seen.add(code)
    return errors
