"""What watches through the night on behalf of a hub: guards on the nodes, alarms, the engine's figures, the trend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from console.base.absent import Absent
from console.base.clock import Clock
from console.base.text import clean_line
from console.boot.events import Event, RankRef
from console.boot.state import BootState, Phase
from console.cluster.model import Cluster
from console.plan.model import LABEL_DEPLOYMENT, LABEL_GUARD, Plan
from console.recipe.model import Recipe
from console.services.alarms import AlarmBook
from console.services.engine_figures import EngineFigures
from console.services.follower import Follower
from console.services.guard import GuardService, marker_text
from console.services.guard_log import GuardLog
from console.services.hub import LogLine, NodeView
from console.services.recorder import Recorder
from console.services.series import SeriesBook
from console.services.tasks import Owner
from console.services.ways_out import Way, make_ways
from console.telemetry.alarm_rules import AlarmPolicy, WaysPolicy
from console.telemetry.guard_policy import GuardPolicy
from console.telemetry.least import lowest_of
from console.telemetry.sample import Float, Guard, GuardTrip, Sample
from console.telemetry.trend import Lowest
from console.transport.base import Fleet

# A guard is there within a second of its container; this long without one is worth an alarm.
UNGUARDED_S: Final = 30.0
GUARDS_STAND_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class VigilOptions:
    """ways: how alarms leave; none by default. recorder: keeps the session in a file, where that was asked for.
    env: the console's own environment, which tells what terminal it draws on."""

    guard: GuardPolicy = field(default_factory=GuardPolicy)
    alarms: AlarmPolicy = field(default_factory=AlarmPolicy)
    ways: Sequence[Way] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    recorder: Recorder | None = None


class Vigil:
    """One for a hub, which calls it for every sample, event and second. Nothing here waits or raises."""

    def __init__(
        self,
        options: VigilOptions,
        *,
        cluster: Cluster,
        fleet: Fleet,
        clock: Clock,
        owner: Owner,
        series: SeriesBook,
        follower: Callable[[str], Follower | None],
        tell: Callable[[str, str], None],
        touch: Callable[[], None],
        read_only: bool,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._fleet = fleet
        self._clock = clock
        self._owner = owner
        self._series = series
        self._follower = follower
        self._tell = tell
        self._read_only = read_only
        self.guards = GuardService(fleet, cluster, options.guard)
        self.alarms = AlarmBook(options.alarms, options.ways, clock, owner.spawn, touch)
        self.recorder = options.recorder
        if self.recorder is not None:
            self.recorder.alarms = lambda: self.alarms.all
        self._empty: dict[str, Float] = {}
        self._slopes: dict[str, Float] = {}
        self._guard_log = GuardLog()
        self._trips: set[tuple[str, str, int]] = set()
        self._starting: list[asyncio.Task[Any]] = []
        self._unguarded: dict[tuple[str, str], float] = {}
        self._serving: set[str] = set()

    def lowest(self, views: Iterable[NodeView]) -> Lowest | None:
        return lowest_of(views, self._empty, self._slopes)

    def sampled(self, sample: Sample) -> None:
        """After the sample was added to the series."""
        if sample.part != "all":
            return
        left = sample.memory.available_bytes
        empty = self._series.seconds_to_empty(sample.node, left, sample.received_at)
        self._empty[sample.node] = self._series.seconds_to_empty_now(sample.node, left, sample.received_at)
        self._slopes[sample.node] = self._series.slope(sample.node, "mem_available", sample.received_at)
        self.alarms.sampled(sample, empty)
        if not isinstance(sample.guards, Absent):
            for guard in sample.guards:
                self._keep(sample, guard)
                if guard.trip is not None:
                    self._tripped(sample, guard, guard.trip)
            self._miss(sample, {g.deployment for g in sample.guards if g.running})

    def tick(self, views: Iterable[NodeView], states: Iterable[BootState]) -> None:
        """Once a second."""
        rows = tuple(views)
        self.alarms.tick(rows)
        self.alarms.boots(states)

    def heard(self, state: BootState, event: Event) -> None:
        """Each event, with the state after it."""
        if self.recorder is not None:
            self.recorder.event(state.deployment, event, state)
        self.alarms.heard(state, event)
        if state.phase is Phase.READY and state.deployment not in self._serving and not self._read_only:
            self._serving.add(state.deployment)
            if self._options.guard.enabled:
                self._owner.spawn(f"tell the guards of {state.deployment}", self._tell_serving(state))

    async def _tell_serving(self, state: BootState) -> None:
        ranks = [RankRef(r.rank, r.node, r.container) for r in state.ranks]
        await self.guards.serving(state.deployment, ranks)
        # Who could not be told finds out by itself: the API answers there too, or time passes.

    def use_terminal(self, write: Callable[[str], None]) -> None:
        """A face lends its terminal; what the settings do not want of it stays off."""
        policy = self._options.alarms.ways
        for way in make_ways(WaysPolicy(policy.bell, policy.terminal), write=write, env=self._options.env):
            self.alarms.add_way(way)

    def node(self, node: str, trouble: str, why: str) -> None:
        """The way to a node broke, or is there again."""
        if self.recorder is not None:
            self.recorder.trouble(node, trouble, why)

    def lines(self, deployment: str, lines: Sequence[LogLine]) -> None:
        if self.recorder is not None:
            self.recorder.lines(deployment, lines)

    def launching(self, plan: Plan, recipe: Recipe) -> None:
        """Start the guards of a launch: each waits on its node for its container, so nothing waits for them."""
        policy = self._options.guard.with_recipe(recipe.guard)
        if policy.enabled:
            self._starting.append(self._owner.spawn(f"guards of {plan.deployment}", self._start(plan, policy)))

    async def guards_stand(self, limit_s: float = GUARDS_STAND_S) -> None:
        """Wait until every guard that was asked for stands or was said not to, or the limit."""
        running = [task for task in self._starting if not task.done()]
        if running:
            await asyncio.wait(running, timeout=limit_s)

    async def _start(self, plan: Plan, policy: GuardPolicy) -> None:
        for node, answer in (await self.guards.start(plan, policy)).items():
            if isinstance(answer, Absent):
                self._tell("warn", f"no memory guard on {node}: {clean_line(answer.reason, limit=300)}")

    def opened(self, follower: Follower) -> None:
        """A deployment is followed from now on, with its logs: the engine's figures are asked too."""
        state = follower.state
        if state.head_node in self._fleet.names:
            figures = EngineFigures(
                lambda: follower.state,
                follower.apply,
                self._fleet.link(state.head_node),
                self._cluster.api_host,
                self._clock,
            )
            self._owner.spawn(f"figures of {state.deployment}", figures.run())

    def close(self) -> None:
        if self.recorder is not None:
            self.recorder.close()

    # -- guards -------------------------------------------------------------------------------------------------

    def _keep(self, sample: Sample, guard: Guard) -> None:
        follower = self._follower(guard.deployment)
        if follower is not None and (lines := self._guard_log.news(sample.node, guard, self._clock.wall())):
            follower.keep_guard(guard.rank, lines)

    def _tripped(self, sample: Sample, guard: Guard, trip: GuardTrip) -> None:
        key = (sample.node, guard.deployment, guard.rank)
        follower = self._follower(guard.deployment)
        if key in self._trips or follower is None:
            return
        self._trips.add(key)
        text = marker_text(trip, guard.rank, sample.node)
        follower.guard_tripped(sample.node, text)
        subject = f"boot {follower.state.number} rank {guard.rank}"
        self.alarms.happen("guard-tripped", subject, text.splitlines()[0].removeprefix("TRIPPED: "), node=sample.node)

    def _miss(self, sample: Sample, guarded: set[str]) -> None:
        """Containers of ours that run without a guard, as those of an earlier version do."""
        if isinstance(sample.containers, Absent) or not self._options.guard.enabled:
            return
        mine = [c for c in sample.containers.rows if c.running and c.labels.get(LABEL_GUARD) != "off"]
        running = {c.labels.get(LABEL_DEPLOYMENT, "") for c in mine} - {""}
        for name in [d for n, d in self._unguarded if n == sample.node and d not in running - guarded]:
            del self._unguarded[(sample.node, name)]
            self.alarms.over("guard-missing", f"{sample.node} {name}")
        for name in running - guarded:
            since = self._unguarded.setdefault((sample.node, name), sample.received_at)
            if sample.received_at - since > UNGUARDED_S:
                text = f"{sample.node}: no memory guard runs beside {name}"
                self.alarms.happen("guard-missing", f"{sample.node} {name}", text, node=sample.node)
