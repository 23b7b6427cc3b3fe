"""Memory guards as a node tells of them, made into values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from console.base.absent import NOT_SAMPLED, Absent
from console.base.text import clean_line
from console.telemetry.pick import count, count_or, number, number_or, rows, text, whole_or
from console.telemetry.sample import Guard, GuardTrip, Sample

# Labels of a rank's container, as `console.plan.model` names them.
DEPLOYMENT: Final = "nightdeck.deployment"
GUARD: Final = "nightdeck.guard"
_NOT_TOLD: Final = "the guard does not say"


def guards(group: Mapping[str, Any]) -> tuple[Guard, ...] | Absent:
    """The group of a frame; guards that ended are there too, with what they did."""
    if why := text(group.get("why")):
        return Absent(why)
    if "rows" not in group:
        return NOT_SAMPLED
    found = [guard(row) for row in rows(group) if isinstance(row, dict)]
    return tuple(g for g in found if g is not None)


def guard(row: Mapping[str, Any]) -> Guard | None:
    """One guard, None for what names no deployment and rank."""
    deployment, rank = text(row.get("deployment"), limit=200), count(row.get("rank"))
    if not deployment or rank is None:
        return None
    tripped = row.get("tripped")
    return Guard(
        deployment=deployment,
        rank=rank,
        running=row.get("running") is True,
        since=number_or(row.get("since"), _NOT_TOLD),
        at=number_or(row.get("at"), _NOT_TOLD),
        stage=text(row.get("stage"), limit=20),
        stage_why=text(row.get("stage_why"), limit=200),
        floor_bytes=count_or(row.get("floor_bytes"), _NOT_TOLD),
        available_bytes=count_or(row.get("available_bytes"), _NOT_TOLD),
        lowest_bytes=count_or(row.get("lowest_bytes"), _NOT_TOLD),
        oom_score_adj=whole_or(row.get("oom_score_adj"), _NOT_TOLD),
        locked=row.get("locked") is True,
        why=text(row.get("why"), limit=300),
        ended=text(row.get("ended"), limit=200),
        how=text(row.get("how"), limit=200),
        trip=_trip(tripped) if isinstance(tripped, dict) else None,
    )


def _trip(row: Mapping[str, Any]) -> GuardTrip | None:
    at, floor, available = number(row.get("at")), count(row.get("floor_bytes")), count(row.get("available_bytes"))
    if at is None or floor is None or available is None:
        return None
    history = []
    for pair in rows(row, "history")[-512:]:
        if isinstance(pair, list) and len(pair) == 2:
            when, value = number(pair[0]), count(pair[1])
            if when is not None and value is not None:
                history.append((when, value))
    return GuardTrip(
        at=at,
        stage=text(row.get("stage"), limit=20),
        floor_bytes=floor,
        available_bytes=available,
        killed_by=text(row.get("killed_by"), limit=20),
        tried=tuple(text(t, limit=200) for t in rows(row, "tried")[:4] if isinstance(t, str)),
        history=tuple(history),
        took_s=number_or(row.get("took_s"), _NOT_TOLD),
    )


def read_answer(data: bytes) -> Any:
    """The line that the guard's program prints: any JSON value, or None with no such line. Never raises."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def started(data: bytes) -> Guard | Absent:
    """What `start` answered: the guard that runs now, or why there is none."""
    answer = read_answer(data)
    if not isinstance(answer, dict):
        return Absent("the guard's program gave no answer")
    if answer.get("running") is not True:
        return Absent(clean_line(text(answer.get("why")) or "the guard does not run", limit=300))
    return guard(answer) or Absent("the guard's program gave no answer")


def unwanted(sample: Sample, deployment: str) -> bool:
    """Whether a deployment's containers on this node say that their recipe wants no guard."""
    found = () if isinstance(sample.containers, Absent) else sample.containers.rows
    mine = (row.labels for row in found if row.labels.get(DEPLOYMENT) == deployment)
    return any(labels.get(GUARD) == "off" for labels in mine)
