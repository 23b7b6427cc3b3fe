"""Asking every node what of ours is on it: the truth about deployments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from console.base.absent import Absent
from console.base.containers import ENDED
from console.base.text import clean_bytes, clean_line
from console.cluster.model import Cluster
from console.plan.model import (
    LABEL_BOOT,
    LABEL_DEADLINE,
    LABEL_DEPLOYMENT,
    LABEL_DIGEST,
    LABEL_HEAD,
    LABEL_JUDGE,
    LABEL_LAUNCHED,
    LABEL_PORT,
    LABEL_RANK,
    LABEL_RECIPE,
    LABEL_SERVED,
    LABEL_TITLE,
    LABEL_WORLD,
)
from console.services.scripts import census_argv
from console.transport.base import Completed, Fleet, Link, TransportError


@dataclass(frozen=True, slots=True)
class Found:
    """One container of ours on a node. Labels are hostile: what does not parse is None. Times are epoch seconds.

    status: the engine's word; exit_code is None while it runs. state: the engine's own State object, for evidence."""

    node: str
    id: str
    name: str
    status: str
    deployment: str
    recipe: str = ""
    title: str = ""
    digest: str = ""
    boot: int | None = None
    rank: int | None = None
    world: int | None = None
    head: str = ""
    port: int | None = None
    served: str = ""
    deadline_s: float | None = None
    judge: bool = True
    launched_at: float | None = None
    exit_code: int | None = None
    oom_killed: bool | None = None
    started_at: float | None = None
    finished_at: float | None = None
    error: str = ""
    image_id: str = ""
    state: Mapping[str, Any] | None = None

    @property
    def alive(self) -> bool:
        return self.status not in ENDED


Census = Mapping[str, tuple[Found, ...] | Absent]


# What of ours a node's probe says is there, as inspected; None where it cannot say.
Quick = Callable[[str], Awaitable[list[Any] | None]]


async def take_census(
    fleet: Fleet,
    cluster: Cluster,
    *,
    nodes: Iterable[str] | None = None,
    timeout: float = 15.0,
    quick: Quick | None = None,
) -> dict[str, tuple[Found, ...] | Absent]:
    """What of ours is on each node, asked in parallel; a node that did not answer is Absent with the reason.

    quick: asked first, the engine's command line where that cannot say."""
    names = list(nodes) if nodes is not None else [n.name for n in cluster.nodes]
    answers = await asyncio.gather(*(_ask(fleet.link(name), cluster, name, timeout, quick) for name in names))
    return dict(zip(names, answers, strict=True))


async def _ask(
    link: Link, cluster: Cluster, name: str, timeout: float, quick: Quick | None
) -> tuple[Found, ...] | Absent:
    rows = await quick(name) if quick is not None else None
    if rows is not None:
        return found_in(name, rows)
    node = cluster.node(name)
    cli = node.container_cli if node is not None else "docker"
    try:
        done = await link.run(census_argv(cli), timeout=timeout, limit=32 << 20)
    except TransportError as error:
        return Absent(error.what)
    return read_census(name, done)


def read_census(node: str, done: Completed) -> tuple[Found, ...] | Absent:
    """The census command's answer. A container that vanished between listing and inspection is simply not there."""
    rows = _json_rows(done.stdout)
    if rows is None or (not done.ok and b"o such" not in done.stderr):
        said = clean_bytes(done.stderr.strip().split(b"\n")[-1], limit=300)
        return Absent(said or f"the container engine answered with exit status {done.status}")
    return found_in(node, rows)


def found_in(node: str, rows: Iterable[Any]) -> tuple[Found, ...]:
    """Containers as an engine inspects them."""
    return tuple(f for f in (_found(node, row) for row in rows) if f is not None)


def _json_rows(data: bytes) -> list[Any] | None:
    try:
        rows = json.loads(data.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return None
    return rows if isinstance(rows, list) else None


def _found(node: str, row: Any) -> Found | None:
    if not isinstance(row, dict) or not isinstance(row.get("Id"), str):
        return None
    state = _table(row, "State")
    labels = _table(_table(row, "Config"), "Labels")

    def label(name: str) -> str:
        value = labels.get(name)
        return clean_line(value, limit=300) if isinstance(value, str) else ""

    status = state.get("Status")
    if not isinstance(status, str):
        status = "running" if state.get("Running") is True else "unknown"
    code = state.get("ExitCode")
    oom = state.get("OOMKilled")
    ended = status in ENDED
    return Found(
        node=node,
        id=clean_line(row["Id"], limit=100),
        name=clean_line(str(row.get("Name", "")).lstrip("/"), limit=200),
        status=clean_line(status, limit=40),
        deployment=label(LABEL_DEPLOYMENT),
        recipe=label(LABEL_RECIPE),
        title=label(LABEL_TITLE),
        digest=label(LABEL_DIGEST),
        boot=_int(label(LABEL_BOOT)),
        rank=_int(label(LABEL_RANK)),
        world=_int(label(LABEL_WORLD)),
        head=label(LABEL_HEAD),
        port=_port(label(LABEL_PORT)),
        served=label(LABEL_SERVED),
        deadline_s=_float(label(LABEL_DEADLINE)),
        judge=label(LABEL_JUDGE) != "off",
        launched_at=_float(label(LABEL_LAUNCHED)),
        exit_code=code if ended and isinstance(code, int) else None,
        oom_killed=oom if isinstance(oom, bool) else None,
        started_at=epoch(state.get("StartedAt")),
        finished_at=epoch(state.get("FinishedAt")) if ended else None,
        error=clean_line(str(state.get("Error") or ""), limit=500),
        image_id=clean_line(str(row.get("Image") or ""), limit=100),
        state=state,
    )


def _table(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = row.get(key)
    return value if isinstance(value, dict) else {}


def _int(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _port(text: str) -> int | None:
    value = _int(text)
    return value if value is not None and 0 < value < 65536 else None


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e11 else None


def epoch(text: object) -> float | None:
    """RFC 3339 with up to nine digits of a second, as engines write it; None for the zero time and for nonsense."""
    if not isinstance(text, str) or text.startswith("0001-") or len(text) > 64:
        return None
    head, dot, rest = text.partition(".")
    if dot:
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        text = f"{head}.{digits[:6]}{rest[len(digits) :]}"
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None
