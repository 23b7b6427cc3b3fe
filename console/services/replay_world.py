"""What the rows of a recording add up to by a moment: samples, deployments, lines, alarms."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from console.base.absent import Absent
from console.base.clock import Clock
from console.base.text import clean_line
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
from console.boot.state import BootState, RankState
from console.files.event_codec import decode_as, decode_event
from console.services.alarms import AlarmBook
from console.services.hub import LogLine, NodeView
from console.services.log_store import LogStore
from console.services.replay_rows import Row, Source
from console.services.replay_window import window_sample
from console.services.series import SeriesBook
from console.telemetry.alarm_rules import AlarmPolicy
from console.telemetry.alarms import Alarm
from console.telemetry.frames import Frame
from console.telemetry.freshness import judge
from console.telemetry.least import lowest_of
from console.telemetry.sample import Float, Guard, Sample
from console.telemetry.sampler import Sampler
from console.telemetry.trend import Lowest

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
# A recording keeps a frame in five seconds and a boot one in ten: younger than this a sample is of now.
LATE_S: Final = 15.0
LOST_S: Final = 40.0
LINES: Final = 50_000


def _no_task(name: str, work: Coroutine[Any, Any, Any]) -> None:
    """Alarms of a replay have no way out, so nothing is ever to be run for them."""
    work.close()
    raise AssertionError(name)


class Samples:
    """Samples that were made of frames, by the number of their row: time that is gone through again makes none anew,
    and a sampler, which compares a frame with the one before, goes on where it was."""

    def __init__(self, source: Source) -> None:
        self._samplers = {n.name: Sampler(n.name) for n in source.cluster.nodes}
        self._made: dict[int, Sample] = {}

    def of(self, row: int, node: str, frame: Frame, at: float, wall: float) -> Sample:
        held = self._made.get(row)
        if held is None:
            held = self._made[row] = self._samplers[node].step(frame, received_at=at, wall=wall)
        return held

    def fresh(self, node: str, frame: Frame, at: float, wall: float) -> Sample:
        """Of a frame that is no row of its own."""
        return self._samplers[node].step(frame, received_at=at, wall=wall)


class ReplayWorld:
    """One pass through the rows; to go back, begin another, at their start or at a checkpoint.

    telling: the name of the last event worth a stop."""

    def __init__(self, source: Source, clock: Clock, samples: Samples, heard: Callable[[str, Event], None]) -> None:
        self._source = source
        self._all_samples = samples
        self._heard = heard
        self._names = {n.name for n in source.cluster.nodes}
        self._applied = 0
        self._beginning = True  # so far there was nothing but a checkpoint
        self.telling = ""
        self.samples: dict[str, Sample] = {}
        self.trouble: dict[str, tuple[str, str]] = {}
        self.guards: dict[str, dict[tuple[str, int], Guard]] = {}
        self.states: dict[str, BootState] = {}
        self.log = LogStore()
        self._held: dict[tuple[str, int], tuple[int, float]] = {}
        self._lines: dict[str, list[LogLine]] = {}
        self._cut: dict[str, int] = {}  # lines before those that a checkpoint holds
        self.show: str | None = None
        self.series = SeriesBook()
        self._empty: dict[str, Float] = {}
        self.alarms = AlarmBook(AlarmPolicy(), (), clock, _no_task)

    def apply(self, row: Row) -> None:
        """One row; one that does not fit is passed over, as is what a newer version wrote."""
        at, kind, values = row
        number, self._applied = self._applied, self._applied + 1
        self._beginning = self._beginning and kind in ("checkpoint", "damage")
        with contextlib.suppress(AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
            if kind == "frame" and values[0] in self._names and isinstance(values[2], dict):
                frame = Frame(int(values[1]), values[2])
                self._sampled(self._all_samples.of(number, values[0], frame, at, self._source.started + at))
                self.trouble.pop(values[0], None)
            elif kind == "window" and values[0] in self._names and isinstance(values[1], dict):
                self._sampled(window_sample(values[0], values[1], at, self._source.started))
            elif kind == "guard" and isinstance(values[1], Guard):
                self.guards.setdefault(values[0], {})[(values[1].deployment, values[1].rank)] = values[1]
            elif kind == "trouble":
                if values[1]:
                    self.trouble[str(values[0])] = (str(values[1]), clean_line(str(values[2])))
                else:
                    self.trouble.pop(str(values[0]), None)
            elif kind == "event" and isinstance(values[1], dict):
                self._event(str(values[0]), decode_event(values[1]))
            elif kind == "log":
                self._log_rows(at, str(values[0]), values[1])
            elif kind == "checkpoint" and self._beginning:
                self._restore(values[0])

    def _restore(self, stored: Mapping[str, Any]) -> None:
        """A part of a checkpoint, or a whole one: what all rows before it come to."""
        started = self._source.started
        for deployment, log in stored.get("log", {}).items():
            self._log_rows(0.0, deployment, log["lines"])
            self._cut[deployment] = int(log["count"])
            for rank, (index, when) in log["held"].items():
                self._held[(deployment, int(rank))] = (int(index), started + float(when))
        for node, (at, seq, data) in stored.get("frames", {}).items():
            if node in self._names:
                fresh = self._all_samples.fresh(node, Frame(int(seq), data), at, started + at)
                self._sampled(fresh, alarming=False)
        for node, (word, why) in stored.get("trouble", {}).items():
            self.trouble[node] = (str(word), clean_line(str(why)))
        if "alarms" in stored:
            alarms = [a for row in stored["alarms"] if (a := decode_as(Alarm, row)) is not None]
            self.alarms.restore(alarms, self.samples.values())
        states = (decode_as(BootState, row) for row in stored.get("states", ()))
        self.states.update({s.deployment: s for s in states if s is not None})
        for deployment, rows in stored.get("ranks", {}).items():
            ranks = tuple(rank for row in rows if (rank := decode_as(RankState, row)) is not None)
            state = self.states[deployment]
            self.states[deployment] = replace(state, ranks=state.ranks + ranks)
        self._choose()

    def _sampled(self, sample: Sample, *, alarming: bool = True) -> None:
        self.samples[sample.node] = sample
        self.series.add(sample)
        empty = self.series.seconds_to_empty(sample.node, sample.memory.available_bytes, sample.received_at)
        left = sample.memory.available_bytes
        self._empty[sample.node] = self.series.seconds_to_empty_now(sample.node, left, sample.received_at)
        if alarming:
            self.alarms.sampled(sample, empty)

    def _event(self, deployment: str, event: Event | None) -> None:
        if event is None:
            return
        old = self.states.get(deployment)
        if isinstance(event, BootOpened):
            # A console that took the boot up again tells its opening once more: what was known stays.
            self.states[deployment] = old if old is not None else opened(event)
        elif old is not None:
            self.states[deployment] = reduce(old, event)
        if deployment in self.states:
            self.alarms.heard(self.states[deployment], event)
        if isinstance(event, TELLING):
            self.telling = type(event).__name__
        self._choose()
        self._heard(deployment, event)

    def _choose(self) -> None:
        rows = sorted(self.states.values(), key=lambda s: (not s.phase.over, s.launched_at))
        newest = rows[-1].deployment if rows else None
        if newest != self.show:
            self.show = newest
            self.log.clear()
            self.log.skip(self._cut.get(newest or "", 0))
            self.log.extend(self._numbered(self._lines.get(newest or "", [])))

    def _log_rows(self, now: float, deployment: str, rows: Sequence[Sequence[Any]]) -> None:
        """Lines that a source has made clean. Those of the deployment on show get their place in the store at once."""
        fresh: list[LogLine] = []
        seq = self.log.next_seq
        for rank, node, index, at, level, process, text in rows:
            key = (deployment, rank)
            if index <= self._held.get(key, (-1, 0.0))[0]:
                continue
            self._held[key] = (index, self._source.started + now)
            fresh.append(LogLine(seq + len(fresh), int(rank), node, int(index), float(at), level, process, text))
        held = self._lines.setdefault(deployment, [])
        held += fresh
        if len(held) > LINES + LINES // 10:
            del held[:-LINES]
        if deployment == self.show:
            self.log.extend(fresh)

    def _numbered(self, lines: Sequence[LogLine]) -> list[LogLine]:
        seq = self.log.next_seq
        return [
            LogLine(seq + i, x.rank, x.node, x.index, x.at, x.level, x.process, x.text) for i, x in enumerate(lines)
        ]

    # -- what is drawn ------------------------------------------------------------------------------------------

    def boot(self, deployment: str | None) -> BootState | None:
        """A deployment, with its ranks' last lines as far as the log has gone: the events keep those of ten percent."""
        state = self.states.get(deployment or "")
        if state is None:
            return None
        ranks = tuple(self._spoke(state.deployment, rank) for rank in state.ranks)
        return state if ranks == state.ranks else replace(state, ranks=ranks)

    def _spoke(self, deployment: str, rank: RankState) -> RankState:
        index, at = self._held.get((deployment, rank.rank), (-1, 0.0))
        if rank.last_line_at is None or at <= rank.last_line_at:
            return rank
        return replace(rank, last_line_at=at, lines=max(rank.lines, index + 1))

    def views(self, position: float) -> tuple[NodeView, ...]:
        shown = self.states.get(self.show or "")
        ranks = {r.node: r.rank for r in shown.ranks} if shown is not None else {}
        return tuple(self._view(n.name, ranks.get(n.name), position) for n in self._source.cluster.nodes)

    def _view(self, name: str, rank: int | None, position: float) -> NodeView:
        node = next(n for n in self._source.cluster.nodes if n.name == name)
        sample = self.samples.get(name)
        trouble, why = self.trouble.get(name, ("", ""))
        received = sample.received_at if sample is not None else None
        fresh = judge(received, position, late_s=LATE_S, lost_s=LOST_S, trouble=why)
        state = "waiting" if sample is None and not trouble else str(fresh.state)
        age = fresh.age_s if fresh.age_s is not None else Absent(fresh.why)
        if sample is not None and isinstance(sample.guards, Absent) and (kept := self.guards.get(name)):
            sample = replace(sample, guards=tuple(kept.values()))
        return NodeView(node, state, age, sample or Absent("not recorded yet"), trouble, fresh.why, "", rank)

    def lowest(self, views: Sequence[NodeView]) -> Lowest | None:
        slopes = {n: self.series.slope(n, "mem_available", s.received_at) for n, s in self.samples.items()}
        return lowest_of(views, self._empty, slopes)
