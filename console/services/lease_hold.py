"""The controls of one node: the process there that holds them for as long as its console's beat is heard."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from console.base.text import clean_line, decode
from console.services.lease_program import EXPIRE_S, IN_FLIGHT_S, PROGRAM, WATCHER
from console.transport.base import Link, Stream, TransportError

OPEN_TIMEOUT_S: Final = 15.0
# The node says that it waits for a start under way, or for a holder to go.
WAIT_TIMEOUT_S: Final = IN_FLIGHT_S + 12.0
LET_GO_S: Final = 2.0
BEAT_S: Final = 2.0
# A node that did not answer a beat for so long is not known to hold; it is asked anew.
SILENT_S: Final = EXPIRE_S - 5.0
AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node said. held, or else `holder` (somebody has them), or else `missing`: why it cannot hold them
    (answered: it could be asked). taken_from: who held them until this one took them."""

    node: str
    held: bool
    holder: str = ""
    missing: str = ""
    answered: bool = False
    taken_from: str = ""


class Hold:
    """One node's lock, from `open` to `close`. changed: called when somebody asks, or when the hold ended by itself;
    `ended` then says how: taken_by, or why."""

    def __init__(self, link: Link, who: Callable[[], str], mode: str, changed: Callable[[], None]) -> None:
        self._link = link
        self._who = who
        self._mode = mode
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._go = asyncio.Event()
        self._beat = asyncio.Event()
        self._heard_at = 0.0
        self.waiting: Callable[[Answer], None] = lambda _answer: None
        self.pid: int | None = None
        self.asks: tuple[str, ...] = ()
        self.ended = False
        self.taken_by = ""
        self.why = ""

    @property
    def node(self) -> str:
        return self._link.node

    async def open(self) -> Answer:
        """The node's answer; where it is `held`, the hold stands until `close`. With mode `ask` only that ends it."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(answer), name=f"lease on {self.node}")
        try:
            return await answer
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """End the node's process and wait until it is gone, so that the next hold of this console finds it free. Where
        the node does not answer any more, the end of the channel does the same later."""
        self._go.set()
        task, self._task = self._task, None
        if task is None:
            return
        try:
            if self.pid is not None:
                await asyncio.wait([task], timeout=LET_GO_S + 1.0)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def speak(self) -> None:
        """Tell the node at once who holds now."""
        self._beat.set()

    async def _keep(self, answer: asyncio.Future[Answer]) -> None:
        try:
            said = await self._stream(answer)
        except TransportError as error:
            said = Answer(self.node, False, missing=error.what)
        except TimeoutError:
            said = Answer(self.node, False, missing=f"no answer to the lease in {OPEN_TIMEOUT_S:.0f} s")
        except asyncio.CancelledError:
            if not answer.done():
                answer.set_result(Answer(self.node, False, missing="not asked to the end"))
            raise
        if not answer.done():
            answer.set_result(said)
        elif not self._go.is_set():
            self.ended = True
            self.why = self.why or said.missing or "the node's process ended"
            self._changed()

    async def _stream(self, answer: asyncio.Future[Answer]) -> Answer:
        argv = ["sh", "-c", PROGRAM, "nightdeck-lease", self._who(), self._mode, WATCHER, f"{EXPIRE_S:.0f}"]
        async with self._link.stream(argv, interactive=True, open_timeout=OPEN_TIMEOUT_S) as stream:
            lines = _lines(stream)
            said = await self._first(stream, lines)
            if not said.held:
                return said
            self._heard_at = asyncio.get_running_loop().time()
            answer.set_result(said)
            reader = asyncio.create_task(self._read(lines), name=f"lease words of {self.node}")
            try:
                await self._beats(stream, reader)
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
            await _let_go(stream)
            return said

    async def _first(self, stream: Stream, lines: AsyncIterator[str]) -> Answer:
        """Up to the node's first word that decides: with mode `ask` that may take as long as the other's hold."""
        said: list[str] = []
        from_: list[str] = []
        async with asyncio.timeout(OPEN_TIMEOUT_S) as limit:
            async for line in lines:
                word, _, rest = line.partition(" ")
                now = asyncio.get_running_loop().time()
                if word == "held":
                    self.pid = int(rest) if rest.isdecimal() else None
                    return Answer(self.node, True, taken_from=", ".join(from_[:2]))
                if word == "wait":
                    limit.reschedule(now + WAIT_TIMEOUT_S)
                elif word == "from":
                    from_.append(rest)
                elif line == "end" and self._mode == "ask":
                    self.waiting(Answer(self.node, False, holder=", ".join(said[1:3])))
                    said = []
                    limit.reschedule(now + AGAIN_S + OPEN_TIMEOUT_S)
                    await asyncio.sleep(AGAIN_S)
                    await stream.send(b"again\n")
                else:
                    said.append(line)
        if said[:1] == ["busy"]:
            return Answer(self.node, False, holder=", ".join(said[1:3]))
        done = stream.result()
        why = " ".join(said) or (clean_line(decode(done.stderr), limit=300) if done is not None else "")
        return Answer(self.node, False, missing=why or "the lease ended at once", answered=True)

    async def _beats(self, stream: Stream, reader: asyncio.Task[None]) -> None:
        """Say every now and then that this console lives, until it lets go or the node's process ends."""
        loop = asyncio.get_running_loop()
        go = asyncio.create_task(self._go.wait())
        try:
            while True:
                speak = asyncio.create_task(self._beat.wait())
                await asyncio.wait({go, reader, speak}, timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED)
                speak.cancel()
                self._beat.clear()
                if go.done() or reader.done():
                    break
                if loop.time() - self._heard_at > SILENT_S:
                    self.why = f"no answer to the lease for {SILENT_S:.0f} s"
                    break
                with contextlib.suppress(TimeoutError):  # silence is judged above
                    async with asyncio.timeout(BEAT_S):
                        await stream.send(self._who().encode("utf-8", "replace") + b"\n")
        finally:
            go.cancel()
        if reader.done() and not reader.cancelled():
            reader.result()

    async def _read(self, lines: AsyncIterator[str]) -> None:
        asks: list[str] = []
        async for line in lines:
            self._heard_at = asyncio.get_running_loop().time()
            word, _, rest = line.partition(" ")
            if word == "asks":
                asks = []
            elif word == "ask":
                asks.append(rest)
            elif word == "taken":
                self.taken_by = rest or "another console"
            elif word == "expired":
                self.why = f"this console was not heard for {EXPIRE_S:.0f} s"
            elif word == "beat" and tuple(asks) != self.asks:
                self.asks = tuple(asks[:8])
                self._changed()


async def _lines(stream: Stream) -> AsyncIterator[str]:
    """Clean lines; one without an end is cut at 4 KiB, as a node may say anything."""
    rest = b""
    async for block in stream.blocks():
        *whole, rest = (rest + block).split(b"\n")
        rest = rest[-4096:]
        for line in whole:
            yield clean_line(decode(line[:4096]), limit=400)
    if rest:
        yield clean_line(decode(rest), limit=400)


async def _let_go(stream: Stream) -> None:
    try:
        async with asyncio.timeout(LET_GO_S):
            await stream.end_input()
            async for _ in stream.blocks():
                continue
    except (TransportError, TimeoutError):
        return
