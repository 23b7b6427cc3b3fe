"""Who holds the controls: a lock on every node, held by a small process there that ends when its console does."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from console.base.errors import NightdeckError
from console.base.text import clean_line
from console.services.lease_hold import BEAT_S, Answer, Hold
from console.transport.base import Fleet

# The word by which a block of a launch's findings is overridden names this code.
NO_LEASE: Final = "no-lease"
# After a hand-over the other console lets go of its nodes one by one.
FOLLOW_S: Final = 5.0
_TOKEN: Final = re.compile(r" ?\[[0-9a-f]{8}\]")


def named(holder: str) -> str:
    """A holder as shown: without the token by which a console knows its own hold."""
    return _TOKEN.sub("", holder).strip()


class LeaseHeld(NightdeckError):
    """Another console holds the controls of a node. holder: `who@host since …`, empty where it did not say."""

    def __init__(self, node: str, holder: str) -> None:
        holder = named(holder)
        super().__init__(
            f"another console has the controls: {holder or 'it did not say who it is'}",
            where=node,
            remedy="nothing was started or stopped here; wait until that has ended, ask for them "
            "(`nightdeck controls --ask`), or take them (`--take-over`)",
        )
        self.node = node
        self.holder = holder


class LeaseImpossible(NightdeckError):
    """No node can lock, so nothing keeps a second console out."""


class LeaseTaken(NightdeckError):
    """Another console took the controls while this one held them. by: who."""

    def __init__(self, by: str) -> None:
        super().__init__(
            f"{by} took the controls: this console only watches now",
            remedy="`nightdeck controls` says who has them; `--ask` asks for them, `--take-over` takes them back",
        )
        self.by = by


class Lease:
    """The controls of some nodes for the length of a block: all of them, or LeaseHeld and none. One use.

    The first node by name is asked alone and decides between two that ask at once; the others follow at once. A node
    that cannot be asked, or that cannot lock, is in `missing` with the reason and is not held: whoever needs all of
    them looks there. Two names of one machine are one lock. who: `name@host, launching x`, shown to who is refused.
    since: when it was asked for, as shown with it. mode: `hold`; `take` ends another's hold first; `ask` waits until
    the other lets go, and tells `waiting` who that is.

    While it is held it is watched: `taken_by` says who took it from us ("": nobody), `asks` who asks for it. A node
    that was lost on the way is held again by itself as soon as it answers. changed: called for each of these."""

    def __init__(
        self,
        fleet: Fleet,
        nodes: Sequence[str],
        who: str,
        *,
        since: str = "",
        mode: str = "hold",
        changed: Callable[[], None] = lambda: None,
        waiting: Callable[[str], None] = lambda _holder: None,
    ) -> None:
        self._fleet = fleet
        self._nodes = sorted(set(nodes))
        self._token = f"[{secrets.token_hex(4)}]"
        self._mode = mode
        self._changed = changed
        self._waiting = waiting
        self._holds: dict[str, Hold] = {}
        self._again: dict[str, asyncio.Task[None]] = {}
        self._closing = False
        self._who = ""
        self.rename(who, since)
        self.missing: dict[str, str] = {}
        self.unable: dict[str, str] = {}  # of the missing: those that answered, and cannot lock
        self.held: tuple[str, ...] = ()
        self.lost: dict[str, str] = {}
        self.taken_by = ""
        self.taken_from = ""

    def rename(self, who: str, since: str = "") -> None:
        """What others are told of this hold from now on."""
        self._who = f"{clean_line(who, limit=200)}{' since ' + since if since else ''} {self._token}"
        for hold in self._holds.values():
            hold.speak()

    @property
    def asks(self) -> tuple[str, ...]:
        """Who asks for the controls; each once."""
        rows = (named(a) for hold in self._holds.values() for a in hold.asks)
        return tuple(dict.fromkeys(r for r in rows if r))

    @property
    def fences(self) -> Mapping[str, tuple[str, str]]:
        """By node: what a start there names, so that it starts nothing once this hold is gone. See `start_argv`."""
        return {
            node: (str(hold.pid), self._token)
            for node, hold in self._holds.items()
            if hold.pid is not None and (node in self.held or node in self.lost)
        }

    async def __aenter__(self) -> Self:
        """Raises LeaseHeld. On any way out without the lease nothing stays locked."""
        try:
            await self._take()
        except BaseException:
            await self._release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.held = ()
        await self._release()

    async def _release(self) -> None:
        """All nodes at once."""
        self._closing = True
        again = tuple(self._again.values())
        for task in again:
            task.cancel()
        await asyncio.gather(*again, return_exceptions=True)
        holds, self._holds = self._holds, {}
        await asyncio.gather(*(hold.close() for hold in holds.values()))

    async def _take(self) -> None:
        rest = list(self._nodes)
        while rest and not self.held:  # a first node that cannot lock decides nothing: the next one does
            self._note([await self._ask(rest.pop(0), self._mode)])
        if rest:
            mode = "hold" if self._mode == "ask" else self._mode
            self._note(await asyncio.gather(*(self._follow(node, mode) for node in rest)))

    def _note(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            if answer.missing:
                self.missing[answer.node] = answer.missing
                if answer.answered:
                    self.unable[answer.node] = answer.missing
            elif answer.held:
                self.held = (*self.held, answer.node)
                self.taken_from = self.taken_from or named(answer.taken_from)
        refused = next((a for a in answers if not a.held and not a.missing), None)
        if refused is not None:
            raise LeaseHeld(refused.node, refused.holder)

    async def _follow(self, node: str, mode: str) -> Answer:
        """A node after the first: where that was handed over, the other console may still be letting go of this."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + (FOLLOW_S if self._mode == "ask" else 0.0)
        while True:
            answer = await self._ask(node, mode)
            if answer.held or answer.missing or loop.time() >= limit:
                return answer
            await asyncio.sleep(0.2)

    async def _ask(self, node: str, mode: str) -> Answer:
        hold = Hold(self._fleet.link(node), lambda: self._who, mode, lambda: self._heard(node))
        hold.waiting = lambda answer: self._waiting(named(answer.holder))
        answer = await hold.open()
        if answer.held:
            self._holds[node] = hold
            return answer
        await hold.close()
        if self._token in answer.holder:
            return Answer(node, True)  # another name of a machine that this lease holds already
        return answer

    # -- while it is held ---------------------------------------------------------------------------------------

    def _heard(self, node: str) -> None:
        hold = self._holds.get(node)
        if self._closing or hold is None:
            return
        if hold.taken_by:
            self._lose(named(hold.taken_by))
        elif hold.ended and node not in self._again:
            self.held = tuple(n for n in self.held if n != node)
            self.lost[node] = hold.why
            del self._holds[node]
            self._again[node] = asyncio.create_task(self._hold_again(node, hold), name=f"lease again on {node}")
        self._changed()

    def _lose(self, by: str) -> None:
        self.taken_by = self.taken_by or by or "another console"
        for task in self._again.values():
            task.cancel()

    async def _hold_again(self, node: str, ended: Hold) -> None:
        """A hold that ended without a word: its connection, its process or this console was away. Whoever got in
        between has the controls now."""
        try:
            await ended.close()
            while not self._closing:
                answer = await self._ask(node, "hold")
                if answer.held and node not in self._holds:
                    # Our own earlier process still stands there; it ends by itself when it hears no beat.
                    self.lost[node] = "the hold from before has not ended yet"
                elif answer.held:
                    self.held = (*self.held, node)
                    del self.lost[node]
                    break
                elif not answer.missing:
                    self._lose(named(answer.holder))
                    break
                else:
                    self.lost[node] = answer.missing
                await asyncio.sleep(BEAT_S)
        finally:
            self._again.pop(node, None)
        self._changed()


__all__ = ["NO_LEASE", "Lease", "LeaseHeld", "LeaseImpossible", "LeaseTaken", "named"]
