"""One command on one SSH channel: its output under back-pressure, its end, and the ways it can break."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

import asyncssh
from asyncssh.constants import EXTENDED_DATA_STDERR

from console.base.errors import UsageError
from console.base.text import clean_line
from console.transport.base import Completed, TransportError, Trouble
from console.transport.framing import Unframer
from console.transport.ssh_errors import shell_refused

BLOCK_BYTES: Final = 64 * 1024
# Held here before the channel is paused; the channel's own window (2 MiB) comes on top.
HELD_BYTES: Final = 256 * 1024
STDERR_TAIL_BYTES: Final = 64 * 1024
SEND_LIMIT_S: Final = 60.0


class Tail:
    """The last bytes of a flow."""

    def __init__(self, limit: int = STDERR_TAIL_BYTES) -> None:
        self._limit = limit
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > self._limit:
            del self._data[: -self._limit]

    def take(self) -> bytes:
        return bytes(self._data)


class CommandSession(asyncssh.SSHClientSession[bytes]):
    """Callbacks of a channel turned into blocks and an end. Own session rather than asyncssh's process: that one
    ends without an error when the connection is lost, and gives no say over what is held.

    mark: what the command line prints on both outputs before the command's own; all before it is dropped."""

    def __init__(self, node: str, mark: bytes = b"") -> None:
        self.node = node
        self._out = Unframer(mark)
        self._err = Unframer(mark)
        self._chan: asyncssh.SSHClientChannel[bytes] | None = None
        self._blocks: deque[bytes] = deque()
        self._held = 0
        self._paused = False
        self._stderr = Tail()
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = False
        self._lost: Exception | None = None
        self._status: int | None = None
        self._signal: str | None = None

    # -- what asyncssh calls --

    def connection_made(self, chan: Any) -> None:
        self._chan = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype == EXTENDED_DATA_STDERR:
            self._stderr.add(self._err.take(data))
            return
        data = self._out.take(data)
        for at in range(0, len(data), BLOCK_BYTES):
            self._blocks.append(data[at : at + BLOCK_BYTES])
        self._held += len(data)
        if self._held > HELD_BYTES and not self._paused and self._chan is not None:
            self._paused = True
            self._chan.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        return True  # False would end our side too, and with it the command's life line

    def exit_status_received(self, status: int) -> None:
        self._status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._signal = signal

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = exc
        self._closed = True
        self._writable.set()
        self._news.set()

    # -- what the link calls --

    def feed(self, data: bytes) -> None:
        """Bytes that the channel sends as its window allows; for input that is bounded."""
        if data and self._chan is not None and not self._closed:
            self._chan.write(data)

    async def send(self, data: bytes) -> None:
        """Bytes under back-pressure. Raises TransportError(LOST) when the command or the connection has gone."""
        try:
            async with asyncio.timeout(SEND_LIMIT_S):
                await self._writable.wait()
        except TimeoutError:
            raise TransportError(
                Trouble.DEADLINE, f"the command has read no input for {SEND_LIMIT_S:.0f} s", node=self.node
            ) from None
        if self._closed or self._chan is None:
            raise TransportError(Trouble.LOST, "the command ended before its input did", node=self.node)
        try:
            self._chan.write(data)
        except OSError:
            raise TransportError(Trouble.LOST, "the command ended before its input did", node=self.node) from None

    def end_input(self) -> None:
        if self._chan is not None and not self._closed:
            self._chan.write_eof()

    async def next_block(self) -> bytes:
        """The next block of standard output; b"" at the end."""
        while not self._blocks:
            if self._closed:
                return b""
            self._news.clear()
            await self._news.wait()
        block = self._blocks.popleft()
        self._held -= len(block)
        if self._paused and self._held <= HELD_BYTES // 2 and self._chan is not None:
            self._paused = False
            self._chan.resume_reading()
        return block

    def completed(self, stdout: bytes = b"") -> Completed:
        """How it ended. Raises TransportError(LOST) when the channel closed without saying how the command ended:
        asyncssh itself reports that as a normal end. SHELL when the login shell ended before the command began."""
        if self._status is None and self._signal is None:
            said = clean_line(str(self._lost), limit=200) if self._lost else "the channel closed"
            raise TransportError(
                Trouble.LOST,
                f"the connection broke while the command ran ({said}); how it ended is not known",
                node=self.node,
            )
        if not self._out.begun:
            raise shell_refused(self.node, self._status, self._signal, self._err.noise or self._out.noise)
        return Completed(self._status, stdout, self._stderr.take(), self._signal)

    @property
    def stderr(self) -> bytes:
        return self._stderr.take()

    def abort(self) -> None:
        """Close the channel at once; unsent input is dropped. The wrapper on the node then ends the command."""
        if self._chan is not None and not self._closed:
            self._chan.abort()

    async def collect(self, limit: int) -> bytes:
        """All of standard output. Raises TransportError(TOO_MUCH) beyond `limit` bytes."""
        parts: list[bytes] = []
        size = 0
        while block := await self.next_block():
            size += len(block)
            if size > limit:
                raise TransportError(
                    Trouble.TOO_MUCH,
                    f"the command printed more than {limit} bytes and was ended",
                    node=self.node,
                )
            parts.append(block)
        return b"".join(parts)


class SshStream:
    """`Stream` on a channel."""

    def __init__(self, session: CommandSession, *, interactive: bool) -> None:
        self._session = session
        self._interactive = interactive
        self._result: Completed | None = None

    async def blocks(self) -> AsyncIterator[bytes]:
        while block := await self._session.next_block():
            yield block
        self._result = self._session.completed()

    async def send(self, data: bytes) -> None:
        self._need_input()
        for at in range(0, len(data), BLOCK_BYTES):
            await self._session.send(data[at : at + BLOCK_BYTES])

    async def end_input(self) -> None:
        self._need_input()
        self._session.end_input()

    def result(self) -> Completed | None:
        return self._result

    def _need_input(self) -> None:
        if not self._interactive:
            raise UsageError("this stream was not opened with interactive=True and takes no input")
