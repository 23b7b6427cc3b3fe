"""What nodes say of a rank's container, by a probe or by a census, as an event."""

from __future__ import annotations

from console.base.absent import Absent
from console.boot.events import ContainerSeen
from console.boot.state import GONE
from console.services.census import Found, epoch
from console.telemetry.sample import Container, Containers


def seen_of(rank: int, row: Container, node: str, at: float) -> ContainerSeen:
    """Of a probe's row, whose state is known. at: epoch s."""
    state = row.state if isinstance(row.state, str) else ""
    return ContainerSeen(
        at,
        rank,
        state,
        row.exit_code if state in GONE and isinstance(row.exit_code, int) else None,
        row.oom_killed if isinstance(row.oom_killed, bool) else None,
        epoch(row.started_at),
        epoch(row.finished_at),
        row.error if isinstance(row.error, str) else "",
        node,
        row.name,
    )


def seen_of_found(row: Found, rank: int, at: float) -> ContainerSeen:
    """Of a census's row. at: epoch s."""
    return ContainerSeen(
        at,
        rank,
        row.status,
        row.exit_code,
        row.oom_killed,
        row.started_at,
        row.finished_at,
        row.error,
        row.node,
        row.name,
    )


def taken_at(answer: Containers, name: str) -> float | None:
    """When a container ended that is not there any more, as its engine told it (epoch s, the node's clock)."""
    told = {e.action: e.at for e in answer.events if e.name == name and not isinstance(e.at, Absent)}
    return next((told[a] for a in ("die", "kill", "destroy") if a in told), None)


def ended_now(row: Container | None) -> bool:
    return row is None or (isinstance(row.state, str) and row.state in GONE)
