"""What the events of a deployment add up to: one immutable picture that every face draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from console.base.containers import ENDED
from console.boot.events import Cause
from console.enginelog.stages_model import Cell, Stage

# A container whose process is over, and our word for one that is not there.
GONE = ENDED | {"absent"}

# Figures are asked for every five seconds: after three times of it they are of before.
STATS_FRESH_S: Final = 15.0

# The steps of a stop, as each node goes through them; the last only where a node did not answer the first.
STOP_ASK: Final = "ask what is there"
STOP_HEAD: Final = "stop head"
STOP_WORKERS: Final = "stop workers"
STOP_SAVE: Final = "save the log"
STOP_REMOVE: Final = "remove and verify"
STOP_AGAIN: Final = "ask once more"
STOP_STEPS: Final = (STOP_ASK, STOP_HEAD, STOP_WORKERS, STOP_SAVE, STOP_REMOVE, STOP_AGAIN)


class Phase(StrEnum):
    """The words of `status`. `serving_bad`: the API answers but its text is not sane, so ready is withheld."""

    STARTING = "starting"
    BOOTING = "booting"
    READY = "ready"
    DEGRADED = "degraded"
    SERVING_BAD = "serving_bad"
    STALLED = "stalled"
    FAILED = "failed"
    STOPPING = "stopping"
    STOPPED = "stopped"

    @property
    def over(self) -> bool:
        return self in (Phase.FAILED, Phase.STOPPED)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a launch or stop: `states` maps node -> running/done/failed/unknown, `details` node -> text.

    since: node -> when it was asked, epoch s; limits: node -> seconds that its answer is waited for."""

    name: str
    started_at: float
    states: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    since: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RankState:
    """One rank. status: the container's, or None when nothing is known yet. reachable: its node answers.
    trouble: why it does not, as a sentence; trouble_word: the transport's word for it. removed: the container was there
    and was taken away, and no console was stopping the boot. rebooted_at: when its node came up again during the boot,
    alive_at: the node's last word before that (epoch s)."""

    rank: int
    node: str
    container: str
    status: str | None = None
    exit_code: int | None = None
    oom_killed: bool | None = None
    started_at: float | None = None
    finished_at: float | None = None
    error: str = ""
    reachable: bool = True
    trouble: str = ""
    trouble_word: str = ""
    cells: tuple[Cell, ...] = ()
    stage: Stage | None = None
    stage_since: float | None = None
    progress: float | None = None
    lines: int = 0
    last_line_at: float | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    removed: bool = False
    rebooted_at: float | None = None
    alive_at: float | None = None


@dataclass(frozen=True, slots=True)
class BootState:
    """A deployment by now. Times are epoch seconds on the console's clock; deadline_s counts from launched_at.

    seen_from: since when this console looks, of a deployment that it found. unproven: a node went out of sight after
    ready, and no answer has shown since that its rank works.
    smoke_bad: answers in a row that were not sane. failed_by_death: the failure was concluded from a container's end,
    so an earlier end that is learnt of later takes its place. stop_results: node -> (result, detail). stop_at, stop_by:
    when the last stop began and whose it is. gone_at_stop: ranks that had ended before the first stop.
    asks: what the console wants to know (`deadline`, `launch_failed`), empty when nothing."""

    deployment: str
    number: int
    recipe: str
    title: str
    digest: str
    head_node: str
    phase: Phase
    launched_at: float
    deadline_s: float
    port: int
    served_name: str
    ranks: tuple[RankState, ...]
    adopted: bool = False
    seen_from: float | None = None
    judge: bool = True
    changed: tuple[str, ...] = ()
    ready_at: float | None = None
    unproven: bool = False
    ended_at: float | None = None
    api: str = ""
    api_detail: str = ""
    smoke_ok: bool | None = None
    smoke_text: str = ""
    smoke_why: str = ""
    smoke_bad: int = 0
    smoke_notes: tuple[str, ...] = ()
    first_token_s: float | None = None
    tokens_per_s: float | None = None
    stats: Mapping[str, float] = field(default_factory=dict)
    stats_at: float | None = None
    stats_why: str = ""
    eta_at: float | None = None
    eta_low_at: float | None = None
    eta_high_at: float | None = None
    eta_why: str = ""
    eta_stage: Stage | None = None
    eta_stage_at: float | None = None
    eta_in_time: bool | None = None
    stall_signs: tuple[str, ...] = ()
    cause: Cause | None = None
    others: tuple[Cause, ...] = ()
    failed_why: str = ""
    failed_rank: int | None = None
    failed_node: str | None = None
    failed_by_death: bool = False
    steps: tuple[Step, ...] = ()
    stop_results: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    stop_result: str | None = None
    stop_at: float | None = None
    stop_by: str = ""
    gone_at_stop: tuple[int, ...] = ()
    asks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def deadline_at(self) -> float:
        return self.launched_at + self.deadline_s

    @property
    def half_stopped(self) -> bool:
        """A stop has ended, and not every node answered that nothing is left."""
        return self.phase in (Phase.STOPPING, Phase.STOPPED) and self.stop_result in ("partly", "failed")
