"""A deployment as `status` prints it: fields are added, never renamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

from console.base.absent import Absent
from console.boot.awaited import awaited
from console.boot.events import Cause, Event
from console.boot.figures import elapsed_seconds, ready_by, ready_seconds
from console.boot.state import BootState, RankState
from console.boot.words import stage_now
from console.enginelog.causes_model import cause_row

SCHEMA = 1
LAST_MOMENT: Final = 253_402_300_800.0  # the year 10000: no date is written of what a broken clock says beyond it


def stamp(at: float | None) -> str | None:
    """Epoch seconds as RFC 3339 in UTC, to the millisecond."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def cause_json(cause: Cause | None) -> dict[str, Any] | None:
    return None if cause is None else {**cause_row(cause), "at": stamp(cause.at)}


def rank_json(state: BootState, rank: RankState, now: float) -> dict[str, Any]:
    """One rank. state: the container's status; `unknown` with `state_why` where its node does not answer.
    stage_inferred: the stage is concluded from the whole, not said by this rank's log."""
    stage, since, inferred = stage_now(state, rank)
    known_state = rank.status if rank.reachable else None
    why = rank.trouble if not rank.reachable else ("not seen yet" if rank.status is None else None)
    return {
        "rank": rank.rank,
        "node": rank.node or None,
        "container": rank.container or None,
        "state": known_state or "unknown",
        "state_why": why,
        "last_state": rank.status,
        "exit_code": rank.exit_code,
        "oom_killed": rank.oom_killed,
        "stage": stage.word if stage is not None else None,
        "stage_inferred": inferred,
        "progress": rank.progress if stage is rank.stage else None,
        "stage_s": _since(since, now),
        "last_log_age_s": _since(rank.last_line_at, now),
        "lines": rank.lines,
        "numbers": plain(rank.numbers),
        "cells": [
            {
                "stage": c.stage.word,
                "state": str(c.state),
                "progress": c.progress,
                "detail": c.detail,
                "inferred": c.inferred,
                "at": stamp(c.at),
            }
            for c in rank.cells
        ],
    }


def deployment_json(state: BootState, now: float, api_host: str = "") -> dict[str, Any]:
    """One deployment; `now` is epoch seconds. Times that end in `_s` count from the launch where they are moments."""
    host = api_host or state.head_node
    return {
        "boot": state.number,
        "deployment": state.deployment,
        "recipe": state.recipe,
        "title": state.title,
        "digest": state.digest,
        "state": str(state.phase),
        "adopted": state.adopted,
        "started_at": stamp(state.launched_at),
        "elapsed_s": round(elapsed_seconds(state, now), 3),
        "ready_s": ready_seconds(state),
        "ready_by": ready_by(state) or None,
        "deadline_s": state.deadline_s,
        "deadline_passed": now > state.deadline_at and state.ready_at is None,
        "eta_s": None if state.eta_at is None else round(state.eta_at - state.launched_at, 3),
        "eta_s_why": (state.eta_why or "not known") if state.eta_at is None else None,
        "eta_low_s": None if state.eta_low_at is None else round(state.eta_low_at - state.launched_at, 3),
        "eta_high_s": None if state.eta_high_at is None else round(state.eta_high_at - state.launched_at, 3),
        "eta_in_time": state.eta_in_time,
        "api": f"http://{host}:{state.port}",
        "api_state": state.api or None,
        "api_detail": state.api_detail or None,
        "served_name": state.served_name,
        "smoke": None
        if state.smoke_ok is None
        else {
            "ok": state.smoke_ok,
            "text": state.smoke_text,
            "why": state.smoke_why or None,
            "first_token_s": state.first_token_s,
            "tokens_per_s": state.tokens_per_s,
            "notes": list(state.smoke_notes),
        },
        "stats": dict(state.stats),
        "stats_at": stamp(state.stats_at),
        "stats_why": state.stats_why,
        "stall_signs": list(state.stall_signs),
        "awaited": awaited_json(state, now),
        "cause": cause_json(state.cause),
        "others": [cause_json(c) for c in state.others],
        "failed_why": state.failed_why or None,
        "failed_rank": state.failed_rank,
        "failed_node": state.failed_node,
        "stop_result": state.stop_result,
        "steps": [{"name": s.name, "states": dict(s.states), "details": dict(s.details)} for s in state.steps],
        "ranks": [rank_json(state, r, now) for r in state.ranks],
        "notes": list(state.notes),
    }


def awaited_json(state: BootState, now: float) -> dict[str, Any] | None:
    """Who has not come to the rendezvous in which others wait; null where nobody waits."""
    found = awaited(state, now)
    if found is None:
        return None
    rows = [{"rank": m.rank, "node": m.node, "why": m.why} for m in found.missing]
    return {"came": list(found.came), "of": found.of, "waited_s": round(found.waited_s, 3), "missing": rows}


def event_json(event: Event) -> dict[str, Any]:
    """An event as one JSON object: its kind, its time, and its fields."""
    body = {f.name: plain(getattr(event, f.name)) for f in fields(event) if f.name != "at"}
    return {"event": _kind(event), "at": stamp(event.at), **body}


def _kind(event: Event) -> str:
    name = type(event).__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def plain(value: Any) -> Any:
    """Values as JSON has them; an absent value is null."""
    if isinstance(value, Absent):
        return None
    if isinstance(value, Enum):
        return value.name.lower().replace("_", " ") if isinstance(value, int) else str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    return value


def _since(at: float | None, now: float) -> float | None:
    return None if at is None else round(max(0.0, now - at), 3)
