"""What the guards of deployments did, in lines: what stands in `rankR.guard` beside a rank's log."""

from __future__ import annotations

from typing import Final

from console.base.text import clean_line
from console.base.units import gib
from console.boot.to_json import stamp
from console.services.guard import marker_text
from console.telemetry.sample import Guard

MOST: Final = 4096


class GuardLog:
    """Turns what each frame says of a guard into a line where something about it changed."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, int], tuple[object, ...]] = {}

    def news(self, node: str, guard: Guard, now: float) -> str:
        """Lines with the console's time in front, "" where all is as before; a trip has its marker's lines."""
        key = (node, guard.deployment, guard.rank)
        before = self._told.get(key)
        tripped = guard.trip is not None
        state = (guard.running, guard.stage, guard.floor_bytes, guard.why, guard.ended, tripped)
        if before == state:
            return ""
        if before is None and len(self._told) >= MOST:
            self._told.pop(next(iter(self._told)))
        self._told[key] = state
        lines = []
        if guard.trip is not None and not (before and before[-1]):
            lines.append(marker_text(guard.trip, guard.rank, node))
        lines.append(f"{stamp(now)} the guard on {node} {_words(guard)}")
        return "\n".join(lines) + "\n"


def _words(guard: Guard) -> str:
    lowest = f", lowest so far {gib(guard.lowest_bytes, digits=2)}"
    if guard.running:
        trouble = f", but {guard.why}" if guard.why else ""
        text = (
            f"runs: floor {gib(guard.floor_bytes, digits=2)} while {guard.stage} ({guard.stage_why}){lowest}{trouble}"
        )
    else:
        text = f"has ended: {guard.ended or 'it was killed'}{lowest}"
    return clean_line(text, limit=500)
