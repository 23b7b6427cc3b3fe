"""The container group of a frame as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.base.absent import Absent
from console.base.containers import ENDED
from console.telemetry.pick import (
    amount_or,
    count,
    count_or,
    number_or,
    rate,
    rows,
    table,
    text,
    text_or,
    whole,
    whole_or,
)
from console.telemetry.sample import Container, ContainerEvent, Containers, Float, Int

_NO_USAGE = Absent("not running, or not readable by this user")
_NOT_TOLD = Absent("not told")


def containers(
    group: Mapping[str, Any], now: float, before: Containers | Absent, seconds: float
) -> Containers | Absent:
    """`before` and `seconds`: the rows last seen and the time between the two readings, for rates."""
    why = text(group.get("why"))
    taken = number_or(group.get("t"), "never read")
    if isinstance(taken, Absent) and not rows(group, "events"):
        return Absent(why or "the container engine was not asked yet")
    known = {} if isinstance(before, Absent) else {c.id: c for c in before.rows}
    found = [_container(r, known, seconds) for r in rows(group) if isinstance(r, dict) and text(r.get("id"))]
    return Containers(
        rows=tuple(found),
        how=text(group.get("how")),
        why=why,
        age_s=0.0 if isinstance(taken, Absent) else max(0.0, now - taken),
        events=tuple(e for e in (_event(r) for r in rows(group, "events")) if e is not None),
    )


def _container(row: Mapping[str, Any], known: Mapping[str, Container], seconds: float) -> Container:
    ident = text(row.get("id"), limit=128)
    before = known.get(ident)
    state = text_or(row.get("state"), "the engine does not say")
    ended = isinstance(state, str) and state in ENDED
    cpu: Float = amount_or(row["cpu_s"], "not a number") if "cpu_s" in row else _NO_USAGE
    io: Int = count_or(row["io"], "not a number") if "io" in row else _NO_USAGE
    oom = row.get("oom")
    cpu_rate = _share(before.cpu_s if before else None, cpu, seconds)
    return Container(
        id=ident,
        name=text(row.get("name"), limit=128) or ident[:12],
        image=text_or(row.get("image"), "the engine does not say"),
        state=state,
        labels={text(k): text(v) for k, v in table(row, "labels").items() if isinstance(v, str)},
        # The engine writes 0 while a container runs: an exit code is only there once it ended.
        exit_code=whole_or(row.get("exit_code"), "the engine does not say") if ended else Absent(f"it is {state}"),
        oom_killed=oom if isinstance(oom, bool) else Absent("the engine does not say"),
        pid=count(row.get("pid")) or Absent("no process"),
        started_at=_moment(row.get("started")),
        finished_at=_moment(row.get("finished")) if ended else Absent(f"it is {state}"),
        error=text_or(row.get("error"), "none"),
        restarts=count_or(row.get("restarts"), "the engine does not say"),
        cpu_s=cpu,
        cpu_percent=cpu_rate,
        io_bytes=io,
        io_bytes_s=rate(before.io_bytes if before else None, io, seconds),
        mem_bytes=count_or(row["mem"], "not a number") if "mem" in row else _NO_USAGE,
    )


def _share(before: Float | None, now: Float, seconds: float) -> Float:
    """CPU seconds per second, in percent of one core."""
    if isinstance(now, Absent):
        return now
    if before is None or isinstance(before, Absent) or seconds <= 0:
        return Absent("a rate needs two samples")
    return Absent("the counter went back") if now < before else 100.0 * (now - before) / seconds


def _moment(value: object) -> str | Absent:
    """An RFC 3339 stamp; engines write the year 1 where there is none."""
    stamp = text(value, limit=64)
    return stamp if stamp and not stamp.startswith("0001-") else Absent("not yet")


def _event(row: object) -> ContainerEvent | None:
    if not isinstance(row, dict):
        return None
    serial, action = whole(row.get("n")), text(row.get("action"), limit=32)
    if serial is None or not action:
        return None
    code = whole_or(row.get("exit_code"), "not told") if row.get("exit_code") is not None else _NOT_TOLD
    at = number_or(row.get("at"), "not told")
    return ContainerEvent(serial, action, text(row.get("id"), limit=128), text(row.get("name"), limit=128), code, at)
