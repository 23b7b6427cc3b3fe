"""Who holds the controls: a lock on every node, held by a small process there that ends when its console does."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from console.base.errors import NightdeckError
from console.base.text import clean_line, decode
from console.transport.base import Fleet, Link, Stream, TransportError

OPEN_TIMEOUT_S: Final = 15.0
LET_GO_S: Final = 2.0
# The word by which a block of a launch's findings is overridden names this code.
NO_LEASE: Final = "no-lease"
_TOKEN: Final = re.compile(r" ?\[[0-9a-f]{8}\]")

# $1: who. One lock for a machine, whatever a cluster file calls it (the host's name is in it because machines may share
# their /tmp, as a test bed's do). The kernel gives the lock up when this process ends, however it ends, so no lock is
# ever stale; a holder that is just ending is waited for. The file is opened for reading only and never removed: any
# user of the node can lock it, and there is no moment in which two files have one name. Who holds it is told in a file
# of the holder's own, believed only while the process that it names lives.
PROGRAM: Final = """read -r n </proc/sys/kernel/hostname || exit 94
f=${TMPDIR:-/tmp}/nightdeck-lease-$n
if ! command -v flock >/dev/null 2>&1; then echo "no flock on this node"; exit 95; fi
umask 022
[ -e "$f" ] || (set -C; : >"$f") 2>/dev/null
exec 9<"$f" || exit 96
if ! flock -w 0.3 9; then
  echo busy
  for h in "$f".*; do
    [ -f "$h" ] || continue
    read -r pid who <"$h" || [ -n "$pid" ] || continue
    [ -d "/proc/$pid" ] && printf '%s\\n' "$who"
  done
  exit 75
fi
echo held
mine=$f.$(id -u)
trap 'exit 0' TERM HUP INT
trap 'rm -f "$mine"' EXIT
rm -f "$mine"
(set -C; printf '%s %s\\n' "$$" "$1" >"$mine") 2>/dev/null
while read -r line; do :; done
"""


class LeaseHeld(NightdeckError):
    """Another console holds the controls of a node. holder: `who@host since …`, empty where it did not say."""

    def __init__(self, node: str, holder: str) -> None:
        holder = _TOKEN.sub("", holder).strip()
        super().__init__(
            f"another console has the controls: {holder or 'it did not say who it is'}",
            where=node,
            remedy="wait until its launch or stop has ended; nothing was started or stopped here",
        )
        self.node = node
        self.holder = holder


class LeaseImpossible(NightdeckError):
    """No node can lock, so nothing keeps a second console out."""


@dataclass(frozen=True, slots=True)
class _Answer:
    node: str
    held: bool
    holder: str = ""
    missing: str = ""
    answered: bool = False


class Lease:
    """The controls of some nodes for the length of a block: all of them, or LeaseHeld and none. One use.

    The first node by name is asked alone and decides between two that ask at once; the others follow at once. A node
    that cannot be asked, or that cannot lock, is in `missing` with the reason and is not held: whoever needs all of
    them looks there. Two names of one machine are one lock. who: `name@host, launching x`, shown to who is refused.
    since: when it was asked for, as shown with it."""

    def __init__(self, fleet: Fleet, nodes: Sequence[str], who: str, *, since: str = "") -> None:
        self._fleet = fleet
        self._nodes = sorted(set(nodes))
        self._token = f"[{secrets.token_hex(4)}]"
        self._who = f"{clean_line(who, limit=200)}{' since ' + since if since else ''} {self._token}"
        self._holds: list[AbstractAsyncContextManager[_Answer]] = []
        self.missing: dict[str, str] = {}
        self.unable: dict[str, str] = {}  # of the missing: those that answered, and cannot lock
        self.held: tuple[str, ...] = ()

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
        holds, self._holds = self._holds, []
        await asyncio.gather(*(hold.__aexit__(None, None, None) for hold in holds))

    async def _take(self) -> None:
        rest = list(self._nodes)
        while rest and not self.held:  # a first node that cannot lock decides nothing: the next one does
            self._note([await self._ask(rest.pop(0))])
        if rest:
            self._note(await asyncio.gather(*(self._ask(node) for node in rest)))

    def _note(self, answers: Sequence[_Answer]) -> None:
        for answer in answers:
            if answer.missing:
                self.missing[answer.node] = answer.missing
                if answer.answered:
                    self.unable[answer.node] = answer.missing
            elif answer.held:
                self.held = (*self.held, answer.node)
        refused = next((a for a in answers if not a.held and not a.missing), None)
        if refused is not None:
            raise LeaseHeld(refused.node, refused.holder)

    async def _ask(self, node: str) -> _Answer:
        hold = _hold(self._fleet.link(node), self._who)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                answer = await hold.__aenter__()
        except TransportError as error:
            return _Answer(node, False, missing=error.what)
        except TimeoutError:
            return _Answer(node, False, missing=f"no answer to the lease in {OPEN_TIMEOUT_S:.0f} s")
        self._holds.append(hold)
        if not answer.held and self._token in answer.holder:
            return _Answer(node, True)  # another name of a machine that this lease holds already
        return answer


@asynccontextmanager
async def controls(
    fleet: Fleet,
    nodes: Sequence[str],
    who: str,
    *,
    since: str,
    told: Callable[[str], None] = lambda _text: None,
    override: Sequence[str] = (),
    must: bool = True,
) -> AsyncIterator[Lease]:
    """The lease as the hub needs it. told: hears of nodes that answered and cannot lock. must: where no node can hold
    it, and `no-lease` is not overridden, LeaseImpossible; a stop goes on without (a node must not be kept running by a
    missing tool)."""
    async with Lease(fleet, nodes, who, since=since) as lease:
        if lease.unable:
            rows = "; ".join(f"{node}: {why}" for node, why in list(lease.unable.items())[:4])
            if must and not lease.held and NO_LEASE not in override:
                raise LeaseImpossible(
                    f"no node can hold the lock that keeps two consoles from launching at once: {rows}",
                    remedy=f"install util-linux there, or --override {NO_LEASE}",
                )
            told(f"these nodes hold no lock against a second console: {rows}")
        yield lease


@asynccontextmanager
async def _hold(link: Link, who: str) -> AsyncIterator[_Answer]:
    async with link.stream(
        ["sh", "-c", PROGRAM, "nightdeck-lease", who], interactive=True, open_timeout=OPEN_TIMEOUT_S
    ) as stream:
        said = bytearray()
        ended = True
        async for block in stream.blocks():
            said += block[: 4096 - len(said)]
            if said.startswith(b"held\n"):
                ended = False
                break
        if not ended:
            try:
                yield _Answer(link.node, True)
            finally:
                await _let_go(stream)
            return
        lines = [clean_line(line, limit=300) for line in decode(bytes(said)).splitlines()]
        if lines[:1] == ["busy"]:
            yield _Answer(link.node, False, holder=", ".join(lines[1:3]))
            return
        done = stream.result()
        why = " ".join(lines) or (clean_line(decode(done.stderr), limit=300) if done is not None else "")
        yield _Answer(link.node, False, missing=why or "the lease ended at once", answered=True)


async def _let_go(stream: Stream) -> None:
    """End the lock's process and wait until it is gone, so that the next lease of this console finds it free. Where
    the node does not answer any more, the end of the channel does the same later."""
    try:
        async with asyncio.timeout(LET_GO_S):
            await stream.end_input()
            async for _ in stream.blocks():
                continue
    except (TransportError, TimeoutError):
        return
