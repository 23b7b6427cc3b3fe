"""All ranks' logs side by side: who has joined, who is slowest, and what one rank's line says of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from console.base.absent import Absent
from console.enginelog.numbers import Numbers
from console.enginelog.progress import Bar
from console.enginelog.records import Decoder, Record
from console.enginelog.stages import StageTracker
from console.enginelog.stages_model import Cell, CellState, Stage
from console.enginelog.stats import EngineStats

_MAX_RANKS: Final = 4096


class RankLog:
    """One rank's stream: bytes in, records out; stages, numbers and statistics kept."""

    def __init__(
        self,
        rank: int | None,
        world_size: int | None = None,
        is_head: bool | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        self.decoder = Decoder(rank, secrets=secrets)
        self.tracker = StageTracker(rank, world_size, is_head)

    def feed(self, data: bytes) -> list[Record]:
        records = self.decoder.feed(data)
        self.tracker.feed(records)
        if not data.endswith(b"\n"):
            self.tracker.watch(self.decoder.partial)
        return records

    def finish(self) -> list[Record]:
        records = self.decoder.finish()
        self.tracker.feed(records)
        return records

    @property
    def lines(self) -> int:
        return self.decoder.lines

    @property
    def numbers(self) -> Numbers:
        return self.tracker.numbers()

    @property
    def stats(self) -> EngineStats | Absent:
        return self.tracker.stats

    @property
    def progress(self) -> Bar | Absent:
        return self.tracker.progress


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """joined: ranks whose own log places them in the world. waiting: ranks that wait and have not joined. unheard:
    ranks of which no log says that they came. of: the size of the world. complete: every rank is in it; inferred where
    one rank's joining shows it for all."""

    joined: frozenset[int]
    waiting: frozenset[int]
    unheard: frozenset[int]
    of: int
    complete: bool
    inferred: bool

    def __str__(self) -> str:
        return f"{self.of if self.complete else len(self.joined)}/{self.of}"


class BoardTracker:
    """Logs of ranks 0..world_size-1, rank 0 the head. A stream is a rank's container; where an engine starts several
    workers in one container, the stream's joined ranks all count."""

    def __init__(self, world_size: int, secrets: Iterable[str] = ()) -> None:
        self.world_size = world_size
        self.ranks: dict[int, RankLog] = {
            rank: RankLog(rank, world_size, rank == 0, secrets) for rank in range(min(world_size, _MAX_RANKS))
        }

    def feed(self, rank: int, data: bytes) -> list[Record]:
        """Raises KeyError for a rank outside the world: a fault of the caller's, not of the bytes."""
        return self.ranks[rank].feed(data)

    def finish(self, rank: int) -> list[Record]:
        return self.ranks[rank].finish()

    @property
    def ready(self) -> bool:
        """The head has said "Application startup complete"."""
        return self.ranks[0].tracker.ready if 0 in self.ranks else False

    def rendezvous(self) -> Rendezvous:
        joined: set[int] = set()
        waiting: set[int] = set()
        for log in self.ranks.values():
            joined |= log.tracker.joined
            waiting |= log.tracker.waiting
        everyone = frozenset(range(self.world_size))
        inside, outside = joined & everyone, (waiting - joined) & everyone
        inferred = bool(joined) and inside != everyone
        return Rendezvous(
            frozenset(inside),
            frozenset(outside),
            everyone - inside - outside,
            self.world_size,
            bool(joined),
            inferred,
        )

    def floor(self) -> Stage:
        """The stage below which every rank has passed, by what the ranks' logs say of each other. Inferred: the world
        is made only with all ranks in it, and the head cuts the KV cache from what every rank has left after
        loading."""
        passed = Stage.IMAGE
        for rank, log in self.ranks.items():
            tracker = log.tracker
            if tracker.joined:
                passed = max(passed, Stage.NCCL)
            if tracker.is_head or rank == 0:
                if not isinstance(tracker.numbers().kv_tokens, Absent):
                    passed = max(passed, Stage.KV_CACHE)
                if tracker.passed > Stage.GRAPHS:
                    passed = max(passed, Stage.HTTP)
        return passed

    def cells(self, rank: int) -> tuple[Cell, ...]:
        """The rank's cells, with what other ranks' logs prove of it marked `inferred`."""
        floor = self.floor()
        return tuple(self._lifted(cell, floor, rank) for cell in self.ranks[rank].tracker.cells())

    def current(self, rank: int) -> Stage | None:
        """The furthest stage of a rank, its own log and inference together; None before anything is known."""
        known = [c.stage for c in self.cells(rank) if c.state in (CellState.ACTIVE, CellState.DONE, CellState.FAILED)]
        own = self.ranks[rank].tracker.current()
        return max([*known, *([own] if own is not None else [])], default=None)

    def laggard(self, stage: Stage) -> int | Absent:
        """The rank that is furthest from the end of a stage: least far in stages, then in weights, then the last to be
        through. Absent while no rank has come to the stage, or one cannot tell them apart."""
        if not any(log.tracker.reached(stage) for log in self.ranks.values()):
            return Absent(f"no rank has come to {stage.word}")
        behind = {r: self._standing(r, stage) for r in self.ranks if not self._over(r, stage)}
        if behind:
            worst = min(behind.values())
            slowest = [rank for rank, standing in behind.items() if standing == worst]
            if len(slowest) == 1 or len(slowest) < len(self.ranks):
                return slowest[0]
            return Absent("all ranks stand alike")
        left = {}
        for rank in self.ranks:
            cell = self.ranks[rank].tracker.cells()[stage]
            if cell.until is not None:
                left[rank] = cell.until
        if not left:
            return Absent("the logs carry no time stamps")
        return max(left, key=lambda rank: left[rank])

    def numbers(self) -> Numbers:
        """The head's numbers, with what only a worker said filled in, and the smallest KV memory of all ranks."""
        merged = self.ranks[0].numbers if 0 in self.ranks else Numbers()
        changes: dict[str, object] = {}
        for name in Numbers.__dataclass_fields__:
            if isinstance(getattr(merged, name), Absent) and name not in ("log_rank", "node_rank"):
                for log in self.ranks.values():
                    value = getattr(log.numbers, name)
                    if not isinstance(value, Absent):
                        changes[name] = value
                        break
        limits = [v for log in self.ranks.values() if not isinstance(v := log.numbers.kv_gib, Absent)]
        if limits:
            changes["kv_gib"] = min(limits)
        joined = self.rendezvous().joined
        if joined:
            changes["joined"] = tuple(sorted(joined))
        if any(log.numbers.tcp_fallback for log in self.ranks.values()):
            changes["transport"] = "Socket"
        return replace(merged, **changes)  # type: ignore[arg-type]

    def durations(self) -> Mapping[Stage, float]:
        """Seconds by stage, of the slowest rank: what a boot as a whole spends there."""
        out: dict[Stage, float] = {}
        for log in self.ranks.values():
            for stage, seconds in log.tracker.durations().items():
                out[stage] = max(seconds, out.get(stage, 0.0))
        return out

    def _lifted(self, cell: Cell, floor: Stage, rank: int) -> Cell:
        if cell.stage >= floor or cell.state not in (CellState.PENDING, CellState.ACTIVE, CellState.FAILED):
            return cell
        if cell.state is not CellState.PENDING:
            # Also of a rank that ended: it ended in a later stage than its own log has a word for.
            return replace(cell, state=CellState.DONE, progress=None, inferred=True)
        optional = cell.stage in (Stage.WARMUP, Stage.GRAPHS, Stage.NCCL)
        gone = optional and 0 in self.ranks and self.ranks[0].tracker.cells()[cell.stage].state is CellState.SKIPPED
        return replace(cell, state=CellState.SKIPPED if gone else CellState.DONE, inferred=True)

    def _over(self, rank: int, stage: Stage) -> bool:
        return max(self.ranks[rank].tracker.passed, self.floor()) > stage

    def _standing(self, rank: int, stage: Stage) -> tuple[int, int, float]:
        tracker = self.ranks[rank].tracker
        current = tracker.current()
        passes = tracker.weights_pass if stage is Stage.WEIGHTS else 0
        bar = tracker.progress
        share = 0.0 if isinstance(bar, Absent) else bar.fraction
        return (-1 if current is None else int(current), 0 if isinstance(passes, Absent) else passes, share)
