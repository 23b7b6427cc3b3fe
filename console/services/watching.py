"""What the hub knows: nodes watched, deployments found and followed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from console.base.absent import Absent
from console.base.clock import Clock
from console.base.errors import NightdeckError
from console.base.secrets import secret_values
from console.base.text import clean_line
from console.boot.events import BootOpened, Event
from console.boot.state import BootState
from console.cluster.model import Cluster
from console.enginelog.records import Record
from console.probe import telemetry_program
from console.recipe.model import SmokePrompt
from console.services.census import Census, Found, take_census
from console.services.discovery import by_deployment, open_found, remembered
from console.services.follower import Follower
from console.services.helpers import LABEL_HELPER, Helper, find_helpers
from console.services.hub import LogLine
from console.services.kept import kept_events
from console.services.ledger import Ledger
from console.services.node_watch import NodeWatch
from console.services.picture import Picture
from console.services.readiness import Readiness
from console.services.shelf import Shelf
from console.services.takeover import Takeover
from console.services.tasks import Owner
from console.services.vigil import Vigil, VigilOptions
from console.telemetry.sample import Sample
from console.transport.base import Fleet

PROBES_START_S = 3.0  # a probe's first frame takes 0.3 s; after this the engine's command is asked
TICK_LATE_S = 3.0
# A deployment that a probe shows and no census brought: asked for again so late, since a label may be nonsense.
ASK_AGAIN_S = 30.0


class Watching(Picture):
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
        super().__init__(
            cluster=cluster,
            shelf=shelf,
            ledger=ledger,
            clock=clock,
            read_only=read_only,
            by=by,
            log_lines=log_lines,
        )
        self._fleet = fleet
        self._follow = follow
        self._owner = Owner(self._task_failed)
        self._closed = False
        self._ready: dict[str, Readiness] = {}
        self._takeovers: dict[str, Takeover] = {}
        self._discovering: asyncio.Task[Any] | None = None
        self._known: set[str] = set()  # deployments that were taken up
        self._asked: dict[str, float] = {}  # those that were not, and when a census was begun for them
        self._adopting = asyncio.Lock()
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
                    await asyncio.gather(*(f.conclude() for f in self._followers.values()))
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
            for takeover in tuple(self._takeovers.values()) if self._follow else ():
                takeover.tick()
            snap = self.snapshot()
            self.vigil.tick(snap.nodes, [f.state for f in self._followers.values()])
            self._draw_anew()

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
                self._probe_shows({row.labels.get("nightdeck.deployment", "") for row in answer.rows})
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

    def _probe_shows(self, names: set[str]) -> None:
        """What a probe shows. A census that was begun before may not have it: then the next sample asks for one."""
        now = self._clock.monotonic()
        strange = [n for n in names - self._known - {""} if now - self._asked.get(n, -ASK_AGAIN_S) >= ASK_AGAIN_S]
        if strange and self._discover():
            self._asked |= dict.fromkeys(strange, now)

    def _discover(self) -> bool:
        """False where a census goes on already."""
        idle = self._discovering is None or self._discovering.done()
        if idle:
            self._discovering = self._owner.spawn("find deployments", self._find())
        return idle

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
        await self._adopt(census)
        answered = [node for node, rows in census.items() if isinstance(rows, tuple)]
        whole = len(answered) == len(census)
        self._ledger.settle(by_deployment(census).keys(), answered, whole=whole, now=self._clock.wall())

    async def _adopt(self, census: Census) -> None:
        """Follow what lives; where nothing does, the newest that ended is still worth showing."""
        async with self._adopting:  # two censuses may find the same
            await self._take_up(census)

    async def _take_up(self, census: Census) -> None:
        groups = by_deployment(census)
        live = {name: rows for name, rows in groups.items() if any(f.alive for f in rows)}
        chosen = live or dict(list(groups.items())[-1:])
        answered = [node for node, told in census.items() if isinstance(told, tuple)]
        for name, rows in chosen.items():
            follower = self._followers.get(name) or await self._follow_found(name, rows)
            if follower is not None:
                follower.found(rows, answered)
        self._known |= groups.keys()
        self._looked = self._looked or any(isinstance(rows, tuple) for rows in census.values())
        self._choose()

    async def _follow_found(self, name: str, rows: Sequence[Found]) -> Follower | None:
        event = open_found(rows, now=self._clock.wall())
        if event is None:
            names = ", ".join(f"{f.node}: {f.name}" for f in rows[:4])
            self._tell("warn", f"containers carry our label but tell no rank: {names}")
            return None
        # Its labels name the recipe by its text: another text of the same name may ask something else.
        recipe = next((r for r in self._recipes if (r.slug, r.digest) == (event.recipe, event.digest)), None)
        checks = recipe.smoke if recipe is not None else ()
        # A night's journal takes a third of a second to read and add up.
        past = await asyncio.to_thread(self._past_of, event)
        there = self._followers.get(name)  # a launch of ours that was found while it began
        return there or self._open(event, secrets=self._secrets_of(event.recipe), checks=checks, past=past)

    def _past_of(self, event: BootOpened) -> BootState | None:
        """What the journal of an earlier console of this machine adds up to. In a thread."""
        try:
            entry = self._ledger.entry_of(event.deployment)
            return remembered(event, kept_events(entry.path)) if entry is not None else None
        except NightdeckError as error:
            self._ledger.told(f"what was kept of {event.deployment} cannot be read: {error}")
            return None

    async def _who_stops(self, deployment: str, launched_at: float) -> str:
        """Which other console ends a deployment launched then; "" none."""
        del deployment, launched_at
        return ""

    async def _who_launches(self) -> str:
        """Which other console may launch something now; "" none."""
        return ""

    def _secrets_of(self, slug: str) -> frozenset[str]:
        """What a deployment of a recipe may echo. A recipe that was edited since seldom has other secrets, and a value
        masked too many costs nothing, so its text need not be the deployment's."""
        found = secret_values(self._cluster.env)
        return found.union(*(secret_values(r.env, r.args) for r in self._recipes if r.slug == slug))

    def _open(
        self,
        event: BootOpened,
        *,
        secrets: frozenset[str] = frozenset(),
        checks: Sequence[SmokePrompt] = (),
        past: BootState | None = None,
    ) -> Follower:
        keeper = self._ledger.keeper(
            event.deployment, event.number, event.recipe, now=self._clock.wall(), secrets=secrets
        )
        parts: dict[str, Any] = {
            "fleet": self._fleet,
            "cluster": self._cluster,
            "clock": self._clock,
            "owner": self._owner,
        }
        follower = Follower(
            event,
            **parts,
            keeper=keeper,
            heard=self._heard,
            lines=self._lines_of(event.deployment),
            follow=self._follow,
            secrets=secrets,
            earlier=self._ledger.stage_times(event.recipe),
            who_stops=partial(self._who_stops, event.deployment),
            who_launches=self._who_launches,
            past=past,
        )
        self._followers[event.deployment] = follower
        # Its row is then written anew.
        self._takeovers[event.deployment] = Takeover(keeper, follower.logs, **parts, taken=follower.close)
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
