"""Why a boot failed, asked again whenever something new speaks for it: logs, containers, launch, nodes, telemetry."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from console.base.absent import Absent, known
from console.boot.events import (
    BootFailed,
    CauseFound,
    ContainerSeen,
    DeadlinePassed,
    Event,
    NodeBack,
    NodeLost,
    SmokeDone,
    Stalled,
    StepChanged,
)
from console.boot.state import GONE, BootState, Phase, RankState
from console.cluster.model import Cluster
from console.enginelog.board import BoardTracker
from console.enginelog.causes import find_cause
from console.enginelog.causes_model import Diagnosis
from console.enginelog.evidence import NOT_ASKED, Answer, ContainerState, Evidence, LaunchResult, RankEvidence
from console.enginelog.evidence_collect import CauseCollector
from console.enginelog.records import Record
from console.services.left_half import NEVER_STARTED
from console.telemetry.sample import Sample
from console.telemetry.thresholds import measures

GIB = 1 << 30
# Less than this was seen only where a node was about to freeze (memory-gb10 5.2, 5.9: healthy heads run at 1.6 GiB).
SCARCE_BYTES = GIB
_KERNEL_LINES = 20
LATCHED_S = 30.0  # as long as the alarm of the same name waits
# Inferred: GiBs free and next to nothing of them in blocks of 2 MiB or more (failures 34).
FREE_BYTES = 4 * GIB
HIGH_ORDER_BYTES = 64 << 20
_OFFSETS = 60
REBOOTED_S = 5.0  # two clocks of one node, and the way of a sample, differ by less
_RECENT = 12
FALL_S = 5.0  # a fall is told by the samples of the last seconds: a node that collapses has no more


class NodeSigns:
    """What a node's telemetry adds to a diagnosis, over the life of one boot."""

    def __init__(self) -> None:
        self.lowest: int | None = None
        self.lowest_at: float | None = None
        self.fall: float | None = None
        self._recent: deque[tuple[float, int]] = deque(maxlen=_RECENT)
        self.kernel: dict[tuple[float, str], float] = {}  # (its stamp, text) -> when, epoch s on the console's clock
        self._alive_at: float | None = None
        self.rebooted_at: float | None = None
        self.last_alive_at: float | None = None
        self.booted_at: float | None = None
        self.containers: dict[str, str] = {}  # name -> id
        self.pids: set[int] = set()
        self._offsets: deque[float] = deque(maxlen=_OFFSETS)
        self.rebooted = False
        self.low_power = False
        self.clock_latched = False
        self.fragmented = False
        self._latched_since: float | None = None

    @property
    def offset(self) -> float:
        """Seconds that the node's clock is ahead. Each sample says that less the time it was under way: the one that
        came soonest is nearest to the truth."""
        return max(self._offsets, default=0.0)

    def add(self, sample: Sample) -> None:
        available = sample.memory.available_bytes
        if known(available) and sample.part == "all":
            self._recent.append((sample.received_at, available))
            if self.lowest is None or available < self.lowest:
                self.lowest = available
                self.lowest_at = sample.heard_at if known(sample.heard_at) else None
                self.fall = _fell(self._recent)
        self._heed_kernel(sample)
        self._heed_processes(sample)
        if known(sample.clock_offset_s):
            self._offsets.append(sample.clock_offset_s)
        self._heed_boot(sample)
        if known(sample.gpus):
            # A hung collective spins at full utilisation and draws next to nothing (failures 17).
            self.low_power = any(
                known(g.util_percent) and known(g.power_w) and g.util_percent > 90 and g.power_w < 30
                for g in sample.gpus
            )
            self._latch(sample)
        free, high = sample.memory.free_bytes, sample.memory.high_order_bytes
        if known(free) and known(high):
            self.fragmented = free >= FREE_BYTES and high < HIGH_ORDER_BYTES

    def _heed_kernel(self, sample: Sample) -> None:
        """A line's stamp is of the clock that the probe tells as `node_time`. One that lies in its future is of another
        kernel's start: when it was written nobody knows, so it proves nothing."""
        if isinstance(sample.kernel, Absent) or isinstance(sample.heard_at, Absent):
            return
        for line in sample.kernel:
            if isinstance(line.uptime_s, Absent) or line.uptime_s > sample.node_time + 1.0:
                continue
            at = sample.heard_at - (sample.node_time - line.uptime_s)
            self.kernel.setdefault((line.uptime_s, line.text), at)
        for old in list(self.kernel)[:-_KERNEL_LINES]:
            del self.kernel[old]

    def kernel_since(self, at: float) -> tuple[str, ...]:
        """Lines that the kernel wrote after that moment, epoch s."""
        return tuple(text for (_, text), written in self.kernel.items() if written > at)

    def _heed_processes(self, sample: Sample) -> None:
        if known(sample.containers):
            for box in sample.containers.rows:
                self.containers[box.name] = box.id
                if known(box.pid):
                    self.pids.add(box.pid)
        if known(sample.gpu_apps):
            self.pids.update(app.pid for app in sample.gpu_apps)

    def _heed_boot(self, sample: Sample) -> None:
        """When the node came up, and its last word before that."""
        if isinstance(sample.heard_at, Absent):
            self.rebooted = self.rebooted or sample.rebooted
            return
        if known(sample.uptime_s):
            self.booted_at = sample.heard_at - sample.uptime_s
        if sample.rebooted:
            self.rebooted = True
            self.rebooted_at = self.booted_at if self.booted_at is not None else sample.heard_at
            self.last_alive_at = self._alive_at
        self._alive_at = sample.heard_at

    def came_up(self, started_at: float | None) -> float | None:
        """When the node came up, where that was after a container's start (epoch s, its node's clock)."""
        if self.rebooted_at is not None:
            return self.rebooted_at
        if started_at is None or self.booted_at is None or started_at - self.offset > self.booted_at - REBOOTED_S:
            return None
        return self.booted_at

    def _latch(self, sample: Sample) -> None:
        """A clock that stays low under load; a moment of it is a load that begins or ends."""
        latched = measures(sample)["gpu_latched"]
        if isinstance(latched, Absent) or latched < 0.5:
            self._latched_since = None
            self.clock_latched = False
            return
        if self._latched_since is None:
            self._latched_since = sample.received_at
        self.clock_latched = sample.received_at - self._latched_since >= LATCHED_S


def _fell(recent: Sequence[tuple[float, int]]) -> float | None:
    """Bytes a second by which memory fell up to the last sample; None where it did not."""
    now, left = recent[-1]
    first, before = next(row for row in recent if row[0] >= now - FALL_S)
    return (before - left) / (now - first) if now > first and before > left else None


class Explainer:
    """One deployment's. `suspect` is True when a new look may find something."""

    def __init__(self, board: BoardTracker, cluster: Cluster) -> None:
        self._board = board
        self._cluster = cluster
        self._collectors = {rank: CauseCollector(rank) for rank in board.ranks}
        self._signs: dict[str, NodeSigns] = {}
        self._launch: dict[str, LaunchResult] = {}
        self._guards: dict[str, str] = {}
        self._stop_at: float | None = None
        self._answered = True
        self._lost_at: dict[str, float] = {}
        self.suspect = False

    def records(self, rank: int, records: list[Record]) -> None:
        collector = self._collectors.get(rank)
        if collector is None:
            return
        collector.feed(records)
        if collector.alarming:
            self.suspect = True

    def news(self, rank: int) -> int:
        """Grows with each line of a rank that says something; a line that says each minute that it waits is none."""
        collector = self._collectors.get(rank)
        return collector.news if collector is not None else 0

    def sample(self, sample: Sample) -> None:
        signs = self._signs.setdefault(sample.node, NodeSigns())
        before = signs.lowest
        signs.add(sample)
        if signs.lowest is not None and signs.lowest < SCARCE_BYTES and (before is None or before >= SCARCE_BYTES):
            self.suspect = True

    def guard(self, node: str, marker: str) -> None:
        """A memory guard's marker was found on a node: it killed the container there, and these are its numbers."""
        self._guards[node] = marker
        self.suspect = True

    def event(self, event: Event, stop_at: float | None) -> None:
        """What happened, as far as it can bring a cause or its end nearer."""
        self._stop_at = stop_at
        if isinstance(event, NodeLost):
            self._answered = False
            self._lost_at.setdefault(event.node, event.at)
        elif isinstance(event, NodeBack):
            self._lost_at.pop(event.node, None)
        elif isinstance(event, SmokeDone) and event.ok:
            self._answered = True
        match event:
            case StepChanged(state="failed" | "done" | "unknown") if event.step.startswith("start"):
                rc = 0 if event.state == "done" else 125 if event.state == "failed" else None
                self._launch[event.node] = LaunchResult(rc, event.detail, event.at)
                self.suspect = self.suspect or event.state == "failed"
            case ContainerSeen() if event.status in GONE:
                self.suspect = True
            case BootFailed() | DeadlinePassed() | NodeLost() | Stalled():
                self.suspect = True
            case SmokeDone(ok=False) | NodeBack(rebooted=True):
                self.suspect = True
            case _:
                return

    def look(self, state: BootState, now: float) -> CauseFound | None:
        """The best explanation by now, when it is another than the one that is known. now: epoch seconds."""
        self.suspect = False
        if state.failed_why == NEVER_STARTED or (state.phase is Phase.STOPPED and not state.failed_why):
            return None  # all is told; what becomes of a node after a stop is no cause
        found = self.diagnose(state, now)
        if found.verdict.good or found.cause is None:
            return None
        if found.cause == state.cause and found.others == state.others:
            return None
        return CauseFound(now, found.cause, found.others)

    def diagnose(self, state: BootState, now: float) -> Diagnosis:
        return find_cause(self.evidence(state, now))

    def evidence(self, state: BootState, now: float) -> Evidence:
        """All that is known of the boot by now, logs and surroundings."""
        addresses = {
            n.fabric_address: r.rank
            for r in state.ranks
            if (n := self._cluster.node(r.node)) is not None and n.fabric_address is not None
        }
        health = None if not state.api else Answer(state.api == "healthy", error=state.api_detail)
        request = (
            None
            # An answer from before a node was lost says nothing of the time since.
            if state.smoke_ok is None or (state.smoke_ok and not self._answered)
            else Answer(state.smoke_ok, error=state.smoke_why if not state.smoke_ok else "", text=state.smoke_text)
        )
        return Evidence(
            ranks=tuple(self._rank(state, rank, addresses) for rank in state.ranks),
            world_size=len(state.ranks),
            observed_at=now,
            launched_at=state.launched_at,
            health=health,
            request=request,
            stop_at=self._stop_at if self._stop_at is not None else state.stop_at,
            stall_signs=state.stall_signs,
            deadline_passed=state.ready_at is None and now > state.deadline_at,
            garbage=state.smoke_why if state.phase is Phase.SERVING_BAD else "",
            addresses=addresses,
        )

    def _rank(self, state: BootState, rank: RankState, addresses: Mapping[str, int]) -> RankEvidence:
        log = self._board.ranks.get(rank.rank)
        collector = self._collectors.get(rank.rank)
        signs = self._signs.get(rank.node, NodeSigns())
        # A node that goes away during a stop, or after it, is no cause.
        later = not rank.reachable and state.stop_at is not None and self._lost_at.get(rank.node, 0.0) >= state.stop_at
        rebooted_at = rank.rebooted_at if rank.rebooted_at is not None else signs.came_up(rank.started_at)
        return RankEvidence(
            rank=rank.rank,
            node=rank.node,
            trail=collector.trail() if collector is not None and (rank.lines or rank.status is not None) else None,
            cells=rank.cells,
            numbers=log.numbers if log is not None else None,
            file=f"rank{rank.rank}.log",
            container=_container(rank),
            launch=self._launch.get(rank.node),
            reachable=None if later else rank.reachable,
            trouble=rank.trouble_word if not rank.reachable else "",
            available_low_bytes=signs.lowest,
            available_low_at=signs.lowest_at,
            memory_fell_bytes_s=signs.fall,
            memory_fell=signs.lowest is not None and signs.lowest < SCARCE_BYTES,
            rebooted=rebooted_at is not None or signs.rebooted,
            rebooted_at=rebooted_at,
            last_alive_at=rank.alive_at if rank.alive_at is not None else signs.last_alive_at,
            low_power=signs.low_power,
            clock_latched=signs.clock_latched,
            fragmented=signs.fragmented,
            kernel=signs.kernel_since(state.launched_at),
            guard=self._guards.get(rank.node, ""),
            addresses=tuple(a for a, r in addresses.items() if r == rank.rank),
            clock_offset_s=-signs.offset,
            container_id=signs.containers.get(rank.container, ""),
            pids=frozenset(signs.pids),
            fell_before_stop=None if state.stop_at is None else rank.rank in state.gone_at_stop,
            removed=rank.removed,
            removed_at=rank.finished_at if rank.removed else None,
        )


def _container(rank: RankState) -> ContainerState | Absent | None:
    if rank.status is None:
        return NOT_ASKED
    if rank.status == "absent" and (rank.removed or rank.exit_code is None):
        return None
    status = "exited" if rank.status == "absent" else rank.status  # it ended, and was removed afterwards
    return ContainerState(status, rank.exit_code, rank.oom_killed, rank.error, rank.started_at, rank.finished_at)


def is_evidence(event: Event) -> bool:
    """Whether it tells of a failure something that no log does."""
    match event:
        case BootFailed() | CauseFound() | DeadlinePassed() | NodeBack() | NodeLost() | Stalled():
            return True
        case ContainerSeen(status=status):
            return status in GONE
        case StepChanged(state=state):
            return state in ("failed", "unknown")
        case SmokeDone(ok=ok):
            return not ok
        case _:
            return False
