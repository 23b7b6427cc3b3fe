"""The memory guards of a deployment in words."""

from __future__ import annotations

from console.base.absent import Absent
from console.base.units import gib
from console.services.hub import Snapshot


def guard_lines(snap: Snapshot) -> list[str]:
    """The memory guards of the deployments on show: one line when all is well, one for each that is not."""
    out: list[str] = []
    for boot in snap.boots:
        views = {v.node.name: v.sample for v in snap.nodes}
        good: dict[str, int] = {}
        for rank in boot.ranks:
            sample = views.get(rank.node)
            found = Absent("no sample") if sample is None or isinstance(sample, Absent) else sample.guards
            guards = () if isinstance(found, Absent) else found
            mine = next((g for g in guards if g.deployment == boot.deployment and g.rank == rank.rank), None)
            who = f"  guard     rank {rank.rank} on {rank.node or 'an unknown node'}"
            if mine is None:
                out.append(f"{who}: none is known")
            elif mine.trip is not None:
                how = f"killed the rank {('by the ' + mine.trip.killed_by) if mine.trip.killed_by else 'in vain'}"
                out.append(f"{who}: {how} at {gib(mine.trip.available_bytes, digits=2)} available")
            elif mine.running and not mine.why:
                key = f"floor {gib(mine.floor_bytes)} while {mine.stage} ({mine.stage_why})"
                good[key] = good.get(key, 0) + 1
            elif mine.running:
                out.append(f"{who}: runs, but {mine.why}")
            elif rank.status == "running":
                out.append(f"{who}: ended: {mine.ended or 'it was killed'}")
        out += [f"  guard     {count} of {len(boot.ranks)} run: {key}" for key, count in good.items()]
    return out
