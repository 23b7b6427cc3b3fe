"""Who has the controls, for a hub: held for an action or until released, asked for, handed over, taken, lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from console.base.clock import Clock
from console.base.errors import NightdeckError, UsageError
from console.base.text import clean_line, decode
from console.boot.to_json import stamp
from console.services.hub import ControlsView
from console.services.lease import NO_LEASE, Lease, LeaseHeld, LeaseImpossible, LeaseTaken, named
from console.services.lease_program import EXPIRE_S, PROGRAM, WATCHER
from console.transport.base import Fleet, TransportError

LOOK_TIMEOUT_S: Final = 10.0
# What a console does while it holds them for no action in particular.
AT_THE_CONSOLE: Final = "at the console"


class Controls:
    """One console's side. by: `ann@desk`. told(severity, text): notices. acted(what, detail): the journal.

    A lease that lasts is used by the actions in it; without one each action takes its own. Where another console takes
    a lease away, the action under way is cancelled and ends with LeaseTaken, and nothing begins any more until this
    console holds the controls again."""

    def __init__(
        self,
        fleet: Fleet,
        nodes: Sequence[str],
        by: str,
        clock: Clock,
        *,
        told: Callable[[str, str], None],
        acted: Callable[[str, str], None],
        changed: Callable[[], None],
    ) -> None:
        self._fleet = fleet
        self._nodes = sorted(set(nodes))
        self._by = by
        self._clock = clock
        self._told = told
        self._acted = acted
        self._changed = changed
        self._lease: Lease | None = None  # the one that lasts, or the action's
        self._lasting = False
        self._asking: asyncio.Task[None] | None = None
        self._work: asyncio.Task[object] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._idle = AT_THE_CONSOLE
        self._asks: tuple[str, ...] = ()
        self.view = ControlsView()

    @property
    def taken(self) -> bool:
        """Another has taken them: this console only watches."""
        return self.view.state == "taken"

    def refuse(self) -> None:
        """Raises LeaseTaken where they were taken from us, for whatever wants to begin."""
        if self.taken:
            raise LeaseTaken(self.view.holder)

    # -- for an action ------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def during(
        self, doing: str, *, override: Sequence[str] = (), must: bool = True, take_over: bool = False
    ) -> AsyncIterator[Lease]:
        """The controls for one action. must: where no node can hold them, and `no-lease` is not overridden,
        LeaseImpossible; a stop goes on without (a node must not be kept running by a missing tool). Raises LeaseHeld,
        LeaseTaken (also out of the block, which is cancelled for it)."""
        if not take_over:
            self.refuse()
        self._work = task = asyncio.current_task()
        lost = False
        try:
            if self._lasting and self._lease is not None:
                lease = self._lease
                lease.rename(*self._who(doing))
                try:
                    yield lease
                finally:
                    lease.rename(*self._who(self._idle))
                    await asyncio.sleep(0)  # a loss at the last moment is heard here, not by whoever called
            else:
                async with self._new(doing, "take" if take_over else "hold") as lease:
                    self._took(lease, lasting=False)
                    try:
                        self._able(lease, override, must)
                        self.refuse()
                        yield lease
                    finally:
                        if lease is self._lease:
                            self._free()
        except LeaseHeld as held:
            if not self.taken:
                self._see("other", held.holder)
            raise
        except asyncio.CancelledError:
            # Ours: the lease's loss cancelled the action. Any other cancellation goes on.
            lost = self.taken and task is not None and task.uncancel() == 0
            if not lost:
                raise
        finally:
            self._work = None
        if lost:
            raise LeaseTaken(self.view.holder)

    def _able(self, lease: Lease, override: Sequence[str], must: bool) -> None:
        if not lease.unable:
            return
        rows = "; ".join(f"{node}: {why}" for node, why in list(lease.unable.items())[:4])
        if must and not lease.held and NO_LEASE not in override:
            raise LeaseImpossible(
                f"no node can hold the lock that keeps two consoles from launching at once: {rows}",
                remedy=f"install util-linux there, or --override {NO_LEASE}",
            )
        self._told("warn", f"these nodes hold no lock against a second console: {rows}")

    # -- until released -----------------------------------------------------------------------------------------

    async def hold(self, *, take_over: bool = False, doing: str = AT_THE_CONSOLE) -> ControlsView:
        """Raises LeaseHeld, and LeaseImpossible where no node answered or can lock."""
        if self._lease is not None:
            if self._lasting:
                return self.view
            raise UsageError("an action of this console has the controls already", remedy="wait for its end")
        self._withdraw()
        self._idle = doing
        await self._enter(self._new(doing, "take" if take_over else "hold"))
        return self.view

    async def _enter(self, lease: Lease) -> None:
        old, self._lease = self._lease, None
        if old is not None:
            await old.__aexit__(None, None, None)
        try:
            await lease.__aenter__()
        except LeaseHeld as held:
            if not self.taken:
                self._see("other", held.holder)
            raise
        if not lease.held:
            await lease.__aexit__(None, None, None)
            rows = "; ".join(f"{n}: {why}" for n, why in list(lease.missing.items())[:4])
            raise LeaseImpossible(f"no node can hold the controls: {rows}")
        self._took(lease, lasting=True)
        self.refuse()

    async def ask(self, *, doing: str = AT_THE_CONSOLE) -> ControlsView:
        """Returns once they are ours, or the request was left."""
        if self._lease is not None:
            return await self.hold()
        if self._asking is not None and not self._asking.done():
            return self.view
        self._idle = doing
        left = asyncio.Event()

        def waiting(holder: str) -> None:
            self._see("asking", holder)
            left.set()

        lease = self._new(doing, "ask", waiting)

        async def until_ours() -> None:
            try:
                await self._enter(lease)
                self._told("info", "the controls are yours")
            except NightdeckError as error:
                self._see("unknown", why=error.what)
                self._told("warn", f"the controls did not come: {error.what}")
            finally:
                left.set()

        self._asking = asyncio.create_task(until_ours(), name="ask for the controls")
        await left.wait()
        return self.view

    async def release(self) -> ControlsView:
        """Hand them over, or withdraw the request. Without effect on the lease of an action under way."""
        asking = self._withdraw()
        if asking is not None:
            await asyncio.gather(asking, return_exceptions=True)
            return await self.look()
        if self._lease is not None and self._lasting and self._work is None:
            lease, self._lease = self._lease, None
            asked = ", ".join(lease.asks)
            await lease.__aexit__(None, None, None)
            self._acted("controls released", f"asked for by {asked}" if asked else "")
            self._free()
        return self.view

    async def close(self) -> None:
        asking = self._withdraw()
        if asking is not None:
            await asyncio.gather(asking, return_exceptions=True)
        lease, self._lease = self._lease, None
        if lease is not None and self._lasting:
            await lease.__aexit__(None, None, None)
        if self._leaving is not None:
            await self._leaving

    async def look(self) -> ControlsView:
        """Ask the nodes who has them, without taking anything. What we hold or ask for ourselves is known already;
        where they were taken from us it stays at that."""
        if self._lease is not None or (self._asking is not None and not self._asking.done()):
            return self.view
        answers = await asyncio.gather(*(self._look_at(node) for node in self._nodes))
        said = [a for a in answers if not isinstance(a, str)]
        holders = dict.fromkeys(named(who) for rows in said for who in rows)
        missing = "; ".join(a for a in answers if isinstance(a, str))
        if self.taken:  # a look gives nothing back: that takes holding them again
            self._see("taken", self.view.holder, missing)
            return self.view
        state = "other" if holders else "free" if said else "unknown"
        self._see(state, ", ".join(h or "somebody who does not say" for h in list(holders)[:2]), missing)
        return self.view

    async def holder_who(self, does: Callable[[str], bool]) -> str:
        """The first holder of whom this is true that any node names, in the words of its lease; "" none."""
        asked = [asyncio.ensure_future(self._look_at(node)) for node in self._nodes]
        try:
            for answer in asyncio.as_completed(asked):
                said = await answer
                for holder in map(named, said if isinstance(said, list) else ()):
                    if does(holder):
                        return holder
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return ""

    async def _look_at(self, node: str) -> list[str] | str:
        argv = ["sh", "-c", PROGRAM, "nightdeck-lease", self._by, "look", WATCHER, f"{EXPIRE_S:.0f}"]
        try:
            done = await self._fleet.link(node).run(argv, timeout=LOOK_TIMEOUT_S)
        except TransportError as error:
            return f"{node}: {error.what}"
        lines = [clean_line(line, limit=300) for line in decode(done.stdout).splitlines()]
        if not done.ok or lines[:1] not in (["busy"], ["free"]):
            return f"{node}: {' '.join(lines) or clean_line(decode(done.stderr), limit=300) or 'no answer'}"
        if lines[0] == "free":
            return []
        return [line for line in lines[1:] if not line.startswith("ask ")] or [""]

    # -- what happens -------------------------------------------------------------------------------------------

    def _new(self, doing: str, mode: str, waiting: Callable[[str], None] = lambda _holder: None) -> Lease:
        lease = Lease(
            self._fleet,
            self._nodes,
            self._who(doing)[0],
            since=self._who(doing)[1],
            mode=mode,
            changed=lambda: self._heard(lease),
            waiting=waiting,
        )
        return lease

    def _who(self, doing: str) -> tuple[str, str]:
        return f"{self._by}, {doing}", (stamp(self._clock.wall()) or "")[11:19] + " UTC"

    def _withdraw(self) -> asyncio.Task[None] | None:
        asking, self._asking = self._asking, None
        if asking is None or asking.done():
            return None
        asking.cancel()
        return asking

    def _took(self, lease: Lease, *, lasting: bool) -> None:
        self._lease, self._lasting, self._asks = lease, lasting, ()
        self._see("mine", self._by)
        if lease.taken_by:
            self._lost(lease)
        elif lease.taken_from:
            self._told("warn", f"took the controls from {lease.taken_from}")
            self._acted("controls taken over", f"from {lease.taken_from}")

    def _free(self) -> None:
        self._lease, self._lasting, self._asks = None, False, ()
        self._see("free")

    def _heard(self, lease: Lease) -> None:
        if lease is not self._lease:
            return
        if lease.taken_by:
            self._lost(lease)
            return
        fresh = [a for a in lease.asks if a not in self._asks]
        self._asks = lease.asks
        lost = "; ".join(f"{node}: {why}" for node, why in list(lease.lost.items())[:4])
        self._see("mine", self._by, lost)
        for who in fresh:
            self._told("warn", f"{who} asks for the controls")
            self._acted("controls asked for", f"by {who}")

    def _lost(self, lease: Lease) -> None:
        lasting, by = self._lasting, lease.taken_by
        self._lease, self._lasting = None, False
        self._see("taken", by)
        self._told("error", f"{by} took the controls: this console only watches now")
        self._acted("controls lost", f"to {by}")
        if lasting:  # an action's own lease ends with the action
            self._leaving = asyncio.create_task(lease.__aexit__(None, None, None), name="let go of the controls")
        if self._work is not None:
            self._work.cancel()

    def _see(self, state: str, holder: str = "", why: str = "") -> None:
        asked_by = self._asks if state == "mine" else ()
        self.view = ControlsView(state, holder, asked_by, self._lasting and state == "mine", self._clock.wall(), why)
        self._changed()
