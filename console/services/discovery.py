"""From what a census found to deployments: what lives, what ended, and what each says of itself."""

from __future__ import annotations

from collections.abc import Sequence

from console.boot.events import BootOpened, Event, RankRef
from console.boot.reduce import opened, reduce_all
from console.boot.state import BootState
from console.services.census import Census, Found

# A world that a label claims is taken only where it is believable: a hostile label must not make a million rows.
LARGEST_WORLD = 1024


def by_deployment(census: Census) -> dict[str, list[Found]]:
    """Containers by deployment, the one launched last at the end."""
    groups: dict[str, list[Found]] = {}
    for rows in census.values():
        if isinstance(rows, tuple):
            for row in rows:
                groups.setdefault(row.deployment, []).append(row)
    return dict(sorted(groups.items(), key=lambda item: _launched(item[1])))


def _launched(rows: Sequence[Found]) -> float:
    return max((r.launched_at or r.started_at or 0.0) for r in rows)


def open_found(rows: Sequence[Found], *, now: float) -> BootOpened | None:
    """What a deployment that was found says of itself; None for containers whose labels tell no rank.

    A rank of the labels' world that no node showed has no node yet: the next census or probe may bring it."""
    by_rank = {r.rank: r for r in rows if r.rank is not None and r.rank < LARGEST_WORLD}
    if not by_rank:
        return None
    first = by_rank[min(by_rank)]
    world = max((r.world or 0) for r in by_rank.values())
    numbers = sorted({*by_rank, *range(world if world <= LARGEST_WORLD else 0)})
    refs = tuple(
        RankRef(n, by_rank[n].node if n in by_rank else "", by_rank[n].name if n in by_rank else "") for n in numbers
    )
    started = [r.started_at for r in by_rank.values() if r.started_at is not None]
    launched = first.launched_at or (min(started) if started else now)
    return BootOpened(
        at=now,
        deployment=first.deployment,
        number=first.boot or 0,
        recipe=first.recipe,
        title=first.title or first.recipe,
        digest=first.digest,
        head_node=by_rank[0].node if 0 in by_rank else first.head,
        ranks=refs,
        launched_at=min(launched, now),
        deadline_s=first.deadline_s or 1800.0,
        port=first.port or 8000,
        served_name=first.served,
        judge=first.judge,
        adopted=True,
    )


def remembered(event: BootOpened, past: Sequence[Event]) -> BootState:
    """An adopted boot as its journal tells it: the earlier adoptions in it begin nothing anew."""
    return reduce_all(opened(event), (e for e in past if not (isinstance(e, BootOpened) and e.adopted)))
