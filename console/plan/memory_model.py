"""A node's memory budget as values: parts with their sources, the engine's gate, what stays for the system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.base.absent import NOT_SAMPLED, Absent, or_none, why
from console.base.findings import Finding


@dataclass(frozen=True, slots=True)
class MeasuredBoot:
    """What an earlier boot of the same recipe showed, in bytes on one node (the tightest). label: how it is named to
    the operator. utilisation: the share it ran with. available_before: before its containers started;
    serving_available: while it served; nccl: shared memory that NCCL took."""

    label: str
    world: int
    utilisation: float
    total_bytes: int
    resident_bytes: int | Absent = NOT_SAMPLED
    kv_bytes: int | Absent = NOT_SAMPLED
    available_before_bytes: int | Absent = NOT_SAMPLED
    serving_available_bytes: int | Absent = NOT_SAMPLED
    nccl_bytes: int | Absent = NOT_SAMPLED

    @property
    def share_bytes(self) -> int:
        return round(self.utilisation * self.total_bytes)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a node's memory. key: `system`, `nccl`, `process`, `model`, `tables`, `overhead`, `kv`, `free`."""

    key: str
    label: str
    size: int | Absent
    source: str

    def as_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "label": self.label,
            "size_bytes": or_none(self.size),
            "size_why": why(self.size),
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class NodeBudget:
    """The budget of one node, in bytes. share: what the engine asks for, utilisation x total. parts in the order of a
    stacked bar; when all are known they add up to total. gate: whether available - NCCL >= share; gate_margin: by how
    much (negative: short). stays: available memory while serving. reserve: what should stay. page_cache: of
    files, given back when it is needed or dropped; a part of available."""

    node: str
    total: int | Absent
    available: int | Absent
    utilisation: float | Absent
    share: int | Absent
    parts: tuple[Part, ...]
    gate: bool | Absent
    gate_margin: int | Absent
    stays: int | Absent
    reserve: int
    reserve_source: str
    highest_utilisation: float | Absent
    kv_tokens: tuple[int, int] | Absent
    notes: tuple[str, ...] = ()
    page_cache: int | Absent = NOT_SAMPLED
    findings: tuple[Finding, ...] = ()

    def part(self, key: str) -> Part | None:
        return next((p for p in self.parts if p.key == key), None)

    def as_json(self) -> dict[str, Any]:
        tokens = None if isinstance(self.kv_tokens, Absent) else list(self.kv_tokens)
        return {
            "total_bytes": or_none(self.total),
            "total_why": why(self.total),
            "available_bytes": or_none(self.available),
            "available_why": why(self.available),
            "utilisation": or_none(self.utilisation),
            "utilisation_why": why(self.utilisation),
            "share_bytes": or_none(self.share),
            "share_why": why(self.share),
            "parts": [p.as_json() for p in self.parts],
            "gate_passes": or_none(self.gate),
            "gate_why": why(self.gate),
            "gate_margin_bytes": or_none(self.gate_margin),
            "stays_bytes": or_none(self.stays),
            "stays_why": why(self.stays),
            "reserve_bytes": self.reserve,
            "reserve_source": self.reserve_source,
            "highest_utilisation": or_none(self.highest_utilisation),
            "highest_utilisation_why": why(self.highest_utilisation),
            "kv_tokens": tokens,
            "kv_tokens_why": why(self.kv_tokens),
            "page_cache_bytes": or_none(self.page_cache),
            "page_cache_why": why(self.page_cache),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Budgets of all nodes of a launch."""

    nodes: Mapping[str, NodeBudget]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(f for budget in self.nodes.values() for f in budget.findings)

    def as_json(self) -> dict[str, Any]:
        return {name: budget.as_json() for name, budget in self.nodes.items()}
