"""The memory guards of a deployment, in words and for scripts."""

from __future__ import annotations

from typing import Any

from console.base.absent import Absent
from console.base.units import gib
from console.services.hub import Snapshot
from console.telemetry.guard_rows import unwanted
from console.telemetry.sample import Guard


def guard_lines(snap: Snapshot) -> list[str]:
    """The memory guards of the deployments on show: one line when all is well, one for each that is not."""
    out: list[str] = []
    for boot in snap.boots:
        good: dict[str, int] = {}
        for rank in boot.ranks:
            found = _guard(snap, boot.deployment, rank.rank, rank.node)
            mine = found if isinstance(found, Guard) else None
            who = f"  guard     rank {rank.rank} on {rank.node or 'an unknown node'}"
            if isinstance(found, Absent):
                out.append(f"{who}: not known: {found.reason}")
            elif mine is None and _unwanted(snap, boot.deployment, rank.node):
                key = "switched off by the recipe"
                good[key] = good.get(key, 0) + 1
            elif mine is None:
                out.append(f"{who}: absent: nothing guards its memory")
            elif mine.trip is not None:
                how = f"killed the rank {('by the ' + mine.trip.killed_by) if mine.trip.killed_by else 'in vain'}"
                out.append(f"{who}: {how} at {gib(mine.trip.available_bytes, digits=2)} available")
            elif mine.running and not mine.why:
                floor = f"floor {gib(mine.floor_bytes)}" if mine.floor_bytes != 0 else "no floor"
                key = f"{floor} while {mine.stage} ({mine.stage_why})"
                good[key] = good.get(key, 0) + 1
            elif mine.running:
                out.append(f"{who}: runs, but {mine.why}")
            elif rank.status == "running":
                out.append(f"{who}: ended: {mine.ended or 'it was killed'}")
        for key, count in good.items():
            verb = "" if key.startswith("switched off") else " run"
            out.append(f"  guard     {count} of {len(boot.ranks)}{verb}: {key}")
    return out


def guard_json(snap: Snapshot, deployment: str, rank: int, node: str) -> dict[str, Any]:
    """`guard` of a rank. state: `on`, `off` (it ended, or cannot do its work), `fired`, `absent` (the node says that
    there is none) or `unknown`. Bytes; None where not known."""
    found = _guard(snap, deployment, rank, node)
    if isinstance(found, Absent):
        return {"state": "unknown", "floor_bytes": None, "stage": None, "why": found.reason}
    if found is None:
        off = _unwanted(snap, deployment, node)
        why = "switched off by the recipe" if off else "no memory guard runs beside it"
        return {"state": "absent", "floor_bytes": None, "stage": None, "why": why}
    trip = found.trip
    state = "fired" if trip is not None else "on" if found.running and not found.why else "off"
    why = found.why or ("" if found.running else found.ended or "it was killed")
    return {
        "state": state,
        "floor_bytes": _known(found.floor_bytes),
        "stage": found.stage,
        "why": why or None,
        "lowest_bytes": _known(found.lowest_bytes),
        "fired_at_bytes": trip.available_bytes if trip is not None else None,
        "killed_by": trip.killed_by or None if trip is not None else None,
    }


def _guard(snap: Snapshot, deployment: str, rank: int, node: str) -> Guard | Absent | None:
    """None: its node says that there is none. Absent: nothing is known of it."""
    sample = next((v.sample for v in snap.nodes if v.node.name == node), None)
    if sample is None:
        return Absent("its node is not known")
    if isinstance(sample, Absent):
        return sample
    if isinstance(sample.guards, Absent):
        return sample.guards
    return next((g for g in sample.guards if g.deployment == deployment and g.rank == rank), None)


def _unwanted(snap: Snapshot, deployment: str, node: str) -> bool:
    sample = next((v.sample for v in snap.nodes if v.node.name == node), None)
    return sample is not None and not isinstance(sample, Absent) and unwanted(sample, deployment)


def _known(value: int | Absent) -> int | None:
    return None if isinstance(value, Absent) else value
