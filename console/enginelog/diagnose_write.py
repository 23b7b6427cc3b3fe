"""Evidence into states.json: what `diagnose_states` reads back, so that a boot's folder tells what its board told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from console.base.absent import Absent
from console.enginelog.evidence import Answer, ContainerState, Evidence, RankEvidence

_MAX_PIDS: Final = 1000


def write_states(evidence: Evidence, containers: Mapping[int, str]) -> dict[str, Any]:
    """containers: the names of the ranks' containers. Logs are no part of it: they lie beside it."""
    out: dict[str, Any] = {
        "observed_at": _stamp(evidence.observed_at),
        "launched_at": _stamp(evidence.launched_at),
        "stop_at": _stamp(evidence.stop_at),
        "deadline_passed": evidence.deadline_passed,
        "stall_signs": list(evidence.stall_signs),
        "world_size": evidence.world_size,
        "health": _answer(evidence.health),
        "request": _answer(evidence.request),
        "ranks": {
            str(where.rank): _rank(where, containers.get(where.rank))
            for where in evidence.ranks
            if where.rank is not None
        },
    }
    if evidence.garbage:
        out["request"] = {**(out["request"] or {}), "garbage": evidence.garbage}
    return out


def _rank(where: RankEvidence, name: str | None) -> dict[str, Any]:
    out: dict[str, Any] = {"node": where.node, "reachable": where.reachable}
    if where.trouble:
        out["trouble"] = where.trouble
    if not isinstance(where.container, Absent):
        # Without a word of it there is no key: null says that the node's engine has none.
        out["container"] = None if where.container is None else name
        out["state"] = None if where.container is None else _container(where.container)
    if where.launch is not None:
        launch = where.launch
        out["launch"] = {"at": _stamp(launch.at), "rc": launch.rc, "output": launch.output}
    if where.addresses:
        out["addresses"] = list(where.addresses)
    if where.clock_offset_s:
        out["clock_offset_s"] = round(where.clock_offset_s, 3)
    if where.available_low_bytes is not None:
        out["available_low_bytes"] = where.available_low_bytes
        out["available_low_at"] = _stamp(where.available_low_at)
        if where.memory_fell_bytes_s is not None:
            out["memory_fell_bytes_s"] = round(where.memory_fell_bytes_s)
    if where.guard:
        out["guard"] = where.guard
    for key in ("rebooted", "low_power", "clock_latched", "fragmented"):
        if getattr(where, key):
            out[key] = True
    for key in ("rebooted_at", "last_alive_at", "removed_at"):
        if getattr(where, key) is not None:
            out[key] = _stamp(getattr(where, key))
    if where.removed:
        out["removed"] = True
    if where.fell_before_stop is not None:
        out["fell_before_stop"] = where.fell_before_stop
    if where.kernel:
        out["kernel"] = list(where.kernel)
        if where.container_id:
            out["container_id"] = where.container_id
        if where.pids:
            out["pids"] = sorted(where.pids)[:_MAX_PIDS]
    return out


def _container(box: ContainerState) -> dict[str, Any]:
    """As the container engine's own State object has it."""
    return {
        "Status": box.status,
        "ExitCode": box.exit_code,
        "OOMKilled": box.oom_killed,
        "Error": box.error,
        "StartedAt": _stamp(box.started_at),
        "FinishedAt": _stamp(box.finished_at),
    }


def _answer(answer: Answer | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    out: dict[str, Any] = {"ok": answer.ok, "status": answer.status, "seconds": answer.seconds}
    return {**out, "error": answer.error or None, "text": answer.text or None}


def _stamp(moment: float | None) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
