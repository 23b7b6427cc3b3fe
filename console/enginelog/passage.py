"""A rank's way through the stages: what is open, over, passed by, and what a cell shows of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from console.base.absent import Absent
from console.enginelog.lineformat import elapsed
from console.enginelog.progress import Bar
from console.enginelog.records import Record
from console.enginelog.stages_model import Cell, CellState, Stage

NO_BAR: Final = Absent("no progress bar in the log")
# Stages that a rank cannot go around: one without a line of its own is done, by inference, once a later one is reached.
_INEVITABLE: Final = frozenset(
    {Stage.CONTAINER, Stage.IMAGE, Stage.ARGUMENTS, Stage.RENDEZVOUS, Stage.MODEL, Stage.WEIGHTS, Stage.LOADED}
    | {Stage.PROFILE, Stage.KV_CACHE, Stage.HTTP}
)
_OURS: Final = frozenset({Stage.SMOKE, Stage.SERVING})


class Passage:
    """Stages only ever go forward. A stage is opened by a line, and over when a later one opens or a line closes it."""

    def __init__(self, is_head: bool) -> None:
        self.is_head = is_head
        self.progress: Bar | Absent = NO_BAR
        self.backend: str | None = None
        self._opened: dict[Stage, Record] = {}
        self._closed: dict[Stage, tuple[Record, bool]] = {}
        self._skipped: set[Stage] = set()
        self._details: dict[Stage, str] = {}
        self._floor = Stage.IMAGE
        self._failed = False
        self._last_at: float | None = None

    def fail(self, at: float | None = None) -> None:
        """The rank died (its container exited): the stage it is in has failed."""
        if not self._failed:
            self._failed = True
            self._last_at = at if at is not None else self._last_at

    @property
    def failed(self) -> bool:
        return self._failed

    @property
    def passed(self) -> Stage:
        """Every stage below this one is over."""
        return self._floor

    def reached(self, stage: Stage) -> bool:
        """Whether the rank is in the stage or beyond it."""
        return stage in self._opened or stage < self._floor

    def current(self) -> Stage | None:
        """The furthest stage that the log has opened; None before the first line of the engine."""
        return max(self._opened, default=None)

    def opened_at(self, stage: Stage) -> float | None:
        """Epoch seconds of the line that opened the stage, by docker's stamp."""
        opener = self._opened.get(stage)
        return None if opener is None else opener.docker_at

    def durations(self) -> Mapping[Stage, float]:
        """Seconds spent in each stage that is over and that the log timed at both ends: by docker's stamps, else by the
        engine's own clock. This is what `eta.estimate` takes as an earlier boot."""
        out: dict[Stage, float] = {}
        for stage, opener in self._opened.items():
            closer = self._closer(stage) if stage < self._floor else None
            if closer is None:
                continue
            if opener.docker_at is not None and closer.docker_at is not None:
                seconds = closer.docker_at - opener.docker_at
            elif opener.log_at is not None and closer.log_at is not None:
                seconds = elapsed(opener.log_at, closer.log_at)
            else:
                continue
            if seconds >= 0:
                out[stage] = seconds
        return out

    def cells(self) -> tuple[Cell, ...]:
        """All stages in order; see `_INEVITABLE` for those that the log passed over without a word."""
        return tuple(self._cell(stage) for stage in Stage)

    def _cell(self, stage: Stage) -> Cell:
        if stage in _OURS:
            return Cell(stage)
        detail = self._details.get(stage, "")
        opener = self._opened.get(stage)
        if opener is not None:
            over = stage < self._floor
            dead = self._failed and not over and stage == self.current()
            state = CellState.DONE if over else CellState.FAILED if dead else CellState.ACTIVE
            closer = self._closer(stage) if over else None
            until = closer.docker_at if closer is not None else self._last_at if dead else None
            inferred = over and stage in self._closed and self._closed[stage][1]
            progress = self._bar_of(stage) if state is CellState.ACTIVE else None
            return Cell(stage, state, opener.docker_at, until, progress, detail, inferred, opener.index)
        if stage in self._skipped or (stage is Stage.HTTP and not self.is_head):
            return Cell(stage, CellState.SKIPPED, detail=detail)
        if stage < self._floor:
            over_state = CellState.DONE if self._passes_through(stage) else CellState.SKIPPED
            return Cell(stage, over_state, detail=detail, inferred=True)
        return Cell(stage, detail=detail)

    def _passes_through(self, stage: Stage) -> bool:
        return self.backend == "nccl" if stage is Stage.NCCL else stage in _INEVITABLE

    def _closer(self, stage: Stage) -> Record | None:
        if stage in self._closed:
            return self._closed[stage][0]
        later = min((s for s in self._opened if s > stage), default=None)
        return None if later is None else self._opened[later]

    def _bar_of(self, stage: Stage) -> float | None:
        bar = self.progress
        if isinstance(bar, Absent):
            return None
        shown = bar.is_shards if stage is Stage.WEIGHTS else bar.is_graphs and stage in (Stage.PROFILE, Stage.GRAPHS)
        return bar.fraction if shown else None

    def _open(self, stage: Stage, record: Record, detail: str = "") -> None:
        if stage not in self._opened:
            self._opened[stage] = record
        if detail:
            self._details[stage] = detail
        if record.docker_at is not None:
            self._last_at = record.docker_at
        if stage > self._floor:
            self._floor = stage

    def _close(self, stage: Stage, record: Record, *, inferred: bool = False) -> None:
        if stage not in self._closed or (self._closed[stage][1] and not inferred):
            self._closed[stage] = (record, inferred)
        if stage >= self._floor:
            self._floor = Stage(stage + 1)
