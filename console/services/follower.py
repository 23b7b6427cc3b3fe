"""Following one deployment: containers, logs, the API and the deadline become events, events become state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from console.base.absent import Absent
from console.base.clock import Clock
from console.boot.events import (
    BootOpened,
    ContainerSeen,
    DeadlineMoved,
    Event,
    NodeBack,
    NodeLost,
    RankProgress,
    StopEnded,
    StopStarted,
)
from console.boot.reduce import opened, reduce
from console.boot.state import GONE, BootState, Phase
from console.cluster.model import Cluster
from console.enginelog.board import BoardTracker
from console.enginelog.diagnose_write import write_states
from console.enginelog.records import Record
from console.enginelog.stages_model import Stage
from console.plan.model import Plan
from console.recipe.model import Recipe
from console.services.census import Found
from console.services.explain import Explainer, is_evidence
from console.services.keeper import Keeper
from console.services.left_half import LeftHalf, Who
from console.services.log_store import RecentRecords
from console.services.others_stop import OthersStop, WhoStops, began_at
from console.services.progress import ProgressTeller
from console.services.rank_logs import RankLogs
from console.services.seen import ended_now, seen_of, seen_of_found, taken_at
from console.services.tasks import Owner
from console.telemetry.sample import Container, Containers, Sample
from console.transport.base import Fleet

PROGRESS_BEAT_S = 0.25
LAST_LINES_S = 1.2
LAST_SAMPLES_S = 5.0
LOGS_WAIT_S = 1.0
# A launch starts its ranks within seconds; only after this is a rank that no node has called absent.
ABSENT_AFTER_S = 90.0

LinesSink = Callable[[int, str, Sequence[Record]], None]
REPLAY_LINES = 50_000


class Follower:
    """One deployment, from its opening to its end. heard: each event after it was added up.

    lines: each batch of records of a rank (rank, node, records), in the rank's order. secrets: masked in its logs.
    earlier: seconds by stage of earlier boots of the recipe. who_stops: asked before an end is told. who_launches:
    asked where rank 0 never comes. past: what an earlier console's journal of it adds up to."""

    def __init__(
        self,
        event: BootOpened,
        *,
        fleet: Fleet,
        cluster: Cluster,
        clock: Clock,
        owner: Owner,
        keeper: Keeper,
        heard: Callable[[str, Event], None],
        lines: LinesSink,
        follow: bool = True,
        secrets: frozenset[str] = frozenset(),
        earlier: Sequence[Mapping[Stage, float]] = (),
        who_stops: WhoStops | None = None,
        who_launches: Who | None = None,
        past: BootState | None = None,
    ) -> None:
        self.state: BootState = opened(event)
        self._fleet = fleet
        self._cluster = cluster
        self._clock = clock
        self._owner = owner
        self._keeper = keeper
        self._heard = heard
        self._lines = lines
        self._follow = follow
        self._changed = asyncio.Event()
        self._dirty: set[int] = set()
        self._wake = asyncio.Event()
        self.board = BoardTracker(len(event.ranks), secrets)
        self._progress = ProgressTeller(self.board, earlier, clock.wall())
        self._recent = RecentRecords(REPLAY_LINES)
        self.logs = RankLogs(fleet, cluster, clock, owner, keeper, follow=follow, lines=self._records)
        self._ended: set[int] = set()
        self._ended_at = 0.0
        self._node_alive_at: dict[str, float] = {}  # node -> its last sample, epoch s
        self._alive_at: dict[int, float] = {}  # rank -> when its container was last seen alive, epoch s
        self._explainer = Explainer(self.board, cluster)
        self._stop_at: float | None = None
        self._others = None if who_stops is None else OthersStop(who_stops, clock, owner)
        self._others_at: float | None = None
        self._half = LeftHalf(who_stops, who_launches, lambda: self.state, self.apply, clock, owner)
        self._say: set[str] = set()  # nodes whose engines said what is there
        self._launching = not event.adopted
        self._settled_at = 0.0
        if event.adopted and past is not None:
            self._remember(past)
        self._keeper.event(event)

    def _remember(self, past: BootState) -> None:
        """What an earlier console of this machine knew: when it became ready, what was answered, notes. What the
        nodes say from now on comes on top, so nothing old is taken for current."""
        fresh = tuple(replace(r, reachable=True, trouble="") for r in past.ranks)
        self.state = replace(past, ranks=fresh, adopted=True, stall_signs=())

    def apply(self, event: Event) -> None:
        """Add one event up, keep it, and tell."""
        self.state = reduce(self.state, event)
        if isinstance(event, StopStarted):
            self._stop_at = event.at
        self._explainer.event(event, self._stop_at)
        if self._explainer.suspect:
            self._wake.set()
        self._keeper.event(event)
        if not isinstance(event, RankProgress):
            self._keeper.summary(self.state)
        if self._stop_at is None and is_evidence(event):
            # A stop writes the last word itself: after it containers are gone because they were removed.
            self.keep_states(())
        self._heard(self.state.deployment, event)
        self._changed.set()

    async def changed(self, limit: float) -> None:
        """Wait for the next event, or `limit` seconds."""
        self._changed.clear()
        try:
            async with asyncio.timeout(limit):
                await self._changed.wait()
        except TimeoutError:
            return

    @property
    def keeps(self) -> bool:
        """Whether what comes has a folder to go to."""
        return self._keeper.path is not None

    def launch_over(self) -> None:
        """The launch has ended, however: from now on a rank that had a container and has none has lost it."""
        self._launching = False
        self._settled_at = self._clock.wall()

    def extend_deadline(self, seconds: float) -> None:
        """More time, counted from now where the deadline has passed already."""
        now = self._clock.wall()
        until = max(self.state.deadline_at, now) + seconds
        self.apply(DeadlineMoved(now, until - self.state.launched_at))

    def keep_plan(self, recipe: Recipe, plan: Plan, facts: Mapping[str, object]) -> None:
        self._keeper.plan(recipe, plan, facts)

    def keep_states(self, rows: Sequence[Found]) -> None:
        """What is known beside the logs, into their folder: then it is a folder of evidence. rows: the containers as
        their engines describe them, where they were asked."""
        names = {r.rank: r.container for r in self.state.ranks}
        now = {r.rank: r.status for r in self.state.ranks}
        states = write_states(self._explainer.evidence(self.state, self._clock.wall()), names)
        for row in rows:
            rank = states["ranks"].get(str(row.rank))
            if rank is not None and row.state is not None and row.rank is not None and now[row.rank] == row.status:
                rank.update(container=row.name, state=row.state)
        self._keeper.states(states)

    def replay_lines(self) -> None:
        """Give the newest lines once more, to a face that comes to this deployment."""
        for rank, node, records in self._recent:
            self._lines(rank, node, records)

    def close(self) -> None:
        self._keeper.summary(self.state)

    def sampled(self, sample: Sample) -> None:
        """A node's figures, kept for the boot while it lives, where the node has a rank of it. An end is told at once,
        and the sample that shows why may come a moment after it."""
        if not any(r.node == sample.node for r in self.state.ranks):
            return
        if sample.rebooted:
            self._rebooted(sample, self._node_alive_at.get(sample.node))
        self._node_alive_at[sample.node] = self._clock.wall()
        ended = self.state.ended_at
        over = self.state.phase.over and (ended is None or self._clock.wall() - ended > LAST_SAMPLES_S)
        if over:
            return
        self._keeper.sample(sample)
        self._explainer.sample(sample)
        if not self.state.phase.over:
            self._progress.sample(sample)
        elif self._explainer.suspect:
            self._wake.set()

    def begin(self) -> None:
        """Start what watches; all of it belongs to the owner."""
        self._owner.spawn(f"progress {self.state.deployment}", self._pump())

    def found(self, rows: Sequence[Found], answered: Collection[str] = ()) -> None:
        """What a census says of this deployment's containers. answered: nodes that said all that is there; what a
        journal tells of them is of before."""
        at = self._clock.wall()
        self._say.update(answered)
        there = {r.rank: r for r in rows if r.rank is not None and r.deployment == self.state.deployment}
        for rank in self.state.ranks if not self._launching else ():
            if rank.node in answered and rank.rank not in there and rank.status not in (None, "absent"):
                self._container(ContainerSeen(at, rank.rank, "absent"))
        for number, row in there.items():
            self._container(seen_of_found(row, number, at))

    def containers(self, node: str, answer: Containers) -> None:
        """What a probe's frame says of the containers on its node."""
        if answer.why:
            return
        self._say.add(node)
        rows: dict[int, Container] = {}
        for row in answer.rows:
            if row.labels.get("nightdeck.deployment") != self.state.deployment:
                continue
            text = row.labels.get("nightdeck.rank", "")
            if text.isascii() and text.isdecimal():
                rows[int(text)] = row
        mine = [r for r in self.state.ranks if r.node in (node, "")]
        if self._others is not None and self._stop_at is None and not self._launching and not self.state.phase.over:
            ends = any(r.status == "running" and ended_now(rows.get(r.rank)) for r in mine)
            if self._others.keeps(node, answer, self.state.launched_at, ends=ends, told=self._whose_stop):
                return
        for rank in mine:
            seen = rows.get(rank.rank)
            if seen is not None:
                self._seen(rank.rank, seen, node)
            elif rank.node and not self._launching and (rank.status is not None or self._late()):
                at = taken_at(answer, rank.container) or self._alive_at.get(rank.rank)
                self._container(ContainerSeen(self._clock.wall(), rank.rank, "absent", finished_at=at))
        self._others_end()

    def _whose_stop(self, by: str, kept: Mapping[str, Containers]) -> None:
        if by and self._stop_at is None:
            self._others_at = self._clock.monotonic()
            self.apply(StopStarted(began_at(by, self._clock.wall(), self.state, kept), by, learnt=True))
        for node, answer in kept.items():
            self.containers(node, answer)

    def _others_end(self) -> None:
        """Another console's stop is over for us when nothing is left; `LeftHalf` sees to one that ends before that."""
        stopping = self._others_at is not None and self.state.phase is Phase.STOPPING
        if stopping and all(r.status == "absent" for r in self.state.ranks):
            self.apply(StopEnded(self._clock.wall(), "stopped"))

    def _late(self) -> bool:
        return self._clock.wall() - max(self.state.launched_at, self._settled_at) > ABSENT_AFTER_S

    def _seen(self, rank: int, row: Container, node: str) -> None:
        if isinstance(row.state, Absent):
            return
        if row.state not in GONE:
            self._alive_at[rank] = self._clock.wall()
        self._container(seen_of(rank, row, node, self._clock.wall()))

    def _container(self, event: ContainerSeen) -> None:
        old = next((r for r in self.state.ranks if r.rank == event.rank), None)
        if old is None:
            return
        code = old.exit_code if event.status == "absent" else event.exit_code  # what ended before ended with it
        if (old.status, old.exit_code) != (event.status, code):
            self.apply(event)
            if event.status in GONE and self.state.phase not in (Phase.STOPPING, Phase.STOPPED):
                self._ended.add(event.rank)
                self._ended_at = self._clock.monotonic()
                self._mark_end(event.rank)
        if event.status not in ("absent", "created"):
            node, name = old.node or event.node, old.container or event.container
            if self._launching and event.status not in GONE:
                self.logs.later(event.rank, node, name)
            else:
                self.logs.open(event.rank, node, name)
            if event.status == "running":
                self.logs.goes_on(event.rank)

    def _mark_end(self, rank: int) -> None:
        """The stage in which a rank ended; its last lines may come after its container's end."""
        if rank in self._ended and rank in self.board.ranks:
            self.board.ranks[rank].tracker.fail()
            self._dirty.add(rank)
            self._wake.set()

    def _rebooted(self, sample: Sample, alive_at: float | None) -> None:
        """The node's kernel was started again. What happens after a boot's end is not of the boot; but a node that took
        the boot with it comes back minutes after that. alive_at: the node's last word before, epoch s."""
        if self.state.phase is Phase.STOPPED:
            return
        ended, now = self.state.ended_at, self._clock.wall()
        if self.state.phase.over and (alive_at is None or ended is None or alive_at > ended + LAST_SAMPLES_S):
            return
        up = sample.uptime_s
        self.apply(NodeBack(now, sample.node, True, None if isinstance(up, Absent) else now - up, alive_at))

    def node_changed(self, node: str, trouble: str, why: str) -> None:
        """The way to a node broke, or is there again."""
        if all(r.node != node for r in self.state.ranks):
            return
        at = self._clock.wall()
        self.apply(NodeLost(at, node, trouble, why) if trouble else NodeBack(at, node))

    def _records(self, rank: int, node: str, lines: Sequence[bytes], keep: bool = True) -> None:
        if keep:
            self._keeper.log(rank, lines)
        records = self.board.feed(rank, b"\n".join(lines) + b"\n")
        self._explainer.records(rank, records)
        bar = self.board.ranks[rank].progress
        said_at = next((r.docker_at for r in reversed(records) if r.docker_at is not None), None)
        self._progress.heard(rank, (self._explainer.news(rank), bar), self._clock.wall(), said_at)
        self._mark_end(rank)
        self._recent.add(rank, node, records)
        self._lines(rank, node, records)
        self._dirty.add(rank)
        self._wake.set()

    async def _pump(self) -> None:
        """Stages out of logs, at most four times a second however fast lines come."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._tell_progress()
            await asyncio.sleep(PROGRESS_BEAT_S)
            if self._explainer.suspect:
                self._wake.set()

    def _tell_progress(self, *, lines: bool = False) -> None:
        now = self._clock.wall()
        # A line of the head's can prove something of every rank, so all are looked at; the state takes what changed.
        dirty = set(self.board.ranks) if 0 in self._dirty else set(self._dirty)
        self._dirty.clear()
        for progress in self._progress.ranks(self.state, dirty, now, lines=lines):
            self.apply(progress)
        for event in (self._progress.stats(now), self._progress.eta(self.state, now)):
            if event is not None:
                self.apply(event)
        self.explain()

    def tick(self) -> None:
        """Once a second: what no line tells, because nothing is said."""
        self.logs.open_waiting(older_s=LOGS_WAIT_S)
        if self._progress.behind:
            self._wake.set()
        stalled = self._progress.stall(self.state, self._clock.wall(), self._clock.monotonic())
        if stalled is not None:
            self.apply(stalled)
        if not self._launching:
            self._half.look(self._say, others_stop=self._others_at is not None)

    def explain(self) -> None:
        """The cause, where something speaks for one. The last lines of a rank that ended come a moment after its end:
        without them the first guess would be another's fault."""
        if not self._explainer.suspect:
            return
        if not self.logs.unread(self._ended) or self._clock.monotonic() - self._ended_at > LAST_LINES_S:
            self._look_again()

    def _look_again(self) -> None:
        if self._explainer.suspect and (found := self._explainer.look(self.state, self._clock.wall())) is not None:
            self.apply(found)

    def keep_guard(self, rank: int, text: str) -> None:
        """Lines of what the guard of a rank did, into the boot's folder."""
        if any(r.rank == rank for r in self.state.ranks):
            self._keeper.guard(rank, text)

    def guard_tripped(self, node: str, marker: str) -> None:
        """A guard on a node ended its rank; marker: its numbers in words."""
        self._explainer.guard(node, marker)
        self._wake.set()

    async def conclude(self) -> None:
        """For a face that looks once: the cause by what is known now."""
        if not self._launching:
            await self._half.at_once(self._say)
        self._look_again()

    async def caught_up(self) -> None:
        """Without following: until every log that can be read was read to its end."""
        await self.logs.all_ended()
        self._tell_progress(lines=True)

    async def drained(self, timeout: float) -> None:
        """After the containers ended: until every log came to its end, or the limit."""
        try:
            async with asyncio.timeout(timeout):
                await self.logs.all_ended()
        except TimeoutError:
            return
        finally:
            self._tell_progress(lines=True)
