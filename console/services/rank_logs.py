"""The logs of one deployment's ranks: each read by a task of its own, what is held already first, no line twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from console.base.clock import Clock
from console.cluster.model import Cluster
from console.services.keeper import Keeper
from console.services.tail import Resume, Tail, slices
from console.services.tasks import Owner
from console.transport.base import Fleet

# What a node says of its containers is a moment old: only after this is "running" news of a log that has ended.
GOES_ON_AFTER_S = 5.0

# rank, node, lines as they came, whether they are to be kept (False: they are kept already)
Sink = Callable[[int, str, Sequence[bytes], bool], None]


class _Reading:
    """One rank's log. seeded: what an earlier console kept of it has been gone through, and `resume` knows it."""

    def __init__(self, node: str, container: str) -> None:
        self.node = node
        self.container = container
        self.resume = Resume()
        self.seeded = False
        self.task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Before it is seeded: what is held is an earlier console's, and is known as a whole or not at all."""
        if not self.seeded:
            self.resume = Resume()


class RankLogs:
    """Follow (or read once) the logs of the ranks that have a container. lines: hears each batch, in a rank's order."""

    def __init__(
        self, fleet: Fleet, cluster: Cluster, clock: Clock, owner: Owner, keeper: Keeper, *, follow: bool, lines: Sink
    ) -> None:
        self._fleet = fleet
        self._cluster = cluster
        self._clock = clock
        self._owner = owner
        self._keeper = keeper
        self._follow = follow
        self._lines = lines
        self.tails: dict[int, Tail] = {}
        self._readings: dict[int, _Reading] = {}
        self._waiting: dict[int, tuple[float, str, str]] = {}

    def later(self, rank: int, node: str, container: str) -> None:
        """Reading a log costs the nodes what their starts need; nothing of it is lost by a moment's wait."""
        self._waiting.setdefault(rank, (self._clock.monotonic(), node, container))

    def open_waiting(self, older_s: float = 0.0) -> None:
        """The logs of ranks that were started while the launch went on."""
        now = self._clock.monotonic()
        for rank, (since, node, container) in tuple(self._waiting.items()):
            if now - since >= older_s:
                del self._waiting[rank]
                self.open(rank, node, container)

    def open(self, rank: int, node: str, container: str) -> None:
        if rank in self.tails or not node:
            return
        reading = self._readings[rank] = _Reading(node, container)
        tail = self.tails[rank] = self._new_tail(rank, reading, container, follow=self._follow)
        reading.task = self._owner.spawn(f"log of rank {rank}", self._read(rank, reading, tail))

    def _new_tail(self, rank: int, reading: _Reading, container: str, *, follow: bool) -> Tail:
        found = self._cluster.node(reading.node)
        return Tail(
            self._fleet.link(reading.node),
            found.container_cli if found is not None else "docker",
            container,
            lambda lines: self._lines(rank, reading.node, lines, True),
            self._clock,
            follow=follow,
            resume=reading.resume,
            room=self._keeper.room,
        )

    async def _read(self, rank: int, reading: _Reading, tail: Tail) -> None:
        """What an earlier console kept of this log, in slices, since it may be a whole night's; then what is new."""
        held = await asyncio.to_thread(self._keeper.held_lines, rank) if self._keeper.path is not None else []
        for part in slices(held):
            reading.resume.seed(part)
            self._lines(rank, reading.node, part, False)
            await asyncio.sleep(0)
        reading.seeded = True
        await tail.run()

    def goes_on(self, rank: int) -> None:
        """A log that came to its end and whose container runs: it was started again, or its engine was."""
        tail = self.tails.get(rank)
        if tail is not None and self._follow and tail.ended_before(self._clock.monotonic() - GOES_ON_AFTER_S):
            self._follow_again(rank)

    def _follow_again(self, rank: int) -> None:
        """From where the reading stands; by a tail of its own, since the last one may have read without following."""
        reading = self._readings[rank]
        reading.begin()
        tail = self.tails[rank] = self._new_tail(rank, reading, reading.container, follow=True)
        reading.task = self._owner.spawn(f"log of rank {rank}, again", self._go_on(rank, reading, tail))

    async def _go_on(self, rank: int, reading: _Reading, tail: Tail) -> None:
        await self._seed(rank, reading)
        await tail.run()

    async def _seed(self, rank: int, reading: _Reading) -> None:
        """Where a reading was ended before it had gone through all that is held."""
        if not reading.seeded:
            for part in slices(await asyncio.to_thread(self._keeper.held_lines, rank)):
                reading.resume.seed(part)
                await asyncio.sleep(0)
            reading.seeded = True

    def place(self, rank: int) -> tuple[str, str] | None:
        """The node and the name of the container whose log is a rank's; None where no log of it is read."""
        reading = self._readings.get(rank)
        return (reading.node, reading.container) if reading is not None else None

    def unread(self, ranks: Iterable[int]) -> list[int]:
        """Of these, whose logs are read and have not come to their end."""
        return [r for r in ranks if r in self.tails and not self.tails[r].done.is_set()]

    async def all_ended(self) -> None:
        """Until every log that is read came to its end."""
        await asyncio.gather(*(tail.done.wait() for tail in self.tails.values()))

    async def read_rest(self, rank: int, container: str, limit: float) -> Tail:
        """The log of a rank, read once more to its end, from where its reading stands: that reading is ended first, or
        its lines would come twice. rank: one of `tails`. Within `limit` seconds; where it does not come to its end in
        them, or is cut off, it is followed again."""
        reading = self._readings[rank]
        over = False
        try:
            if reading.task is not None:
                reading.task.cancel()
                await asyncio.gather(reading.task, return_exceptions=True)
            reading.begin()
            await self._seed(rank, reading)
            tail = self.tails[rank] = self._new_tail(rank, reading, container, follow=False)
            try:
                async with asyncio.timeout(limit):
                    await tail.run()
            except TimeoutError:
                tail.why = f"not read to its end in {limit:.0f} s{': ' + tail.why if tail.why else ''}"
            over = tail.state in ("ended", "gone", "unkept")
            return tail
        finally:
            if not over and self._follow:
                self._follow_again(rank)
            elif not over:
                self.tails[rank].done.set()  # nobody reads it any more
