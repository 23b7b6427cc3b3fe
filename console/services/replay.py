"""A hub that plays a recording: the same picture for the same faces, with pause, speed and jumps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

from console.base.absent import Absent
from console.base.clock import Clock
from console.base.errors import UsageError
from console.base.text import clean_line
from console.base.theme import ThemeColours
from console.base.units import duration
from console.boot.events import (
    Acted,
    BootFailed,
    BootOpened,
    CauseFound,
    ContainerSeen,
    DeadlinePassed,
    Event,
    NodeLost,
    SmokeDone,
    Stalled,
    StopStarted,
)
from console.boot.reduce import opened, reduce
from console.boot.state import BootState
from console.files.event_codec import decode_event
from console.services.alarms import AlarmBook
from console.services.hub import BootSummary, LogBatch, LogLine, NodeView, Snapshot
from console.services.log_store import LogStore
from console.services.replay_rows import Row, Source
from console.services.replay_window import window_sample
from console.services.series import SeriesBook
from console.telemetry.alarm_rules import AlarmPolicy
from console.telemetry.frames import Frame
from console.telemetry.freshness import judge
from console.telemetry.sample import Sample
from console.telemetry.sampler import Sampler
from console.telemetry.trend import lowest

# What a jump stops at; progress and figures are no events for people.
TELLING: Final = (
    BootOpened,
    ContainerSeen,
    SmokeDone,
    BootFailed,
    CauseFound,
    DeadlinePassed,
    Stalled,
    StopStarted,
    NodeLost,
    Acted,
)
SPEEDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
BEAT_S: Final = 0.1
# A recording keeps a frame in five seconds and a boot one in ten: younger than this a sample is of now.
LATE_S: Final = 15.0
LOST_S: Final = 40.0
_NO: Final = "this is a replay: it shows what was, and changes nothing"


class _Position:
    """The recording's own time as a clock."""

    def __init__(self, hub: ReplayHub) -> None:
        self._hub = hub

    def wall(self) -> float:
        return self._hub.now()

    def monotonic(self) -> float:
        return self._hub.position


def _no_task(name: str, work: Coroutine[Any, Any, Any]) -> None:
    """Alarms of a replay have no way out, so nothing is ever to be run for them."""
    work.close()
    raise AssertionError(name)


class ReplayHub:
    """`HubApi` over a source. `position` and all times are the recording's own."""

    def __init__(
        self, source: Source, clock: Clock, *, themes: Sequence[ThemeColours] = (), speed: float = 1.0
    ) -> None:
        self._source = source
        self._clock = clock
        self._themes = themes
        self.speed = speed
        self.paused = False
        self.position = 0.0
        self.ended = False
        self.telling = ""
        self._subscribers: set[Callable[[], None]] = set()
        self._listeners: set[Callable[[str, Event], None]] = set()
        self._version = 0
        self._task: asyncio.Task[None] | None = None
        self._reset()

    def _reset(self) -> None:
        self._rows: Iterator[Row] = self._source.rows()
        self._ahead: Row | None = next(self._rows, None)
        self.ended = self._ahead is None
        self._samplers = {n.name: Sampler(n.name) for n in self._source.cluster.nodes}
        self._samples: dict[str, Sample] = {}
        self._trouble: dict[str, tuple[str, str]] = {}
        self._states: dict[str, BootState] = {}
        self._log = LogStore()
        self._held: dict[tuple[str, int], int] = {}
        self._lines: dict[str, list[LogLine]] = {}
        self._show: str | None = None
        self._series = SeriesBook()
        self._alarms = AlarmBook(AlarmPolicy(), (), _Position(self), _no_task)

    # -- playing ------------------------------------------------------------------------------------------------

    def pause(self, paused: bool | None = None) -> None:
        """Pause or go on; None turns it around."""
        self.paused = not self.paused if paused is None else paused
        self._touch()

    def faster(self, steps: int = 1) -> None:
        """The next speed up, or down with negative steps."""
        at = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.speed))
        self.speed = SPEEDS[min(len(SPEEDS) - 1, max(0, at + steps))]
        self._touch()

    async def jump(self) -> str:
        """To the next telling event; what it is, "" at the end of the recording."""
        self.telling = ""
        while not self.telling and self._ahead is not None:
            await self._until(self._ahead[0])
        self._touch()
        return self.telling

    async def seek(self, position: float) -> None:
        """To a time in seconds since the start; back means from the beginning on, quickly."""
        if position < self.position:
            self._reset()
            self.position = 0.0
        await self._until(max(0.0, position))
        self.position = max(0.0, position)
        self._touch()

    async def _until(self, position: float) -> None:
        """Apply every row up to a time, without holding the loop up."""
        done = 0
        while self._ahead is not None and self._ahead[0] <= position:
            self.position = max(self.position, self._ahead[0])
            self._apply(self._ahead)
            self._ahead = next(self._rows, None)
            done += 1
            if done % 20 == 0:
                await asyncio.sleep(0)
        self.ended = self._ahead is None

    async def _play(self) -> None:
        last = self._clock.monotonic()
        while True:
            await asyncio.sleep(BEAT_S)
            now = self._clock.monotonic()
            passed, last = now - last, now
            if self.paused or self.ended:
                continue
            goal = self.position + passed * self.speed
            await self._until(goal)
            if not self.ended:
                self.position = goal
            self._alarms.boots(self._states.values())
            self._touch()

    def _apply(self, row: Row) -> None:
        """One row; one that does not fit is passed over, as is what a newer version wrote."""
        at, kind, values = row
        with contextlib.suppress(IndexError, TypeError, ValueError):
            if kind == "frame" and values[0] in self._samplers and isinstance(values[2], dict):
                frame = Frame(int(values[1]), values[2])
                sample = self._samplers[values[0]].step(frame, received_at=at, wall=self._source.started + at)
                self._sampled(sample)
                self._trouble.pop(values[0], None)
            elif kind == "window" and values[0] in self._samplers and isinstance(values[1], dict):
                self._sampled(window_sample(values[0], values[1], at, self._source.started))
            elif kind == "trouble":
                if values[1]:
                    self._trouble[str(values[0])] = (str(values[1]), clean_line(str(values[2])))
                else:
                    self._trouble.pop(str(values[0]), None)
            elif kind == "event" and isinstance(values[1], dict):
                self._event(str(values[0]), decode_event(values[1]))
            elif kind == "log":
                self._log_rows(str(values[0]), values[1])

    def _sampled(self, sample: Sample) -> None:
        self._samples[sample.node] = sample
        self._series.add(sample)
        empty = self._series.seconds_to_empty(sample.node, sample.memory.available_bytes, sample.received_at)
        self._alarms.sampled(sample, empty)

    def _event(self, deployment: str, event: Event | None) -> None:
        if event is None:
            return
        old = self._states.get(deployment)
        if isinstance(event, BootOpened):
            # A console that took the boot up again tells its opening once more: what was known stays.
            self._states[deployment] = old if old is not None else opened(event)
        elif old is not None:
            self._states[deployment] = reduce(old, event)
        if deployment in self._states:
            self._alarms.heard(self._states[deployment], event)
        if isinstance(event, TELLING):
            self.telling = type(event).__name__
        self._choose()
        for heard in tuple(self._listeners):
            heard(deployment, event)

    def _choose(self) -> None:
        rows = sorted(self._states.values(), key=lambda s: (not s.phase.over, s.launched_at))
        newest = rows[-1].deployment if rows else None
        if newest != self._show:
            self._show = newest
            self._log.clear()
            self._log.extend(self._numbered(self._lines.get(newest or "", [])))

    def _log_rows(self, deployment: str, rows: Sequence[Sequence[Any]]) -> None:
        fresh: list[LogLine] = []
        for rank, node, index, at, level, process, text in rows:
            if index <= self._held.get((deployment, rank), -1):
                continue
            self._held[(deployment, rank)] = index
            fresh.append(
                LogLine(0, int(rank), str(node), int(index), float(at), str(level), str(process), clean_line(str(text)))
            )
        held = self._lines.setdefault(deployment, [])
        held += fresh
        del held[:-50_000]
        if deployment == self._show:
            self._log.extend(self._numbered(fresh))

    def _numbered(self, lines: Sequence[LogLine]) -> list[LogLine]:
        seq = self._log.next_seq
        return [
            LogLine(seq + i, x.rank, x.node, x.index, x.at, x.level, x.process, x.text) for i, x in enumerate(lines)
        ]

    # -- HubApi: reading ----------------------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        return True

    def now(self) -> float:
        return self._source.started + self.position

    def snapshot(self) -> Snapshot:
        shown = self._states.get(self._show or "")
        ranks = {r.node: r.rank for r in shown.ranks} if shown is not None else {}
        nodes = tuple(self._view(n.name, ranks.get(n.name)) for n in self._source.cluster.nodes)
        known = {n: s.memory.available_bytes for n, s in self._samples.items()}
        how = "ended" if self.ended else "paused" if self.paused else f"x{self.speed:g}"
        return Snapshot(
            version=self._version,
            at=self.now(),
            cluster=self._source.cluster,
            nodes=nodes,
            boot=shown,
            boots=tuple(self._states.values()),
            recipes=(),
            problems=(),
            job=f"replay of {self._source.title}: {duration(self.position)} {how}",
            read_only=True,
            alarms=self._alarms.all,
            lowest=lowest({n: v for n, v in known.items() if not isinstance(v, Absent)}, {}),
        )

    def _view(self, name: str, rank: int | None) -> NodeView:
        node = next(n for n in self._source.cluster.nodes if n.name == name)
        sample = self._samples.get(name)
        trouble, why = self._trouble.get(name, ("", ""))
        received = sample.received_at if sample is not None else None
        fresh = judge(received, self.position, late_s=LATE_S, lost_s=LOST_S, trouble=why)
        state = "waiting" if sample is None and not trouble else str(fresh.state)
        age = fresh.age_s if fresh.age_s is not None else Absent(fresh.why)
        return NodeView(node, state, age, sample or Absent("not recorded yet"), trouble, fresh.why, "", rank)

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
        return self._log.read(since_seq, limit)

    def series(self, node: str, metric: str, *, seconds: float, points: int) -> Sequence[float | None]:
        return self._series.read(node, metric, seconds=seconds, points=points, now=self.position)

    async def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._play(), name="replay")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

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
        return self._alarms.acknowledge(ident)

    def mute_alarms(self, seconds: float, *, code: str = "", node: str = "") -> None:
        self._alarms.mute(seconds, code=code, node=node)

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
