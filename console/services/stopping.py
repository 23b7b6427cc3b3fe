"""What the hub does with the controls, and a stop: who may change the nodes, what ends, and what is saved before."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from console.base.errors import UsageError
from console.boot.events import Acted, Event, StopEnded, StopStarted
from console.boot.to_json import stamp
from console.services.census import Census, Found, take_census
from console.services.controls import AT_THE_CONSOLE, Controls
from console.services.discovery import by_deployment
from console.services.follower import Follower
from console.services.helpers import LABEL_HELPER, remove_helpers
from console.services.hub import ControlsView
from console.services.lease import Lease
from console.services.others_stop import stops
from console.services.preparing import Preparing
from console.services.stop import ASK_TIMEOUT_S, Stop
from console.services.tail import Resume, Tail

READ_LOG_S = 60.0
DRAIN_S = 5.0
SWEEP_WAIT_S = 5.0


def _by_rank(rows: Sequence[Found]) -> list[list[Found]]:
    out: dict[tuple[str, int | None], list[Found]] = {}
    for row in rows:
        out.setdefault((row.deployment, row.rank), []).append(row)
    return list(out.values())


class Stopping(Preparing):
    """`Preparing`, the controls, and the end of a deployment."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.controls = Controls(
            self._fleet,
            [n.name for n in self._cluster.nodes],
            self._by,
            self._clock,
            told=self._tell,
            acted=self._acted,
            changed=self._controls_changed,
        )
        self._beside: dict[str, Resume] = {}  # containers whose rank's log is another's, and what was read of them

    async def close(self) -> None:
        """A command that returns at once still waits until its guards stand."""
        await self.vigil.guards_stand()
        await self.controls.close()
        await super().close()

    def _acted(self, action: str, detail: str) -> None:
        """Into the journal of the boot on show; without one the notice alone tells."""
        shown = self._followers.get(self._show or "")
        if shown is not None:
            shown.apply(Acted(self._clock.wall(), action, detail, self._by))

    def _controls_changed(self) -> None:
        self._controls_view = self.controls.view
        self._touch()

    async def stop(
        self,
        deployment: str | None = None,
        *,
        grace_s: float = 30.0,
        take_over: bool = False,
        discard_logs: bool = False,
    ) -> Mapping[str, tuple[str, str]]:
        self._begin_job("stopping", take_over=take_over)
        try:
            async with self._controls("stopping", must=False, take_over=take_over):
                # Beside the stop, whose engines take their time to end; a node that hangs does not make it longer.
                sweep = self._owner.spawn("sweep helpers", self._sweep_helpers())
                stopped = await self._stop(deployment, grace_s, None, discard_logs)
                await asyncio.wait([sweep], timeout=SWEEP_WAIT_S)
                return stopped.results
        finally:
            self._facts_changed()
            self._end_job()

    async def _sweep_helpers(self) -> None:
        seen = await asyncio.gather(*(self._watches[n.name].census(LABEL_HELPER) for n in self._cluster.nodes))
        maybe = [n.name for n, rows in zip(self._cluster.nodes, seen, strict=True) if rows != []]
        left = await remove_helpers(self._fleet, self._cluster, maybe)
        if left:
            words = ", ".join(f"{node}: {len(ids)}" for node, ids in left.items())
            self._tell("info", f"helper containers that a console left behind were removed ({words})")

    def _controls(
        self, doing: str, override: Sequence[str] = (), *, must: bool = True, take_over: bool = False
    ) -> AbstractAsyncContextManager[Lease]:
        return self.controls.during(doing, override=override, must=must, take_over=take_over)

    async def _who_stops(self, deployment: str, launched_at: float) -> str:
        """By what a console of this machine left beside the journal, else by the first node that names one: a node
        that is cut off answers late, and its holder is the others' too."""
        keeper = self._ledger.held(deployment)
        if keeper is not None and (by := await asyncio.to_thread(keeper.stopped_by, self._clock.wall())):
            return by
        return await self.controls.holder_who(lambda holder: stops(holder, launched_at))

    async def _who_launches(self) -> str:
        """Whoever has the controls, this console aside: it knows what it launches."""
        return await self.controls.holder_who(lambda holder: not holder.startswith(self._by))

    async def look_at_controls(self) -> ControlsView:
        return await self.controls.look()

    async def hold_controls(self, *, take_over: bool = False, doing: str = "") -> ControlsView:
        self._may_act("holding the controls")
        return await self.controls.hold(take_over=take_over, doing=doing or AT_THE_CONSOLE)

    async def ask_controls(self) -> ControlsView:
        self._may_act("asking for the controls")
        return await self.controls.ask()

    async def release_controls(self) -> ControlsView:
        return await self.controls.release()

    async def _stop(
        self, deployment: str | None, grace_s: float, census: Census | None, discard_logs: bool = False
    ) -> Stop:
        """The stop, carried out: its results, and what was left.

        One that is followed and named is told at once; of a node that is silent already, the others do not wait."""
        followed = self._followers.get(deployment or "")
        if followed is not None and census is None:
            stop = self._new_stop(deployment, followed, grace_s, discard_logs)
            stop.begin()
            names = [n.name for n in self._cluster.nodes]
            dark = [n for n in names if self._watches[n].trouble and n != followed.state.head_node]
            late = take_census(self._fleet, self._cluster, nodes=dark, timeout=ASK_TIMEOUT_S) if dark else None
            asked = asyncio.ensure_future(late) if late is not None else None
            try:
                lit = [n for n in names if n not in dark]
                before: Census = await take_census(
                    self._fleet, self._cluster, nodes=lit, timeout=ASK_TIMEOUT_S, quick=self._quick
                )
                await self._adopt(before)
                await stop.run(before, asked)
            except BaseException:
                stop.cut_off()
                raise
            finally:
                if asked is not None and not asked.done():
                    asked.cancel()
        else:
            before = census if census is not None else await self._census()
            await self._adopt(before)
            which = None if deployment == "*" else deployment or self._only(before)
            stop = self._new_stop(which, self._followers.get(which or self._show or ""), grace_s, discard_logs)
            await stop.run(before)
        self._choose()
        return stop

    def _new_stop(self, which: str | None, follower: Follower | None, grace_s: float, discard_logs: bool) -> Stop:
        meant = [which] if which is not None else list(self._followers)
        begun = self._clock.wall()
        by = f"{self._by}, stopping since {(stamp(begun) or '')[11:19]} UTC"

        def emit(event: Event) -> None:
            # First, so that whoever sees an end of it finds this.
            if isinstance(event, StopStarted | StopEnded):
                ended, result = (event.at, event.result) if isinstance(event, StopEnded) else (None, "")
                for keeper in filter(None, map(self._ledger.held, meant)):
                    keeper.mark_stop(by, begun, ended, result)
            if follower is not None:
                follower.apply(event)

        return Stop(
            self._fleet,
            self._cluster,
            self._clock,
            emit,
            deployment=which,
            grace_s=grace_s,
            collect=self._collect,
            by=self._by,
            quick=self._quick,
            sees=self._sees,
            discard_logs=discard_logs,
        )

    def _only(self, census: Census) -> str | None:
        """The deployment that is meant when none is named. Raises UsageError where several live."""
        groups = by_deployment(census)
        live = [name for name, rows in groups.items() if any(f.alive for f in rows)]
        if self._show in live:
            return self._show
        if len(live) > 1:
            raise UsageError(
                f"several deployments live: {', '.join(live)}", remedy="name one, or use --all for everything of ours"
            )
        if live:
            return live[0]
        if self._show in groups:
            return self._show
        return next(reversed(groups), None) if groups else self._show or "-"

    async def _collect(self, rows: Sequence[Found]) -> Mapping[str, str]:
        """Save what the containers still hold, before they are removed: of those that could not be, by id, why."""
        followed = {r.deployment for r in rows} & self._followers.keys()
        for name in followed:
            self._followers[name].keep_states([r for r in rows if r.deployment == name])
        if self._follow:
            await asyncio.gather(*(self._followers[name].drained(DRAIN_S) for name in followed))
        await self._take_over(followed)
        # Before any is read: reading one makes the folder that another was not kept in.
        whole = {r.id for r in rows if self._read_whole(r) and self._ledger.keeps(r.deployment)}
        said = await asyncio.gather(*(self._read_rank(ranked, whole) for ranked in _by_rank(rows)))
        read = {ident: why for part in said for ident, why in part.items()}
        # Then the containers go, and with them the nodes' own copies: ours are on the disk before.
        disk = await asyncio.to_thread(self._ledger.unsaved, {r.deployment for r in rows})
        if ended := await self._take_over(disk.keys() & followed):  # whoever wrote these has ended meanwhile
            disk |= dict.fromkeys(ended, "") | await asyncio.to_thread(self._ledger.unsaved, ended)
        why = {r.id: disk.get(r.deployment) or read.get(r.id, "") for r in rows if r.rank is not None}
        return {ident: reason for ident, reason in why.items() if reason}

    async def _take_over(self, deployments: Collection[str]) -> list[str]:
        """Those of these that this console writes, and wrote or caught up with only now."""
        held = {name: self._ledger.held(name) for name in deployments}
        found = [name for name, keeper in held.items() if keeper is not None and (not keeper.owns or keeper.behind)]
        mine = [n for n in found if await self._takeovers[n].now()]
        await asyncio.gather(*(self._takeovers[n].catch_up(READ_LOG_S) for n in mine))
        return mine

    async def _read_rank(self, rows: Sequence[Found], whole: Collection[str]) -> dict[str, str]:
        """One after the other into the log of their rank: several, where a rank has a container on two nodes. whole:
        those whose rank's log is kept to its end."""
        whose = self._whose_log(rows)
        out: dict[str, str] = {}
        for row in sorted(rows, key=lambda r: r is not whose):
            if row is not whose or row.id not in whole:
                out[row.id] = await self._read_log(row, follows=row is whose)
        return out

    def _whose_log(self, rows: Sequence[Found]) -> Found | None:
        """Of one rank's containers, the one whose lines this machine has of the rank; None: none of them is known to
        be it."""
        row, follower = rows[0], self._followers.get(rows[0].deployment)
        place = follower.logs.place(row.rank) if follower is not None and row.rank is not None else None
        if place is None:
            return row if len(rows) == 1 else None
        there = [r for r in rows if r.node == place[0]]
        return there[0] if len(there) == 1 else next((r for r in there if r.name == place[1]), None)

    def _read_whole(self, row: Found) -> bool:
        follower = self._followers.get(row.deployment)
        tail = follower.logs.tails.get(row.rank) if follower is not None and row.rank is not None else None
        return tail is not None and tail.state == "ended" and self._follow

    async def _read_log(self, row: Found, *, follows: bool) -> str:
        """One log, once, into the journal; why it is not whole there. That is told, and keeps no node from stopping.
        follows: what this machine has of the rank is of this container."""
        if row.rank is None:
            return ""
        rank, follower = row.rank, self._followers.get(row.deployment)
        if follows and follower is not None and follower.keeps and rank in follower.logs.tails:
            tail = await follower.logs.read_rest(rank, row.id, READ_LOG_S)
        else:
            tail = await self._read_unfollowed(row, rank, follows=follows)
        if tail.state != "ended":
            self._tell("warn", f"the log of rank {rank} on {row.node} could not be saved whole: {tail.why}")
            # No such container, or none that keeps a log: then nothing is lost by removing it.
            return "" if tail.state in ("gone", "unkept") else tail.why or "it could not be read"
        return ""

    async def _read_unfollowed(self, row: Found, rank: int, *, follows: bool) -> Tail:
        """Into the journal alone, after what it holds of this log. follows: that is all it has of this rank; else it is
        what this console read of this container before, at an earlier stop."""
        now, secrets = self._clock.wall(), self._secrets_of(row.recipe)
        keeper = self._ledger.keeper(row.deployment, row.boot or 0, row.recipe, now=now, secrets=secrets)
        resume = Resume() if follows else self._beside.setdefault(row.id, Resume())
        held = await asyncio.to_thread(keeper.all_lines, rank)
        node = self._cluster.node(row.node)
        tail = Tail(
            self._fleet.link(row.node),
            node.container_cli if node is not None else "docker",
            row.id,
            lambda lines: keeper.log(rank, lines),
            self._clock,
            follow=False,
            resume=resume,
            room=keeper.room,
        )
        if held is None:  # what waits for the disk would be written twice
            tail.why = "this machine's disk does not take what was read of it before"
            return tail
        if follows:
            resume.seed(held)
        elif not keeper.owns:
            others = "another console writes this boot, and reads another container of this rank"
            tail.why = others if keeper.path is not None else "this boot has no folder on this machine"
            return tail
        try:
            async with asyncio.timeout(READ_LOG_S):
                await tail.run()
        except TimeoutError:
            tail.why = f"not read to its end in {READ_LOG_S:.0f} s{': ' + tail.why if tail.why else ''}"
        return tail

    def _tell_kept(self, census: Census) -> None:
        """Ended containers stand in no launch's way, and what they hold may be the only copy."""
        rows = [f for found in census.values() if isinstance(found, tuple) for f in found if not f.alive]
        if rows:
            names = ", ".join(f"{f.node}: {f.name} ({f.status})" for f in rows[:8])
            more = f" and {len(rows) - 8} more" if len(rows) > 8 else ""
            remedy = "`nightdeck stop --all` saves their logs and removes them"
            self._tell("warn", f"kept of earlier boots: {names}{more}; {remedy}")

    def _shown(self) -> Follower:
        shown = self._followers.get(self._show or "")
        if shown is None:
            raise UsageError("there is no boot to do this to")
        return shown
