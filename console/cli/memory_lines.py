"""The memory budget as text: a row for each node, where the sizes come from, and the sum done again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from console.base.units import gib

HEADS: Final = ("memory in GiB", "total", "available", "page cache", "share", "NCCL", "stays", "utilisation that fits")
RIGHT: Final = (1, 2, 3, 4, 5, 6, 7)


def memory_rows(memory: Mapping[str, Any]) -> list[list[str]]:
    """A row a node; `n/a` for what is not known."""
    rows = []
    for node, entry in memory.items():
        sizes = [entry.get(key) for key in ("total_bytes", "available_bytes", "page_cache_bytes", "share_bytes")]
        sizes += [_part(entry, "nccl"), entry.get("stays_bytes")]
        best = entry.get("highest_utilisation")
        rows.append([node, *(_gib(size) for size in sizes), "n/a" if best is None else f"{best:.2f}"])
    return rows


def source_lines(memory: Mapping[str, Any]) -> list[str]:
    """Where each size comes from, on the tightest node; then the sum that is told of this model, done again."""
    if not memory:
        return []
    tight = min(memory.values(), key=lambda entry: entry.get("stays_bytes") or 0)
    lines = [
        f"  {part['label']}: {_gib(part['size_bytes'])} GiB, {part['source']}"
        if part["size_bytes"] is not None
        else f"  {part['label']}: not known: {part['size_why']}"
        for part in tight["parts"]
        if part["key"] not in ("system", "free")
    ]
    reserve = f"  reserve: {_gib(tight['reserve_bytes'])} GiB, {tight['reserve_source']}"
    fits = {node: best for node, entry in memory.items() if (best := entry.get("highest_utilisation")) is not None}
    if len(fits) == len(memory):
        node = min(fits, key=lambda name: fits[name])
        reserve += f"; --gpu-memory-utilization {fits[node]:.2f} keeps it on all nodes ({node} decides)"
    return [*lines, reserve, *(f"  {note}" for note in tight["notes"])]


def _part(entry: Mapping[str, Any], key: str) -> int | None:
    parts: Sequence[Mapping[str, Any]] = entry.get("parts", ())
    return next((part["size_bytes"] for part in parts if part["key"] == key), None)


def _gib(size: int | None) -> str:
    return "n/a" if size is None else gib(size).removesuffix(" GiB")
