"""What the ranks' logs add up to, as events: stages, engine figures, the expected time, and whether it stands still."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

from console.base.absent import Absent
from console.boot.events import EtaChanged, RankProgress, Stalled, StatsSeen
from console.boot.state import BootState, Phase
from console.enginelog.board import BoardTracker
from console.enginelog.eta import estimate
from console.enginelog.progress import Bar
from console.enginelog.stages_model import Stage
from console.enginelog.stats import EngineStats
from console.services.stalls import JUDGE_EVERY_S, StallWatch
from console.telemetry.sample import Sample

# News of an expected time: seconds, and the share of what is left, below which a progress bar only trembles.
_ETA_MOVES_S = 2.0
_ETA_MOVES = 0.03
# That a rank wrote more lines, and nothing else, is news for the eye alone.
_LINES_EVERY_S = 1.0
_OLD_S = 60.0


class ProgressTeller:
    """One deployment's. earlier: seconds by stage of earlier boots of the recipe. started_at: epoch seconds."""

    def __init__(self, board: BoardTracker, earlier: Sequence[Mapping[Stage, float]], started_at: float) -> None:
        self._board = board
        self._earlier = earlier
        self._stats: EngineStats | None = None
        self._stall = StallWatch(started_at)
        self._judged_at = started_at
        self._last_line: dict[int, float] = {}
        self._told: dict[int, float] = {}
        self.behind: set[int] = set()

    def heard(self, rank: int, news: object, now: float, said_at: float | None = None) -> None:
        """A rank's log went on. news changes where it said something new. now: epoch seconds.

        said_at: the stamp of the last line. It is another machine's, and counts where it is plainly of before: a log
        that is read again says nothing now."""
        old = said_at is not None and said_at < now - _OLD_S
        self._last_line[rank] = max(said_at or 0.0, self._last_line.get(rank, 0.0)) if old else now
        self._stall.heard(rank, news, now)

    def sample(self, sample: Sample) -> None:
        self._stall.sample(sample)

    def ranks(
        self, state: BootState, dirty: Iterable[int], now: float, *, lines: bool = False
    ) -> Iterator[RankProgress]:
        """Ranks whose picture changed, of those that may have. lines: also those that only wrote more a moment ago."""
        known = {r.rank: r for r in state.ranks}
        for number in sorted({*dirty, *self.behind}):
            log = self._board.ranks[number]
            stage = self._board.current(number)
            event = RankProgress(
                now,
                number,
                self._board.cells(number),
                stage,
                _share(log.progress, stage),
                log.lines,
                self._last_line.get(number),
                log.numbers.as_mapping(),
            )
            old = known.get(number)
            if old is None:
                continue
            grown = old.lines != event.lines
            due = lines or now - self._told.get(number, 0.0) >= _LINES_EVERY_S
            self.behind.discard(number)
            if (grown and due) or old.cells != event.cells or old.stage != event.stage:
                self._told[number] = now
                yield event
            elif grown:
                self.behind.add(number)

    def stats(self, now: float) -> StatsSeen | None:
        """The engine's own figures, where its log brought new ones."""
        stats = self._board.ranks[0].stats if 0 in self._board.ranks else Absent("no head")
        if isinstance(stats, Absent) or stats == self._stats:
            return None
        self._stats = stats
        values = {
            f.name: float(value)
            for f in fields(stats)
            if f.name not in ("source", "engine", "at", "log_at")
            and isinstance(value := getattr(stats, f.name), (int, float))
        }
        # The faces' names for the two rates, beside the log's own.
        for short, name in (("generation_tps", "generation_tokens_per_s"), ("prompt_tps", "prompt_tokens_per_s")):
            if short in values:
                values[name] = values[short]
        # The stamp is another machine's: it counts where it is plainly of before, as in a log that is read again.
        old = isinstance(stats.at, float) and stats.at < now - _OLD_S
        return StatsSeen(stats.at if old and stats.at is not None else now, values)

    def eta(self, state: BootState, now: float) -> EtaChanged | None:
        """Where the slowest rank stands decides; what is not known is said not to be."""
        if state.ready_at is not None or state.phase.over or state.phase is Phase.SERVING_BAD:
            return None
        slowest = min((r for r in state.ranks if r.stage is not None), key=lambda r: int(r.stage or 0), default=None)
        if slowest is None:
            return None
        log = self._board.ranks.get(0)
        eta = estimate(
            slowest.stage,
            now - slowest.stage_since if slowest.stage_since is not None else 0.0,
            earlier=self._earlier,
            bar=log.progress if log is not None else Absent("no head"),
            weights_pass=log.tracker.weights_pass if log is not None else Absent("no head"),
            passes=log.tracker.passes_expected if log is not None else 1,
            deadline_s=state.deadline_at - now,
        )
        event = EtaChanged(
            now,
            _after(now, eta.seconds),
            _after(now, eta.low),
            _after(now, eta.high),
            eta.seconds.reason if isinstance(eta.seconds, Absent) else eta.basis,
            stage=slowest.stage,
            stage_at=_after(now, eta.stage_s),
            in_time=eta.meets_deadline,
        )
        said = (state.eta_why, state.eta_stage, state.eta_in_time)
        moved = _moved(now, event.eta_at, state.eta_at) or _moved(now, event.stage_at, state.eta_stage_at)
        return event if moved or (event.why, event.stage, event.in_time) != said else None

    def stall(self, state: BootState, wall: float, monotonic: float) -> Stalled | None:
        """News of a stall, or of its end; judged every few seconds."""
        if wall - self._judged_at < JUDGE_EVERY_S:
            return None
        self._judged_at = wall
        signs = self._stall.signs(state, state.stats, wall=wall, monotonic=monotonic)
        # The words count the seconds: only the beginning and the end of a stall are news.
        return Stalled(wall, signs) if bool(signs) != bool(state.stall_signs) else None


def _share(bar: Bar | Absent, stage: Stage | None) -> float | None:
    """How far a bar has come, where it is the bar of the stage that the rank is in."""
    if isinstance(bar, Absent):
        return None
    fits = (stage is Stage.WEIGHTS and bar.is_shards) or (stage is Stage.GRAPHS and bar.is_graphs)
    return bar.fraction if fits else None


def _after(now: float, seconds: float | Absent) -> float | None:
    return None if isinstance(seconds, Absent) else now + seconds


def _moved(now: float, new: float | None, old: float | None) -> bool:
    if new is None or old is None:
        return new is not old
    return abs(new - old) > max(_ETA_MOVES_S, _ETA_MOVES * (new - now))
