"""states.json of a folder of evidence: what the nodes' engines and the head's API said, whatever its shape."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from console.base.absent import Absent
from console.base.secrets import mask_text
from console.base.text import clean_line
from console.enginelog.evidence import NOT_ASKED, Answer, ContainerState, Evidence, LaunchResult, RankEvidence

_MAX_RANKS: Final = 4096
_OUTPUT: Final = 20_000
_LAST_MOMENT: Final = 253_402_300_800.0  # the year 10000
# Docker's zero time: it has not happened.
_NEVER: Final = "0001-"
_ERRORS: Final = ("error", "why", "exception", "reason")


def read_states(states: Mapping[str, Any]) -> Evidence:
    """Never raises: what cannot be read is not known."""
    ranks = []
    table = states.get("ranks")
    entries = table.items() if isinstance(table, Mapping) else _numbered(table)
    for key, value in list(entries)[:_MAX_RANKS]:
        rank = _whole(key)
        if rank is not None and isinstance(value, Mapping):
            ranks.append(_rank(rank, value))
    garbage = ""
    request = _answer(states.get("request"))
    body = states.get("request")
    if isinstance(body, Mapping) and isinstance(body.get("garbage"), str):
        garbage = clean_line(body["garbage"], limit=200)
    return Evidence(
        tuple(sorted(ranks, key=lambda r: r.rank if r.rank is not None else -1)),
        world_size=_whole(states.get("world_size")),
        observed_at=_moment(states.get("observed_at")),
        launched_at=_moment(states.get("launched_at")),
        health=_answer(states.get("health")),
        request=request,
        stop_at=_moment(states.get("stop_at") or states.get("stopped_at")),
        stall_signs=_texts(states.get("stall_signs")),
        deadline_passed=states.get("deadline_passed") is True,
        garbage=garbage,
    )


def _numbered(table: object) -> list[tuple[Any, Any]]:
    if not isinstance(table, list):
        return []
    return [(v.get("rank", i) if isinstance(v, Mapping) else i, v) for i, v in enumerate(table)]


def _rank(rank: int, value: Mapping[str, Any]) -> RankEvidence:
    reachable = value.get("reachable")
    state = value.get("state")
    container: ContainerState | Absent | None = NOT_ASKED
    if isinstance(state, Mapping) and state:
        container = _container(state)
    elif isinstance(state, str) and state:
        container = ContainerState(state.lower(), _whole(value.get("exit_code")))
    elif "container" in value and value["container"] is None and reachable is not False:
        container = None
    trouble = next((str(value[k]) for k in ("trouble", "error", "why") if value.get(k)), "")
    addresses = value.get("addresses") or value.get("address") or ()
    if isinstance(addresses, str):
        addresses = (addresses,)
    return RankEvidence(
        rank,
        _words(value.get("node"), 120),
        container=container,
        launch=_launch(value.get("launch")),
        reachable=reachable if isinstance(reachable, bool) else None,
        trouble=_words(trouble, 400),
        available_low_bytes=_whole(value.get("available_low_bytes")),
        available_low_at=_moment(value.get("available_low_at")),
        memory_fell_bytes_s=_number(value.get("memory_fell_bytes_s")),
        rebooted=value.get("rebooted") is True,
        low_power=value.get("low_power") is True,
        clock_latched=value.get("clock_latched") is True,
        fragmented=value.get("fragmented") is True,
        kernel=_texts(value.get("kernel")),
        guard=_words(value.get("guard"), 500),
        addresses=_texts(addresses),
        clock_offset_s=_number(value.get("clock_offset_s")) or 0.0,
        container_id=_words(value.get("container_id"), 128),
        pids=_pids(value.get("pids")),
        fell_before_stop=before if isinstance(before := value.get("fell_before_stop"), bool) else None,
        removed=value.get("removed") is True,
        removed_at=_moment(value.get("removed_at")),
        rebooted_at=_moment(value.get("rebooted_at")),
        last_alive_at=_moment(value.get("last_alive_at")),
    )


def _container(state: Mapping[str, Any]) -> ContainerState:
    """Docker's State object: Status, Running, Paused, ExitCode, OOMKilled, Error, StartedAt, FinishedAt."""
    status = _words(state.get("Status") or state.get("status"), 40).lower()
    if state.get("Paused") is True:
        status = "paused"
    if not status:
        status = "running" if state.get("Running") is True else "exited" if state.get("Running") is False else "unknown"
    code = _whole(state.get("ExitCode", state.get("exit_code")))
    oom = state.get("OOMKilled", state.get("oom_killed"))
    return ContainerState(
        status,
        None if status in ("running", "paused") else code,
        oom if isinstance(oom, bool) else None,
        _words(state.get("Error") or state.get("error"), 2000),
        _moment(state.get("StartedAt") or state.get("started_at")),
        _moment(state.get("FinishedAt") or state.get("finished_at")) if status not in ("running", "paused") else None,
    )


def _launch(value: object) -> LaunchResult | None:
    if not isinstance(value, Mapping):
        return None
    output = value.get("output")
    text = output if isinstance(output, str) else ""
    return LaunchResult(_whole(value.get("rc")), mask_text(text[-_OUTPUT:]), _moment(value.get("at")))


def _answer(value: object) -> Answer | None:
    if value is None or value == {}:
        return None
    if isinstance(value, bool):
        return Answer(value)
    if isinstance(value, (int, float)):
        number = _number(value)
        return Answer(value == 200, None if number is None else int(number))
    if isinstance(value, str):
        good = value.strip() in ("200", "ok", "OK", "healthy", "200 OK")
        return Answer(good, error="" if good else _words(value, 400))
    if not isinstance(value, Mapping):
        return None
    status = _whole(value.get("status", value.get("code", value.get("http"))))
    error = next((_words(value[k], 400) for k in _ERRORS if value.get(k)), "")
    ok = value.get("ok")
    if not isinstance(ok, bool):
        word = value.get("state")
        if status is not None:
            ok = 200 <= status < 300 and not error
        elif isinstance(word, str):
            ok = True if word == "healthy" else None if word in ("", "closed", "starting") else False
        else:
            ok = False if error else None
    if ok is None and not error:
        return None
    text = _words(value.get("text", value.get("body")), 400)
    return Answer(ok, status, _number(value.get("seconds", value.get("s"))), error, text)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(_words(line, 500) for line in value[:2000] if isinstance(line, str))


def _pids(value: object) -> frozenset[int]:
    rows = value[:1000] if isinstance(value, list) else ()
    return frozenset(p for row in rows if (p := _whole(row)) is not None)


def _words(value: object, limit: int) -> str:
    return mask_text(clean_line(value, limit=limit)) if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 1 << 62 else None
    if isinstance(value, str) and len(value) < 19 and value.lstrip("-").isdecimal():
        return int(value)
    return None


def _number(value: object) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e12:
        return float(value)
    return None


def _moment(value: object) -> float | None:
    """Epoch seconds of a number or of RFC 3339 text; None for docker's zero time and for what is neither."""
    number = _number(value)
    if number is not None:
        return number if 0 < number < _LAST_MOMENT else None
    if not isinstance(value, str) or value.startswith(_NEVER):
        return None
    text = value.strip()
    head, dot, rest = text.partition(".")
    if dot:
        digits = len(rest) - len(rest.lstrip("0123456789"))
        text = f"{head}.{rest[:digits][:6].ljust(6, '0')}{rest[digits:]}"
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.timestamp()
    except (OverflowError, ValueError, OSError):
        return None
