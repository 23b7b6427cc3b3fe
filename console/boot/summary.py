"""A boot as a row of the ledger, and what an earlier console knew of it that this one cannot know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from console.boot.figures import UNSEEN_S, ready_by, ready_seconds
from console.boot.state import BootState
from console.boot.to_json import cause_json
from console.boot.windows import Windows
from console.enginelog.stages_model import Stage

UNKNOWN: Final = "unknown"
# What the first console that saw it ready measured; one that found it later asks again, and measures something else.
_FIRST: Final = ("ready_s", "ready_by", "tokens_per_s", "first_token_s")
GONE_WHY: Final = "unknown: console ended, containers gone"


def summary_of(
    state: BootState, lowest: int | None, windows: Windows | None = None, cluster: str = ""
) -> dict[str, Any]:
    """boot.json. lowest: bytes of available memory, of all nodes; windows: what this console saw of it; cluster: the
    cluster file's name."""
    seen = windows if windows is not None else Windows()
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
        "ready_s": ready_seconds(state),
        "ready_by": ready_by(state) or None,
        "stages": stage_seconds(state),
        "min_available_bytes": lowest,
        "min_available_by_node": dict(seen.lowest),
        "memory_from": seen.first_at,
        "memory_until": seen.last_at,
        "memory_unseen_s": seen.unseen_s,
        "tokens_per_s": state.tokens_per_s,
        "first_token_s": state.first_token_s,
        "stats": dict(state.stats),
        "smoke_text": state.smoke_text or None,
        "note": "; ".join(state.notes),
    }


def stage_seconds(state: BootState) -> dict[str, float]:
    """Seconds that the slowest rank spent in each stage, by the engine's own stamps."""
    out: dict[str, float] = {}
    for rank in state.ranks:
        for cell in rank.cells:
            if cell.stage is Stage.CONTAINER:
                continue  # from its start to its end is the boot as a whole, beside its stages
            if cell.at is not None and cell.until is not None and cell.until >= cell.at:
                out[cell.stage.word] = max(out.get(cell.stage.word, 0.0), round(cell.until - cell.at, 3))
    return out


def merged(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """`now`, with what only the console before knew: what changed, when it was ready, notes, and the lowest memory."""
    out = dict(now)
    for key in (*_FIRST, "changed", "digest", "cluster", "nodes", "title"):
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
    out |= _seen(before, now)
    both = [v for v in (before.get("min_available_bytes"), now.get("min_available_bytes")) if isinstance(v, int)]
    out["min_available_bytes"] = min(both) if both else None
    return out


def _seen(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """From when, until when, and with how long a gap several consoles looked one after the other."""
    keys = ("memory_from", "memory_until", "memory_unseen_s")
    rows = [[_time(row, key) for key in keys] for row in (before, now)]
    spans = [(first, last, unseen or 0.0) for first, last, unseen in rows if first is not None and last is not None]
    if not spans:
        return {"memory_from": None, "memory_until": None, "memory_unseen_s": 0.0}
    gap = max(0.0, spans[-1][0] - spans[0][1]) if len(spans) == 2 else 0.0
    unseen = sum(s[2] for s in spans) + (gap if gap >= UNSEEN_S else 0.0)
    return {
        "memory_from": min(s[0] for s in spans),
        "memory_until": max(s[1] for s in spans),
        "memory_unseen_s": round(unseen, 1),
    }


def _time(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
