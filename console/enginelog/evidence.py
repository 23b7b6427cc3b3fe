"""All that is known of a boot when one asks why it failed: logs, containers, launches, nodes, requests."""

from __future__ import annotations

from dataclasses import dataclass, field

from console.base.absent import Absent
from console.base.containers import ENDED
from console.enginelog.numbers import Numbers
from console.enginelog.signatures_model import Signature
from console.enginelog.stages_model import Cell

NOT_ASKED = Absent("the node's container engine was not asked")


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that a signature found. index: 0-based physical line. values: what the pattern caught. traced: the line
    ends a traceback. more: lines after it that belong to it. log_at: the line's own time, or the last one before it in
    that stream (see Record)."""

    signature: Signature
    values: dict[str, str]
    index: int
    docker_at: float | None
    log_at: float | None
    level: str | None
    process: str | None
    kind: str
    text: str
    traced: bool = False
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A traceback from its first line to the exception that ends it. index: of that last line. frames: its innermost
    places, as `path in function`. known: a signature names the exception. chained: it was raised while another one was
    handled."""

    start: int
    index: int
    docker_at: float | None
    log_at: float | None
    level: str | None
    process: str | None
    frames: tuple[str, ...]
    text: str
    known: bool
    chained: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment in a stream: 0-based line, docker's time (epoch s) and the log's own."""

    index: int
    docker_at: float | None
    log_at: float | None


@dataclass(frozen=True, slots=True)
class Trail:
    """What one rank's log leaves for a diagnosis, in bounded memory. open_trace: it ends within a traceback. ready,
    stop: the first line that says so. still: consecutive statistics lines with requests and no token, at the end, and
    the first of them. lag_grew: the line at which docker's stamps have fallen behind the log's own clock by a minute
    more than at the best moment, and by how many seconds at worst. tail: the last lines. orphans: exceptions among the
    last lines that nothing knows and whose traceback is not at hand. cut: the log ends within a traceback."""

    lines: int = 0
    hits: tuple[Hit, ...] = ()
    traces: tuple[Trace, ...] = ()
    open_trace: bool = False
    first: Mark | None = None
    last: Mark | None = None
    ready: Mark | None = None
    stop: Mark | None = None
    still: int = 0
    still_from: Mark | None = None
    lag_grew: Mark | None = None
    lag_s: float = 0.0
    lag_text: str = ""
    tail: tuple[str, ...] = ()
    orphans: tuple[Trace, ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A rank's container as the node's engine describes it. status: its word (`running`, `exited`, `created`, `dead`,
    `paused`). Times: epoch s."""

    status: str
    exit_code: int | None = None
    oom_killed: bool | None = None
    error: str = ""
    started_at: float | None = None
    finished_at: float | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED or (self.status == "created" and bool(self.error))


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What `docker run` answered on the node. rc None: it was never heard. at: epoch s."""

    rc: int | None
    output: str = ""
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the head answered to a request. ok None: not asked. timed_out: nothing came at all."""

    ok: bool | None
    status: int | None = None
    seconds: float | None = None
    error: str = ""
    text: str = ""

    @property
    def timed_out(self) -> bool:
        words = self.error.lower()
        return self.ok is False and ("timed out" in words or "timeout" in words or "no answer" in words)


@dataclass(frozen=True, slots=True)
class RankEvidence:
    """One rank. trail None: no log at hand (an empty log is a Trail of no lines). container None: the node's engine
    says that there is none. trouble: the transport's word for a node that does not answer (`refused`, `silent`, `lost`,
    `unreachable`, `quiet`). available_low_bytes: lowest MemAvailable of the boot; available_low_at: when (epoch s);
    memory_fell_bytes_s: how fast it fell in the seconds before, None where it did not. low_power: a GPU was busy and
    drew next to nothing, as one that spins in a collective does. clock_latched: for long, and at a low clock too.
    fragmented: free memory lies in small pieces. kernel: lines of the node's kernel log since the launch. guard: a
    memory guard's marker. clock_offset_s: added to docker's stamps of that node. line_offset: physical lines before the
    first that was read. guessed: rank is only that of a log with a head's lines in it. container_id, pids: the
    container's own, and processes of it and of the node's GPUs. fell_before_stop: it had ended when the boot was
    stopped, None where nobody looked. removed: the container ran and was taken away, by no console's stop.
    rebooted_at: when the node came up again, last_alive_at: its last word before that
    (epoch s). removed_at: when it was taken away, by its node's
    clock, None where nobody saw that."""

    rank: int | None
    node: str = ""
    trail: Trail | None = None
    cells: tuple[Cell, ...] = ()
    numbers: Numbers | None = None
    file: str | None = None
    container: ContainerState | Absent | None = NOT_ASKED
    launch: LaunchResult | None = None
    reachable: bool | None = None
    trouble: str = ""
    available_low_bytes: int | None = None
    available_low_at: float | None = None
    memory_fell_bytes_s: float | None = None
    memory_fell: bool = False
    rebooted: bool = False
    low_power: bool = False
    clock_latched: bool = False
    fragmented: bool = False
    kernel: tuple[str, ...] = ()
    guard: str = ""
    addresses: tuple[str, ...] = ()
    clock_offset_s: float = 0.0
    line_offset: int = 0
    guessed: bool = False
    container_id: str = ""
    pids: frozenset[int] = frozenset()
    fell_before_stop: bool | None = None
    removed: bool = False
    removed_at: float | None = None
    rebooted_at: float | None = None
    last_alive_at: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A boot. observed_at, launched_at, stop_at (an operator's stop): epoch s. stall_signs: see `stall`. garbage: what
    is wrong with the text of an answer."""

    ranks: tuple[RankEvidence, ...]
    world_size: int | None = None
    observed_at: float | None = None
    launched_at: float | None = None
    health: Answer | None = None
    request: Answer | None = None
    stop_at: float | None = None
    stall_signs: tuple[str, ...] = ()
    deadline_passed: bool = False
    garbage: str = ""
    addresses: dict[str, int] = field(default_factory=dict)
