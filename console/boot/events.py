"""Everything that happens to a deployment, as values: the journal writes them, the reducer adds them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from console.enginelog.causes_model import Cause as Cause
from console.enginelog.stages_model import Cell, Stage


@dataclass(frozen=True, slots=True)
class RankRef:
    """Where a rank runs and what its container is called."""

    rank: int
    node: str
    container: str


@dataclass(frozen=True, slots=True)
class BootOpened:
    """A launch begins, or (adopted=True) a running deployment was found by its labels. at, launched_at: epoch s.

    judge: an answer must be text to count."""

    at: float
    deployment: str
    number: int
    recipe: str
    title: str
    digest: str
    head_node: str
    ranks: tuple[RankRef, ...]
    launched_at: float
    deadline_s: float
    port: int
    served_name: str
    adopted: bool = False
    changed: tuple[str, ...] = ()
    judge: bool = True


@dataclass(frozen=True, slots=True)
class StepChanged:
    """A step of a launch or stop on one node: state is `running`, `done`, `failed` or `unknown`. limit_s: how long a
    running one is waited for, where that is known."""

    at: float
    step: str
    node: str
    state: str
    detail: str = ""
    limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class ContainerSeen:
    """A rank's container as the node's engine describes it. status is the engine's word (`created`, `running`,
    `exited`, `dead`, `paused`), or `absent` when the node answered that there is none; finished_at is then when it was
    taken away. node/container: where it was found, for a rank of which that was not known."""

    at: float
    rank: int
    status: str
    exit_code: int | None = None
    oom_killed: bool | None = None
    started_at: float | None = None
    finished_at: float | None = None
    error: str = ""
    node: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class RankProgress:
    """What a rank's log adds up to by now; replaces the earlier picture of that rank. last_line_at: epoch s on the
    console's clock when the last line came."""

    at: float
    rank: int
    cells: tuple[Cell, ...]
    stage: Stage | None
    progress: float | None
    lines: int
    last_line_at: float | None
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node does not answer. trouble: transport's word (`refused`, `silent`, `lost` ...)."""

    at: float
    node: str
    trouble: str
    detail: str


@dataclass(frozen=True, slots=True)
class NodeBack:
    """A node answers again. booted_at: when it came up, epoch s; alive_at: its last word before that."""

    at: float
    node: str
    rebooted: bool = False
    booted_at: float | None = None
    alive_at: float | None = None


@dataclass(frozen=True, slots=True)
class ApiSeen:
    """What the head's API said, asked on the head. state: `closed`, `starting`, `healthy`, `wrong_model`, `error`."""

    at: float
    state: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SmokeDone:
    """A real request was answered, or not. text: sample of the answer (clean, masked). why: what is wrong with it.
    notes: worth a word, and no fault."""

    at: float
    ok: bool
    text: str = ""
    why: str = ""
    first_token_s: float | None = None
    tokens_per_s: float | None = None
    canary: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StatsSeen:
    """Engine statistics by name: `generation_tokens_per_s`, `running`, `waiting`, `kv_usage`, `acceptance_length`; or
    none, and why: what keeps them from coming."""

    at: float
    values: Mapping[str, float]
    why: str = ""


@dataclass(frozen=True, slots=True)
class EtaChanged:
    """Expected ready time, epoch s, with its band; None when not known, and why.

    stage, stage_at: the slowest rank's stage and when that stage alone ends, which a progress bar can say where nothing
    is known of the rest. in_time: whether the deadline is met; None while the band lies on both sides of it."""

    at: float
    eta_at: float | None
    low_at: float | None = None
    high_at: float | None = None
    why: str = ""
    stage: Stage | None = None
    stage_at: float | None = None
    in_time: bool | None = None


@dataclass(frozen=True, slots=True)
class Stalled:
    """Several signs agree that nothing moves; `signs` names them. An empty tuple takes it back."""

    at: float
    signs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    at: float


@dataclass(frozen=True, slots=True)
class DeadlineMoved:
    """The operator gave the boot more time; deadline_s counts from the launch."""

    at: float
    deadline_s: float


@dataclass(frozen=True, slots=True)
class CauseFound:
    """The best explanation by now; a later one replaces it. others: further findings, most telling first."""

    at: float
    cause: Cause
    others: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class BootFailed:
    """The boot is over: a rank ended or never came to be, or a step failed. `why` in one sentence, with the rank."""

    at: float
    why: str
    rank: int | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class StopStarted:
    """learnt: it is another console's, and was learnt of by what ended, after it began."""

    at: float
    by: str = ""
    learnt: bool = False


@dataclass(frozen=True, slots=True)
class StopSeen:
    """Asked and answered: result is `stopped`, `still_running`, `unknown` or `nothing`."""

    at: float
    node: str
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StopEnded:
    """Every node was asked. result: `stopped`, `partly`, `failed` or `nothing`."""

    at: float
    result: str


@dataclass(frozen=True, slots=True)
class Acted:
    """An operator's action, for the journal: what, by whom, with which detail (an override's code, a note's text)."""

    at: float
    action: str
    detail: str = ""
    by: str = ""


Event = (
    BootOpened
    | StepChanged
    | ContainerSeen
    | RankProgress
    | NodeLost
    | NodeBack
    | ApiSeen
    | SmokeDone
    | StatsSeen
    | EtaChanged
    | Stalled
    | DeadlinePassed
    | DeadlineMoved
    | CauseFound
    | BootFailed
    | StopStarted
    | StopSeen
    | StopEnded
    | Acted
)
