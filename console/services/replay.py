"""A hub that plays a recording: the same picture for the same faces, with pause, speed and jumps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final

from console.base.clock import Clock
from console.base.errors import NightdeckError, UsageError
from console.base.text import clean_line
from console.base.theme import ThemeColours
from console.boot.events import Event
from console.services.hub import BootSummary, LogBatch, Snapshot
from console.services.replay_ahead import Ahead
from console.services.replay_marks import Index, Mark, Replaying, read_index
from console.services.replay_rows import Source
from console.services.replay_world import TELLING, ReplayWorld, Samples

SPEEDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
BY_LENGTH: Final = 0.0  # a speed that makes about a minute of the whole
BEAT_S: Final = 0.1
# Rows are applied for so long before others have their turn.
SLICE_S: Final = 0.01
WARM_S: Final = 600.0  # as far back as histories show each second
_NO: Final = "this is a replay: it shows what was, and changes nothing"


class _Position:
    """The recording's own time as a clock."""

    def __init__(self, hub: ReplayHub) -> None:
        self._hub = hub

    def wall(self) -> float:
        return self._hub.now()

    def monotonic(self) -> float:
        return self._hub.position


class ReplayHub:
    """`HubApi` over a source. `position` and all times are the recording's own."""

    def __init__(
        self, source: Source, clock: Clock, *, themes: Sequence[ThemeColours] = (), speed: float = 1.0
    ) -> None:
        self._source = source
        self._clock = clock
        self._themes = themes
        self._by_length = speed == BY_LENGTH
        self.speed = speed or SPEEDS[0]
        self.paused = False
        self.position = 0.0
        self.ended = False
        self.index: Index | None = None
        self._why = ""
        self.damage = ""  # what of the recording could not be read, the last that was met
        self.applied = 0  # rows, in all passes
        self._goal: float | None = None
        self._turn = 0
        self._subscribers: set[Callable[[], None]] = set()
        self._listeners: set[Callable[[str, Event], None]] = set()
        self._version = 0
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._moving = asyncio.Lock()
        self._samples = Samples(source)
        self._ahead = Ahead(iter(()))
        self._begin()

    def _begin(self) -> None:
        kept = self.index.rows if self.index is not None else None
        ahead = Ahead(self._source.rows()) if kept is None else Ahead(iter(kept), held=True)
        self._open(ahead, self._samples)

    def _begin_at(self, place: int) -> None:
        """At a checkpoint; rates need a frame before, so its samples are its own."""
        assert self._source.rows_at is not None
        self._open(Ahead(self._source.rows_at(place)), Samples(self._source))

    def _open(self, ahead: Ahead, samples: Samples) -> None:
        self._ahead.leave()
        self._ahead = ahead
        self.ended = False
        self._world = ReplayWorld(self._source, _Position(self), samples, self._told)

    def _checkpoint(self, position: float) -> tuple[float, int] | None:
        """The one to begin at for a place: so long before it that histories and trends are there; None: the start."""
        before = [c for c in self._source.checkpoints if c[0] <= position - WARM_S]
        return before[-1] if before else None

    def _told(self, deployment: str, event: Event) -> None:
        for heard in tuple(self._listeners):
            heard(deployment, event)

    # -- playing ------------------------------------------------------------------------------------------------

    def pause(self, paused: bool | None = None) -> None:
        """Pause or go on; None turns it around."""
        self.paused = not self.paused if paused is None else paused
        self._touch()

    def faster(self, steps: int = 1) -> None:
        """The next speed up, or down with negative steps."""
        self._by_length = False
        at = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.speed))
        self.speed = SPEEDS[min(len(SPEEDS) - 1, max(0, at + steps))]
        self._touch()

    @property
    def telling(self) -> str:
        return self._world.telling

    async def jump(self) -> str:
        """To the next telling event; what it is, "" at the end of the recording."""
        async with self._moving:
            self._world.telling = ""
            while not self._world.telling and (row := await self._ahead.first()) is not None:
                await self._until(row[0])
            self._look_up()
        self._touch()
        return self._world.telling

    async def go_to(self, step: int, *kinds: str) -> Mark | None:
        """To the next mark of these kinds (`event`, `stage`, `memory`), or with -1 the one before: which it is, None
        where there is none, or while the recording is still being read. 0: to the first of them, wherever."""
        replaying = self.replaying
        mark = replaying.mark(step, *kinds) if step else next((m for m in replaying.marks if m.kind in kinds), None)
        if mark is not None:
            await self.seek(mark.at)
        return mark

    async def seek(self, position: float) -> None:
        """To a time in seconds since the start. Back, or far ahead, means from the checkpoint before it, where the
        recording has them, else from the beginning on, quickly. Cancelling it leaves the replay where it came to."""
        if self.index is not None:
            position = min(position, self.index.total)
        position = max(0.0, position)
        self._goal = position
        self._touch()
        try:
            async with self._moving:
                near = self._checkpoint(position)
                if near is not None and (position < self.position or near[0] > self.position):
                    self._turn += 1
                    self.position = near[0]
                    self._begin_at(near[1])
                elif position < self.position:
                    self._turn += 1
                    self.position = 0.0
                    self._begin()
                await self._until(position)
                self.position = position
                self._world.alarms.boots(self._world.states.values())
        finally:
            self._goal = None
            self._touch()

    async def _until(self, position: float) -> None:
        """Apply every row up to a time, without holding the loop up."""
        until = perf_counter() + SLICE_S
        while (row := await self._ahead.first()) is not None and row[0] <= position:
            self._ahead.take()
            self.position = max(self.position, row[0])
            self.applied += 1
            if row[1] == "damage":
                self.damage = clean_line(str(row[2][0]), limit=300)
            self._world.apply(row)
            if perf_counter() > until:
                await asyncio.sleep(0)
                until = perf_counter() + SLICE_S
        self._look_up()

    def _look_up(self) -> None:
        """Whether there is more to come, and why not."""
        self.ended = self._ahead.ended
        self._why = self._ahead.why or self._why

    async def _read(self) -> None:
        """Once through, in a thread, for the length and the marks; playing begins with it."""
        try:
            self.index = await asyncio.to_thread(read_index, self._source.rows(), lambda: not self._closing)
        except NightdeckError as error:
            self._why = clean_line(str(error), limit=300)
        if self.index is not None and self._by_length:
            self.speed = max(s for s in SPEEDS if s <= max(1.0, self.index.total / 60.0))
        if self.index is not None and self.index.rows is not None and self.position == 0.0:
            async with self._moving:
                self._begin()
        self._touch()

    async def _play(self) -> None:
        await self._read()
        last = self._clock.monotonic()
        while True:
            await asyncio.sleep(BEAT_S)
            now = self._clock.monotonic()
            passed, last = now - last, now
            if self.paused or self.ended or self._goal is not None:
                continue
            async with self._moving:
                goal = self.position + passed * self.speed
                await self._until(goal)
                if not self.ended:
                    self.position = goal
                self._world.alarms.boots(self._world.states.values())
            self._touch()

    # -- HubApi: reading ----------------------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        return True

    @property
    def by(self) -> str:
        return ""

    def now(self) -> float:
        return self._source.started + self.position

    @property
    def replaying(self) -> Replaying:
        index = self.index
        return Replaying(
            self._source.title,
            self.position,
            index.total if index is not None else None,
            self.speed,
            self.paused,
            self.ended,
            index.marks if index is not None else (),
            self._goal,
            self._turn,
            self._why or (self.damage if self.ended else ""),
        )

    def snapshot(self) -> Snapshot:
        world = self._world
        nodes = world.views(self.position)
        return Snapshot(
            version=self._version,
            at=self.now(),
            cluster=self._source.cluster,
            nodes=nodes,
            boot=world.boot(world.show),
            boots=tuple(b for name in world.states if (b := world.boot(name)) is not None),
            recipes=(),
            problems=(),
            read_only=True,
            alarms=world.alarms.all,
            lowest=world.lowest(nodes),
            replay=self.replaying,
        )

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._subscribers.add(changed)
        return lambda: self._subscribers.discard(changed)

    def listen(self, heard: Callable[[str, Event], None]) -> Callable[[], None]:
        self._listeners.add(heard)
        return lambda: self._listeners.discard(heard)

    def _touch(self) -> None:
        self._version += 1
        for changed in tuple(self._subscribers):
            changed()

    def log(self, since_seq: int, *, limit: int = 5000) -> LogBatch:
        return self._world.log.read(since_seq, limit)

    def series(self, node: str, metric: str, *, seconds: float, points: int) -> Sequence[float | None]:
        return self._world.series.read(node, metric, seconds=seconds, points=points, now=self.position)

    async def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._play(), name="replay")

    async def close(self) -> None:
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])
        await self._ahead.close()

    async def settled(self, *, timeout: float) -> None:
        return None

    def themes(self) -> Sequence[ThemeColours]:
        return self._themes

    def boots(self) -> Sequence[BootSummary]:
        return ()

    def changes_since_last(self, recipe: str) -> Sequence[str]:
        return ()

    def reload_recipes(self) -> None:
        return None

    def acknowledge_alarms(self, ident: int | None = None) -> int:
        return self._world.alarms.acknowledge(ident)

    def mute_alarms(self, seconds: float, *, code: str = "", node: str = "") -> None:
        self._world.alarms.mute(seconds, code=code, node=node)

    def use_terminal(self, write: Callable[[str], None]) -> None:
        """What was is no reason to ring now."""

    def save_log(self, rank: int | None) -> str:
        raise UsageError(_NO)

    # -- HubApi: actions, none of which a replay can take -------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Whatever else a face may ask of a hub is an action."""
        if name.startswith("_"):
            raise AttributeError(name)

        async def refused(*_: Any, **__: Any) -> Any:
            raise UsageError(_NO)

        return refused


__all__ = ["BY_LENGTH", "SPEEDS", "TELLING", "ReplayHub"]
