"""`docker load` on one node, fed from the console under back-pressure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import AsyncExitStack

from console.base.text import clean_line, decode
from console.services.image_chain import Hop
from console.transport.base import Fleet, Stream, TransportError

END_S = 600.0  # what the engine may take to unpack after the last byte


class Load:
    """After a failure blocks are dropped: the other nodes of the same pass go on."""

    def __init__(self, fleet: Fleet, argv: Sequence[str], node: str) -> None:
        self._fleet = fleet
        self._argv = list(argv)
        self._stack = AsyncExitStack()
        self._stream: Stream | None = None
        self._reading: asyncio.Task[None] | None = None
        self.hop = Hop(node, "", self._argv)

    async def open(self) -> None:
        try:
            stream = await self._stack.enter_async_context(
                self._fleet.link(self.hop.node).stream(self._argv, interactive=True)
            )
        except TransportError as error:
            self._fail(error.what)
            return
        self._stream = stream
        self._reading = asyncio.create_task(self._read(stream), name=f"load on {self.hop.node}")

    async def _read(self, stream: Stream) -> None:
        """What the engine prints is read so that it never waits; its exit status is what counts."""
        try:
            async for _ in stream.blocks():
                continue
        except TransportError as error:
            self._fail(error.what)
            return
        result = stream.result()
        if result is not None and result.ok:
            self.hop.done = not self.hop.failed
        else:
            said = decode(result.stderr if result else b"").strip()[-300:]
            self._fail(said or "docker load failed without a word")

    async def send(self, block: bytes) -> None:
        if self._stream is None or self.hop.failed:
            return
        try:
            await self._stream.send(block)
            self.hop.moved += len(block)
        except TransportError as error:
            await self._settled(2.0)  # its own words say more than that it went away
            self._fail(error.what)

    async def finish(self) -> None:
        """The end of the input, and the engine's answer."""
        if self._stream is None or self.hop.failed:
            return
        try:
            await self._stream.end_input()
        except TransportError as error:
            self._fail(error.what)
        if not await self._settled(END_S):
            self._fail(f"docker load did not end in {END_S:.0f} s")

    async def _settled(self, seconds: float) -> bool:
        if self._reading is None:
            return True
        done, _ = await asyncio.wait({self._reading}, timeout=seconds)
        return bool(done)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
        await self._stack.aclose()

    def _fail(self, why: str) -> None:
        if not self.hop.failed:
            self.hop.where, self.hop.failed = "load", clean_line(why, limit=400)
