"""What a replay tells of itself: where it stands, how long it is, and the places in it that are worth a jump."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from console.base.containers import ENDED
from console.base.text import clean_line
from console.base.units import duration, gib
from console.boot.events import (
    Acted,
    BootFailed,
    BootOpened,
    CauseFound,
    ContainerSeen,
    DeadlinePassed,
    Event,
    NodeBack,
    NodeLost,
    RankProgress,
    SmokeDone,
    Stalled,
    StopEnded,
    StopStarted,
)
from console.files.event_codec import decode_event
from console.telemetry.sample import Guard

Row = tuple[float, str, list[Any]]
# What a rank of eight does, its seven peers do within this: one place to jump to.
TOGETHER_S: Final = 2.0
# Beyond either of these the rows are read from the disk again for a jump back, as they would fill the memory.
KEEP_LINES: Final = 400_000
KEEP_FRAMES: Final = 10_000
_AVAILABLE: Final = re.compile(r"MemAvailable:\s+(\d{1,15}) kB")


@dataclass(frozen=True, slots=True)
class Mark:
    """A place worth a jump. at: seconds since the start. kind: `event`, `stage` or `memory` (the lowest available of
    the whole recording, once). severity: `ok`, `warn`, `bad` or empty."""

    at: float
    kind: str
    words: str
    severity: str = ""


@dataclass(frozen=True, slots=True)
class Replaying:
    """Where a replay stands. position, total: seconds since its start; total is None until the recording was read
    through. seeking: where it is on its way to, None when it is there. turn: grows when time was turned back, so that
    a reader of the log begins anew. why: what is wrong with the recording, empty when nothing."""

    title: str
    position: float
    total: float | None
    speed: float
    paused: bool
    ended: bool
    marks: tuple[Mark, ...] = ()
    seeking: float | None = None
    turn: int = 0
    why: str = ""

    def mark(self, step: int, *kinds: str) -> Mark | None:
        """The next mark of these kinds, or with -1 the one before; right after a mark, the one before it is meant."""
        if step > 0:
            return next((m for m in self.marks if m.kind in kinds and m.at > self.position + 1e-3), None)
        back = self.position - (1e-3 if self.paused or self.ended else min(2.0 * self.speed, 60.0))
        return next((m for m in reversed(self.marks) if m.kind in kinds and m.at < back), None)


@dataclass(frozen=True, slots=True)
class Index:
    """A recording read through once. rows: all of them where they fit into memory, else None."""

    total: float
    marks: tuple[Mark, ...]
    rows: tuple[Row, ...] | None


def read_index(rows: Iterable[Row], go_on: Callable[[], bool] = lambda: True) -> Index:
    """Read rows to their end. go_on: asked for every row, so that a thread that reads can be told to leave off."""
    scout = _Scout()
    kept: list[Row] | None = []
    lines = frames = 0
    total = 0.0
    for row in rows:
        if not go_on():
            break
        total = max(total, row[0])
        scout.see(row)
        if kept is not None:
            lines += len(row[2][1]) if row[1] == "log" and len(row[2]) > 1 and isinstance(row[2][1], list) else 0
            frames += row[1] == "frame"
            kept.append(row)
            if lines > KEEP_LINES or frames > KEEP_FRAMES:
                kept = None
    return Index(total, scout.marks(), tuple(kept) if kept is not None else None)


class _Scout:
    """Looks at every row and remembers the telling ones."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []
        self._opened: dict[str, BootOpened] = {}
        self._stage: dict[str, int] = {}
        self._status: dict[tuple[str, int], str] = {}
        self._cause: dict[str, str] = {}
        self._smoke: dict[str, bool] = {}
        self._stopping: set[str] = set()
        self._lost: set[str] = set()
        self._trips: set[tuple[str, int]] = set()
        self._lowest: tuple[int, float, str] | None = None

    def see(self, row: Row) -> None:
        at, kind, values = row
        if kind == "event" and len(values) > 1 and isinstance(values[1], Mapping):
            event = decode_event(values[1])
            if event is not None:
                self._event(at, str(values[0]), event)
        elif kind == "damage" and values:
            self._add(at, "event", str(values[0]), "warn")
        elif kind == "guard" and len(values) > 1 and isinstance(values[1], Guard):
            self._guard(at, str(values[0]), values[1])
        elif kind == "window" and len(values) > 1 and isinstance(values[1], Mapping):
            pair = values[1].get("mem_available")
            if isinstance(pair, list) and pair and isinstance(pair[0], (int, float)):
                self._memory(at, str(values[0]), int(pair[0]))
        elif kind == "frame" and len(values) > 2 and isinstance(values[2], Mapping):
            host = values[2].get("host")
            text = host.get("meminfo") if isinstance(host, Mapping) else None
            found = _AVAILABLE.search(text) if isinstance(text, str) else None
            if found is not None:
                self._memory(at, str(values[0]), int(found.group(1)) * 1024)

    def _guard(self, at: float, node: str, guard: Guard) -> None:
        if guard.trip is not None and (node, guard.rank) not in self._trips:
            self._trips.add((node, guard.rank))
            left = gib(guard.trip.available_bytes, digits=2)
            self._add(at, "event", f"the memory guard on {node} killed rank {guard.rank} at {left} available", "bad")

    def _memory(self, at: float, node: str, available: int) -> None:
        if self._lowest is None or available < self._lowest[0]:
            self._lowest = (available, at, node)

    def _event(self, at: float, deployment: str, event: Event) -> None:
        if isinstance(event, RankProgress):
            if event.stage is not None and int(event.stage) > self._stage.get(deployment, -1):
                self._stage[deployment] = int(event.stage)
                self._add(at, "stage", f"{event.stage.word}: rank {event.rank} is the first")
            return
        words, severity = self._words(deployment, event)
        if words:
            self._add(at, "event", words, severity)

    def _add(self, at: float, kind: str, words: str, severity: str = "") -> None:
        words = clean_line(words, limit=200)
        last = next((m for m in reversed(self._marks) if m.kind == kind), None)
        together = last is not None and at - last.at <= TOGETHER_S
        if last is not None and together and (last.severity, _shape(last.words)) == (severity, _shape(words)):
            several = last.words if "; likewise" in last.words else f"{last.words}; likewise others"
            self._marks[self._marks.index(last)] = replace(last, words=several)
            return
        self._marks.append(Mark(at, kind, words, severity))

    def _words(self, deployment: str, event: Event) -> tuple[str, str]:
        """What a telling event says in a few words, and how bad it is; empty for one that tells nothing new."""
        match event:
            case BootOpened():
                if deployment in self._opened:
                    return "a console took the boot up again", ""
                self._opened[deployment] = event
                return f"boot {event.number} of {event.recipe} is launched", ""
            case ContainerSeen():
                return self._container(deployment, event)
            case SmokeDone():
                news = self._smoke.get(deployment) is not event.ok
                self._smoke[deployment] = event.ok
                if not news:
                    return "", ""
                return ("the first sane answer", "ok") if event.ok else (f"a bad answer: {event.why}", "bad")
            case BootFailed():
                return f"failed: {event.why}", "bad"
            case CauseFound():
                news = self._cause.get(deployment) != event.cause.sentence
                self._cause[deployment] = event.cause.sentence
                return (f"cause: {event.cause.sentence}", "bad") if news else ("", "")
            case DeadlinePassed():
                return "the deadline passed", "warn"
            case Stalled():
                return (f"nothing moves: {', '.join(event.signs)}", "warn") if event.signs else ("it moves again", "ok")
            case StopStarted():
                self._stopping.add(deployment)
                return f"stop{' by ' + event.by if event.by else ''}", ""
            case StopEnded():
                return f"stop ended: {event.result}", "ok" if event.result in ("stopped", "nothing") else "bad"
            case NodeLost():
                if event.node in self._lost:
                    return "", ""
                self._lost.add(event.node)
                return f"{event.node} does not answer: {event.detail or event.trouble}", "bad"
            case NodeBack():
                self._lost.discard(event.node)
                return f"{event.node} answers again{', rebooted' if event.rebooted else ''}", "ok"
            case Acted():
                return f"{event.action} {event.detail}".strip() + (f", by {event.by}" if event.by else ""), ""
            case _:
                return "", ""

    def _container(self, deployment: str, event: ContainerSeen) -> tuple[str, str]:
        key = (deployment, event.rank)
        before, self._status[key] = self._status.get(key), event.status
        if before == event.status:
            return "", ""
        opening = self._opened.get(deployment)
        named = next((r.node for r in opening.ranks if r.rank == event.rank), "") if opening is not None else ""
        node = event.node or named
        who = f"rank {event.rank}{' on ' + node if node else ''}"
        if event.status == "running":
            return f"{who} runs", ""
        if event.status in ENDED:
            code = "" if event.exit_code is None else f" with exit code {event.exit_code}"
            severity = "" if deployment in self._stopping else "bad"
            return f"{who} ended{code}{', OOM-killed' if event.oom_killed else ''}", severity
        return (f"{who} has no container any more", "") if event.status == "absent" and before is not None else ("", "")

    def marks(self) -> tuple[Mark, ...]:
        if self._lowest is not None:
            available, at, node = self._lowest
            words = clean_line(f"lowest memory: {gib(available)} available on {node}", limit=200)
            self._marks.append(Mark(at, "memory", words, "warn"))
        return tuple(sorted(self._marks, key=lambda m: m.at))


def _shape(words: str) -> str:
    """The words without what differs from rank to rank."""
    return re.sub(r"\d+|\bon \S+|; likewise others", "", words)


def place(position: float, total: float | None) -> str:
    """`12:41 of 31:07`."""
    return f"{duration(position)} of {'?' if total is None else duration(total)}"
