"""A boot that nobody writes any more goes to whoever still watches it, with what its journal lacks by then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from console.base.clock import Clock
from console.boot.events import BootOpened, Event
from console.boot.reduce import opened, reduce, reduce_all
from console.cluster.model import Cluster
from console.services.keeper import Keeper
from console.services.kept import kept_events
from console.services.rank_logs import RankLogs
from console.services.tail import Resume, Tail, slices
from console.services.tasks import Owner
from console.transport.base import Fleet

CATCH_UP_S: Final = 60.0
AGAIN_S: Final = 10.0
# Two consoles of one machine hear the same things within moments: what one saw so long before the other's last word may
# not have come to the other any more.
OVERLAP_S: Final = 10.0


class Takeover:
    """One deployment's. taken: hears once that the journal is this console's."""

    def __init__(
        self,
        keeper: Keeper,
        logs: RankLogs,
        *,
        fleet: Fleet,
        cluster: Cluster,
        clock: Clock,
        owner: Owner,
        taken: Callable[[], None],
    ) -> None:
        self._keeper = keeper
        self._logs = logs
        self._fleet = fleet
        self._cluster = cluster
        self._clock = clock
        self._owner = owner
        self._taken = taken
        self._turn = asyncio.Lock()
        self._work: asyncio.Task[None] | None = None
        self._again_at = 0.0

    def tick(self) -> None:
        """Once a second, while this console watches: whoever wrote the boot may have ended."""
        if self._work is not None and not self._work.done():
            return
        if self._keeper.left_to_another:
            self._work = self._owner.spawn("take over the journal", self._go())
        elif self._keeper.behind and self._clock.monotonic() >= self._again_at:
            self._work = self._owner.spawn("catch up with the logs", self._caught())

    async def _go(self) -> None:
        if await self.now():
            await self._caught()

    async def _caught(self) -> None:
        await self.catch_up(CATCH_UP_S)
        self._again_at = self._clock.monotonic() + AGAIN_S

    async def now(self) -> bool:
        """Whether this console writes the boot, from now on where nobody did."""
        async with self._turn:
            if self._keeper.left_to_another and await asyncio.to_thread(self._keeper.take):
                self._keeper.own(lacking, self._logs.tails)
                self._taken()
        return self._keeper.owns

    async def catch_up(self, limit: float) -> None:
        """What the journal lacks of the logs, from the nodes. What could not be read is tried again later."""
        async with self._turn:
            await asyncio.gather(*(self._rank(rank, limit) for rank in self._keeper.behind))

    async def _rank(self, rank: int, limit: float) -> None:
        """Into the journal alone, since whoever looks has seen it. The lines that come meanwhile wait in the keeper."""
        place = self._logs.place(rank)
        if place is None:
            return
        node, container = place
        found, resume = self._cluster.node(node), Resume()
        tail = Tail(
            self._fleet.link(node),
            found.container_cli if found is not None else "docker",
            container,
            lambda lines: self._keeper.log(rank, lines, caught=True),
            self._clock,
            follow=False,
            resume=resume,
            room=self._keeper.room,
        )
        whole = False
        self._keeper.catching(rank)
        try:
            held = await asyncio.to_thread(self._keeper.all_lines, rank)
            if held is None:  # what waits for the disk would be written twice
                return
            for part in slices(held):
                resume.seed(part)
                await asyncio.sleep(0)
            async with asyncio.timeout(limit):
                await tail.run()
            whole = tail.state in ("ended", "gone", "unkept")
        except TimeoutError:
            return
        finally:
            self._keeper.caught(rank, resume if whole else None)


def lacking(folder: Path, events: Sequence[Event]) -> list[Event]:
    """Of what this console heard while another wrote, what the journal does not tell: that which changes what it adds
    up to. Raises NightdeckError. Blocks."""
    past = kept_events(folder)
    begin = next((e for e in past if isinstance(e, BootOpened)), None)
    if begin is None:
        return list(events)
    state = reduce_all(opened(begin), (e for e in past if not isinstance(e, BootOpened)))
    edge = max(e.at for e in past) - OVERLAP_S
    out: list[Event] = []
    for event in events:
        if isinstance(event, BootOpened) or event.at < edge:
            continue
        after = reduce(state, event)
        if after != state:
            out.append(event)
            state = after
    return out


__all__ = ["Takeover", "lacking"]
