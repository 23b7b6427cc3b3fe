"""A boot as a row of the ledger, and what an earlier console knew of it that this one cannot know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from console.boot.state import BootState
from console.boot.to_json import cause_json
from console.enginelog.stages_model import Stage

UNKNOWN: Final = "unknown"
GONE_WHY: Final = "unknown: console ended, containers gone"


def summary_of(
    state: BootState, lowest: int | None, lowest_by_node: Mapping[str, int] | None = None, cluster: str = ""
) -> dict[str, Any]:
    """boot.json. lowest: bytes of available memory, of all nodes; cluster: the cluster file's name."""
    return {
        "deployment": state.deployment,
        "boot": state.number,
        "recipe": state.recipe,
        "title": state.title,
        "digest": state.digest,
        "cluster": cluster,
        "nodes": [r.node for r in state.ranks if r.node],
        "started_at": state.launched_at,
        "ended_at": state.ended_at,
        "state": "failed" if state.failed_why else str(state.phase),
        "changed": list(state.changed),
        "cause": cause_json(state.cause),
        "failed_why": state.failed_why or None,
        "ready_s": _ready_s(state),
        "stages": stage_seconds(state),
        "min_available_bytes": lowest,
        "min_available_by_node": dict(lowest_by_node or {}),
        "tokens_per_s": state.tokens_per_s,
        "first_token_s": state.first_token_s,
        "stats": dict(state.stats),
        "smoke_text": state.smoke_text or None,
        "note": "; ".join(state.notes),
    }


def _ready_s(state: BootState) -> float | None:
    """Seconds from launch to ready. A console that found a deployment serving knows the moment only by the head's own
    log: the moment of its own first look would be a lie."""
    if state.ready_at is None:
        return None
    if not state.adopted:
        return round(state.ready_at - state.launched_at, 3)
    served = [c.at for r in state.ranks if r.rank == 0 for c in r.cells if c.stage is Stage.HTTP and c.at is not None]
    return round(served[0] - state.launched_at, 3) if served and served[0] >= state.launched_at else None


def stage_seconds(state: BootState) -> dict[str, float]:
    """Seconds that the slowest rank spent in each stage, by the engine's own stamps."""
    out: dict[str, float] = {}
    for rank in state.ranks:
        for cell in rank.cells:
            if cell.at is not None and cell.until is not None and cell.until >= cell.at:
                out[cell.stage.word] = max(out.get(cell.stage.word, 0.0), round(cell.until - cell.at, 3))
    return out


def merged(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """`now`, with what only the console before knew: what changed, when it was ready, notes, and the lowest memory."""
    out = dict(now)
    for key in ("changed", "ready_s", "digest", "cluster", "nodes", "title"):
        if before.get(key):
            out[key] = before[key]
    for key, value in before.items():
        if out.get(key) in (None, "", [], {}):
            out[key] = value
    if out.get("failed_why") and out.get("state") != UNKNOWN:
        out["state"] = "failed"
    out["note"] = "; ".join(dict.fromkeys(n for n in (str(before.get("note") or ""), str(now.get("note") or "")) if n))
    lows: dict[str, int] = {}
    for row in (before.get("min_available_by_node"), now.get("min_available_by_node")):
        for node, value in row.items() if isinstance(row, Mapping) else ():
            if isinstance(value, int) and value < lows.get(node, value + 1):
                lows[node] = value
    out["min_available_by_node"] = lows
    both = [v for v in (before.get("min_available_bytes"), now.get("min_available_bytes")) if isinstance(v, int)]
    out["min_available_bytes"] = min(both) if both else None
    return out
