"""The memory guard of a rank as a board shows it: on, off, fired, or none known; with its floor. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from console.base.absent import Absent, known
from console.boot.state import BootState, RankState
from console.services.hub import NodeView, Snapshot
from console.telemetry.guard_rows import unwanted
from console.telemetry.sample import Guard
from console.tui.figures import gib
from console.tui.glyphs import Glyphs
from console.tui.spans import Span, safe

GUARD_STANDS_S: Final = 30.0  # as long as an alarm waits for one


@dataclass(frozen=True, slots=True)
class GuardView:
    """state: `on`, `off` (it ended, or runs and cannot do its work), `over`
    (with its container, as it should), `fired`, `absent` (the node says that there is
    none), `unknown` (nothing is known: no sample, or one that does not tell). words: the whole of it."""

    state: str
    floor: str = ""
    words: str = ""

    def cell(self, glyphs: Glyphs) -> Span:
        """Five cells: a sign, and the floor in GiB or a word."""
        return {
            "on": (f"{glyphs.fresh} {self.floor}", "ok"),
            "off": (f"{glyphs.warn} off", "warn bold"),
            "over": (f"{glyphs.skipped} off", "dim"),
            "fired": (f"{glyphs.failed} hit", "bad bold"),
            "absent": (f"{glyphs.skipped} no", "warn"),
        }.get(self.state, (glyphs.unknown, "dim"))


def guard_words(guard: Guard) -> tuple[str, str]:
    """(words, role): what the memory guard of a rank does now."""
    if guard.trip is not None:
        trip = guard.trip
        how = f"by {trip.killed_by}" if trip.killed_by else "in vain"
        return f"guard fired {how} at {gib(trip.available_bytes)} GiB", "bad"
    if not guard.running and "container" in guard.ended:
        return "guard off: its container ended", "dim"  # as it should
    if not guard.running:
        return f"guard off: {safe(guard.ended or guard.why, limit=80) or 'no reason given'}", "warn"
    floor = gib(guard.floor_bytes)
    lowest = f", lowest {gib(guard.lowest_bytes)}" if known(guard.lowest_bytes) else ""
    if guard.why:
        return f"guard runs, but {safe(guard.why, limit=80)}", "warn"
    level = "no floor" if guard.floor_bytes == 0 else f"floor {floor} GiB"
    return f"guard on, {safe(guard.stage, limit=10)}, {level}{lowest}", "ok"


def guard_of(view: NodeView, deployment: str, rank: int | None = None) -> Guard | None:
    """The guard of a deployment on this node; rank: of this one."""
    sample = view.sample
    if isinstance(sample, Absent) or not known(sample.guards):
        return None
    mine = (g for g in sample.guards if g.deployment == deployment and rank in (None, g.rank))
    return next(mine, None)


def guards_of(snapshot: Snapshot, boot: BootState) -> Mapping[int, GuardView]:
    """By rank. A guard stands a while after its container: until then that none is seen says nothing."""
    views = {v.node.name: v for v in snapshot.nodes}
    return {r.rank: _view(views.get(r.node), boot.deployment, r.rank, _early(r, snapshot.at)) for r in boot.ranks}


def _early(rank: RankState, now: float) -> bool:
    return rank.status in (None, "created") or (rank.started_at is not None and now - rank.started_at < GUARD_STANDS_S)


def _view(view: NodeView | None, deployment: str, rank: int, early: bool) -> GuardView:
    if view is None or isinstance(view.sample, Absent):
        return GuardView("unknown", words="guard not known: no sample of its node")
    if isinstance(view.sample.guards, Absent):
        return GuardView("unknown", words=f"guard not known: {safe(view.sample.guards.reason, limit=80)}")
    guard = guard_of(view, deployment, rank)
    if guard is None and unwanted(view.sample, deployment):
        return GuardView("over", words="the recipe wants no memory guard")
    if guard is None and early:
        return GuardView("unknown", words="its memory guard was not seen yet: it starts after its container")
    if guard is None:
        return GuardView("absent", words="no memory guard runs beside it")
    words, role = guard_words(guard)
    state = "fired" if guard.trip is not None else {"ok": "on", "dim": "over"}.get(role, "off")
    floor = gib(guard.floor_bytes)
    return GuardView(state, floor if len(floor) < 4 else gib(guard.floor_bytes, 0), words)
