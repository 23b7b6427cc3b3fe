"""What the hub knows: nodes watched, deployments followed, one picture of it all for every face."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from console.base.absent import Absent
from console.base.clock import Clock
from console.base.secrets import mask_text, secret_values
from console.base.text import clean_line
from console.base.theme import ThemeColours
from console.boot.compare import Comparison
from console.boot.events import BootOpened, Event
from console.boot.to_json import stamp
from console.cluster.model import Cluster
from console.enginelog.records import Record
from console.probe import telemetry_program
from console.recipe.model import SmokePrompt
from console.services.census import Census, Found, take_census
from console.services.compare import compared
from console.services.discovery import by_deployment, open_found
from console.services.follower import Follower
from console.services.helpers import LABEL_HELPER, Helper, find_helpers
from console.services.hub import BootSummary, ControlsView, LogBatch, LogLine, Notice, Snapshot
from console.services.ledger import Ledger
from console.services.log_store import LogStore
from console.services.node_watch import NodeWatch
from console.services.readiness import Readiness
from console.services.replay import BY_LENGTH, ReplayHub
from console.services.replay_rows import Source
from console.services.replay_rows import boot as boot_source
from console.services.series import SeriesBook
from console.services.shelf import Shelf
from console.services.tasks import Owner
from console.services.vigil import Vigil, VigilOptions
from console.telemetry.sample import Sample
from console.transport.base import Fleet

NOTICES = 200
PROBES_START_S = 3.0  # a probe's first frame takes 0.3 s; after this the engine's command is asked
TICK_LATE_S = 3.0
FIGURES_S = 0.5
BOOTS_KEEP_S = 1.0


class Watching:
    """The reading half of `HubApi` over a fleet. One loop owns it; nothing in it blocks."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        fleet: Fleet,
        shelf: Shelf,
        ledger: Ledger,
        clock: Clock,
        read_only: bool = False,
        follow: bool = True,
        interval_s: float = 1.0,
        log_lines: int = 200_000,
        by: str = "",
        vigil: VigilOptions | None = None,
    ) -> None:
        self._cluster = cluster
        self._fleet = fleet
        self._shelf = shelf
        self._ledger = ledger
        self._clock = clock
        self._read_only = read_only
        self._follow = follow
        self._by = by
        self._owner = Owner(self._task_failed)
        self._closed = False
        self._version = 0
        self._snapshot: Snapshot | None = None
        self._touching: asyncio.TimerHandle | None = None
        self._touched_at = 0.0
        self._boots: tuple[float, Sequence[BootSummary]] | None = None
        self._subscribers: set[Callable[[], None]] = set()
        self._listeners: set[Callable[[str, Event], None]] = set()
        self._notices: deque[Notice] = deque(maxlen=NOTICES)
        self._notice_seq = 0
        self._job = ""
        self._controls_view = ControlsView()
        self._followers: dict[str, Follower] = {}
        self._ready: dict[str, Readiness] = {}
        self._show: str | None = None
        self._log = LogStore(log_lines)
        self._series = SeriesBook()
        self._discovering: asyncio.Task[Any] | None = None
        self._looked = False
        self._looking: tuple[int, int] | None = None
        self._known: set[str] = set()
        self._recipes, self._problems = shelf.load()
        loop = asyncio.get_running_loop()

        def ledger_says(text: str) -> None:
            """In the ledger's own thread, as a rule: to draw is the loop's work."""
            with contextlib.suppress(RuntimeError):  # the loop has ended, and whoever looked is gone
                loop.call_soon_threadsafe(self._tell, "error", text)

        ledger.told = ledger_says
        ledger.cluster = cluster.name
        self.vigil = Vigil(
            vigil or VigilOptions(),
            cluster=cluster,
            fleet=fleet,
            clock=clock,
            owner=self._owner,
            series=self._series,
            follower=self._followers.get,
            tell=self._tell,
            touch=self._touch,
            read_only=read_only,
        )
        probe = telemetry_program()
        self._watches = {
            node.name: NodeWatch(
                node,
                fleet.link(node.name),
                probe,
                clock,
                heard=self._sampled,
                trouble_changed=self._node_hook(node.name),
                interval_s=interval_s,
                framed=self.vigil.recorder.frame if self.vigil.recorder is not None else None,
            )
            for node in cluster.nodes
        }

    # -- what faces read ----------------------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        """By the operator's word, or while another has taken the controls."""
        return self._read_only or self._controls_view.state == "taken"

    @property
    def by(self) -> str:
        return self._by

    def now(self) -> float:
        return self._clock.wall()

    def snapshot(self) -> Snapshot:
        if self._snapshot is None or self._snapshot.version != self._version:
            self._snapshot = self._draw()
        return self._snapshot

    def _draw(self) -> Snapshot:
        shown = self._followers.get(self._show) if self._show is not None else None
        ranks = {r.node: r.rank for r in shown.state.ranks} if shown is not None else {}
        now = self._clock.monotonic()
        nodes = tuple(w.view(now, ranks.get(name)) for name, w in self._watches.items())
        return Snapshot(
            version=self._version,
            at=self._clock.wall(),
            cluster=self._cluster,
            nodes=nodes,
            boot=shown.state if shown is not None else None,
            boots=tuple(f.state for f in self._followers.values()),
            recipes=tuple(self._recipes),
            problems=tuple(self._problems),
            notices=tuple(self._notices),
            job=self._job,
            read_only=self.read_only,
            alarms=self.vigil.alarms.all,
            lowest=self.vigil.lowest(nodes),
            controls=self._controls_view,
            looked=self._looked,
            looking=self._looking,
        )

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._subscribers.add(changed)
        return lambda: self._subscribers.discard(changed)

    def listen(self, heard: Callable[[str, Event], None]) -> Callable[[], None]:
        self._listeners.add(heard)
        return lambda: self._listeners.discard(heard)

    def log(self, since_seq: int, *, limit: int = 5000) -> LogBatch:
        return self._log.read(since_seq, limit)

    def series(self, node: str, metric: str, *, seconds: float, points: int) -> Sequence[float | None]:
        return self._series.read(node, metric, seconds=seconds, points=points, now=self._clock.monotonic())

    def themes(self) -> Sequence[ThemeColours]:
        return self._shelf.themes()

    def acknowledge_alarms(self, ident: int | None = None) -> int:
        return self.vigil.alarms.acknowledge(ident, self._by)

    def mute_alarms(self, seconds: float, *, code: str = "", node: str = "") -> None:
        self.vigil.alarms.mute(seconds, code=code, node=node)

    async def test_alarms(self, way: str | None = None) -> Mapping[str, str]:
        return await self.vigil.alarms.test(way)

    def use_terminal(self, write: Callable[[str], None]) -> None:
        self.vigil.use_terminal(write)

    def boots(self) -> Sequence[BootSummary]:
        """Faces ask with every picture, and each look lists a folder: between two acts or events once a second."""
        now = self._clock.monotonic()
        if self._boots is None or now - self._boots[0] >= BOOTS_KEEP_S:
            self._boots = (now, self._ledger.boots())
        return self._boots[1]

    async def open_replay(self, boot: str) -> ReplayHub:
        def opened() -> Source:
            return boot_source(self._ledger.index.find(boot).entry.path)

        return ReplayHub(await asyncio.to_thread(opened), self._clock, themes=self.themes(), speed=BY_LENGTH)

    async def compare_boots(self, *names: str) -> Comparison:
        return await asyncio.to_thread(compared, self._ledger.index, self._recipes, names)

    def save_log(self, rank: int | None) -> str:
        lines = self._log.held(rank)
        text = "".join(f"r{entry.rank} {entry.node} {stamp(entry.at)} {entry.text}\n" for entry in lines)
        which = "all" if rank is None else f"rank{rank}"
        return self._shelf.write_log(f"{self._show or 'log'}-{which}-{int(self._clock.wall())}.log", text)

    def reload_recipes(self) -> None:
        self._recipes, self._problems = self._shelf.load()
        self._touch()

    def changes_since_last(self, recipe: str) -> Sequence[str]:
        now = next((r for r in self._recipes if r.slug == recipe), None)
        return self._ledger.changes(now) if now is not None else ()

    # -- life ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        for name, watch in self._watches.items():
            self._owner.spawn(f"watch {name}", watch.run())
        self._discover()
        self._owner.spawn("tick", self._tick())

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._touching is not None:
            self._touching.cancel()
        await self._owner.close()
        self.vigil.close()
        for follower in self._followers.values():
            follower.close()
        await asyncio.to_thread(self._ledger.close)
        await self._fleet.close()

    async def settled(self, *, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(w.whole.wait() for w in self._watches.values()))
                if self._discovering is not None:
                    await self._discovering
                if not self._follow:
                    await asyncio.gather(*(f.caught_up() for f in self._followers.values()))
                    await asyncio.gather(
                        *(self._ready[n].look() for n, f in self._followers.items() if not f.state.phase.over)
                    )
        except TimeoutError:
            self._tell("warn", f"not everything answered in {timeout:.0f} s; what is missing is shown as unknown")
        self._touch()

    async def _tick(self) -> None:
        """Ages grow without an event: a picture a second at least."""
        last = self._clock.monotonic()
        while True:
            await asyncio.sleep(1.0)
            now = self._clock.monotonic()
            # A console that stood still itself has yet to read what the nodes said meanwhile.
            if now - last < TICK_LATE_S:
                for watch in self._watches.values():
                    watch.overdue(now)
            last = now
            for follower in tuple(self._followers.values()):
                follower.tick()
            snap = self.snapshot()
            self.vigil.tick(snap.nodes, snap.boots)
            self._draw_anew()

    def _touch_soon(self) -> None:
        """Figures are for the eye, and many nodes speak at any moment: one picture for all that came meanwhile."""
        if self._touching is None:
            loop = asyncio.get_running_loop()
            self._touching = loop.call_at(max(loop.time(), self._touched_at + FIGURES_S), self._draw_anew)

    def _touch(self) -> None:
        """Something was done or happened."""
        self._boots = None
        self._draw_anew()

    def _draw_anew(self) -> None:
        if self._touching is not None:
            self._touching.cancel()
            self._touching = None
            self._touched_at = asyncio.get_running_loop().time()
        self._version += 1
        for changed in tuple(self._subscribers):
            changed()

    def _tell(self, severity: str, text: str) -> None:
        self._notice_seq += 1
        self._notices.append(Notice(self._notice_seq, self._clock.wall(), severity, clean_line(mask_text(text))))
        self._touch()

    def tell_of(self, text: str) -> None:
        """Something beside the cluster that whoever opens a console should see once."""
        self._tell("warn", text)

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._tell("error", f"{name} ended with an error of the console's own: {type(error).__name__}: {error}")

    # -- what nodes say -----------------------------------------------------------------------------------------

    def _sampled(self, sample: Sample) -> None:
        self._series.add(sample)
        self.vigil.sampled(sample)
        answer = sample.containers
        for follower in tuple(self._followers.values()):
            follower.sampled(sample)
        if not isinstance(answer, Absent):
            for follower in tuple(self._followers.values()):
                follower.containers(sample.node, answer)
            if not answer.why:
                names = {row.labels.get("nightdeck.deployment", "") for row in answer.rows}
                if names - self._known - {""}:
                    self._known |= names
                    self._discover()
        if sample.rebooted:
            self._tell("warn", f"{sample.node} was rebooted")
        self._touch_soon()

    def _node_hook(self, node: str) -> Callable[[str, str], None]:
        def changed(trouble: str, why: str) -> None:
            for follower in tuple(self._followers.values()):
                follower.node_changed(node, trouble, why)
            self.vigil.node(node, trouble, why)
            self._touch()

        return changed

    # -- deployments --------------------------------------------------------------------------------------------

    def _discover(self) -> None:
        if self._discovering is None or self._discovering.done():
            self._discovering = self._owner.spawn("find deployments", self._find())

    async def _census(self) -> Census:
        """What of ours is on the nodes now, by their probes where they can say."""
        return await take_census(self._fleet, self._cluster, quick=self._quick)

    async def _quick(self, name: str) -> list[Any] | None:
        watch = self._watches.get(name)
        return await watch.census() if watch is not None else None

    def _sees(self, name: str) -> bool:
        watch = self._watches.get(name)
        return watch is not None and watch.can_tell

    async def helpers(self) -> Mapping[str, tuple[Helper, ...] | Absent]:
        """Containers of a moment's use that run on the nodes now, or were left there."""

        async def quick(name: str) -> list[Any] | None:
            return await self._watches[name].census(LABEL_HELPER)

        able = [n.name for n in self._cluster.nodes if not self._watches[n.name].trouble]
        return await find_helpers(self._fleet, self._cluster, able, quick)

    async def _quick_at_first(self, name: str) -> list[Any] | None:
        """The probe is just starting: its first frame takes less time than the engine's command beside it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBES_START_S):
                await self._watches[name].answered.wait()
        return await self._quick(name)

    async def _find(self) -> None:
        census = await take_census(self._fleet, self._cluster, quick=self._quick_at_first)
        self._adopt(census)
        answered = [node for node, rows in census.items() if isinstance(rows, tuple)]
        whole = len(answered) == len(census)
        self._ledger.settle(by_deployment(census).keys(), answered, whole=whole, now=self._clock.wall())

    def _adopt(self, census: Census) -> None:
        """Follow what lives; where nothing does, the newest that ended is still worth showing."""
        groups = by_deployment(census)
        self._known |= groups.keys()
        live = {name: rows for name, rows in groups.items() if any(f.alive for f in rows)}
        chosen = live or dict(list(groups.items())[-1:])
        for name, rows in chosen.items():
            follower = self._followers.get(name) or self._follow_found(rows)
            if follower is not None:
                follower.found(rows)
        self._looked = self._looked or any(isinstance(rows, tuple) for rows in census.values())
        self._choose()

    def _follow_found(self, rows: Sequence[Found]) -> Follower | None:
        event = open_found(rows, now=self._clock.wall())
        if event is None:
            names = ", ".join(f"{f.node}: {f.name}" for f in rows[:4])
            self._tell("warn", f"containers carry our label but tell no rank: {names}")
            return None
        # Its labels name the recipe by its text: another text of the same name may ask something else.
        recipe = next((r for r in self._recipes if (r.slug, r.digest) == (event.recipe, event.digest)), None)
        checks = recipe.smoke if recipe is not None else ()
        return self._open(event, secrets=self._secrets_of(event.recipe), checks=checks)

    async def _who_stops(self, launched_at: float) -> str:
        """Which other console ends a deployment launched then; "" none."""
        del launched_at
        return ""

    def _secrets_of(self, slug: str) -> frozenset[str]:
        """What a deployment of a recipe may echo. A recipe that was edited since seldom has other secrets, and a value
        masked too many costs nothing, so its text need not be the deployment's."""
        found = secret_values(self._cluster.env)
        return found.union(*(secret_values(r.env, r.args) for r in self._recipes if r.slug == slug))

    def _open(
        self, event: BootOpened, *, secrets: frozenset[str] = frozenset(), checks: Sequence[SmokePrompt] = ()
    ) -> Follower:
        follower = Follower(
            event,
            fleet=self._fleet,
            cluster=self._cluster,
            clock=self._clock,
            owner=self._owner,
            keeper=self._ledger.keeper(
                event.deployment, event.number, event.recipe, now=self._clock.wall(), secrets=secrets
            ),
            heard=self._heard,
            lines=self._lines_of(event.deployment),
            follow=self._follow,
            secrets=secrets,
            earlier=self._ledger.stage_times(event.recipe),
            who_stops=self._who_stops,
        )
        self._followers[event.deployment] = follower
        self._ready[event.deployment] = Readiness(follower, self._fleet, self._cluster, self._clock, checks)
        self._known.add(event.deployment)
        for name, watch in self._watches.items():
            if watch.trouble:
                follower.node_changed(name, watch.trouble, watch.why)
        follower.begin()
        if self._follow:
            ready = self._ready[event.deployment]
            self._owner.spawn(f"ready {event.deployment}", ready.until_over())
            self._owner.spawn(f"deadline {event.deployment}", ready.deadline())
            self.vigil.opened(follower)
        self._heard(event.deployment, event)
        return follower

    def _choose(self) -> None:
        """The newest live deployment is on show; without one, the newest."""
        rows = sorted(self._followers.values(), key=lambda f: (not f.state.phase.over, f.state.launched_at))
        newest = rows[-1].state.deployment if rows else None
        if newest != self._show:
            self._show = newest
            self._log.clear()
            if newest is not None:
                self._followers[newest].replay_lines()
        self._touch()

    def _heard(self, deployment: str, event: Event) -> None:
        follower = self._followers.get(deployment)
        if follower is not None:
            self.vigil.heard(follower.state, event)
        for heard in tuple(self._listeners):
            heard(deployment, event)
        self._touch()

    def _lines_of(self, deployment: str) -> Callable[[int, str, Sequence[Record]], None]:
        def lines(rank: int, node: str, records: Sequence[Record]) -> None:
            if deployment != self._show:
                return
            seq = self._log.next_seq
            now = self._clock.wall()
            fresh = tuple(
                LogLine(
                    seq + i,
                    rank,
                    node,
                    r.index,
                    r.docker_at if r.docker_at is not None else now,
                    r.level or "",
                    r.process or "",
                    clean_line(r.text),
                )
                for i, r in enumerate(records)
            )
            self._log.extend(fresh)
            self.vigil.lines(deployment, fresh)
            self._touch()

        return lines
