"""`Link` to this machine: commands without SSH, under the same wrapper and the same rules."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from console.base.errors import UsageError
from console.base.text import clean_line
from console.cluster.model import Node
from console.transport.base import ByteChannel, Completed, Stream, TransportError, Trouble
from console.transport.quoting import command_line
from console.transport.wrapper import wrapped

BLOCK_BYTES: Final = 64 * 1024
STDERR_TAIL_BYTES: Final = 64 * 1024
# The wrapper gives the command 2 s between TERM and KILL.
END_LIMIT_S: Final = 3.0
WRITE_LIMIT_S: Final = 60.0


class _Command:
    """One process with its own group. Input stays open: its end is what ends the wrapped command."""

    def __init__(self, node: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.node = node
        self.stdin = process.stdin
        self.stdout = process.stdout
        self._process = process
        self._stderr = bytearray()
        self._ended = False
        self._tail = asyncio.create_task(self._keep_tail(process.stderr), name=f"stderr on {node}")

    async def _keep_tail(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(BLOCK_BYTES):
            self._stderr += data
            del self._stderr[:-STDERR_TAIL_BYTES]

    async def feed(self, data: bytes) -> None:
        """Input for the command. A command that ended early is no error here: its exit status tells."""
        with contextlib.suppress(ConnectionError):
            self.stdin.write(data)
            await self.stdin.drain()

    async def collect(self, limit: int) -> bytes:
        parts = bytearray()
        while block := await self.stdout.read(BLOCK_BYTES):
            parts += block
            if len(parts) > limit:
                raise TransportError(
                    Trouble.TOO_MUCH, f"the command printed more than {limit} bytes and was ended", node=self.node
                )
        return bytes(parts)

    async def completed(self, stdout: bytes = b"") -> Completed:
        code = await self._process.wait()
        if self._ended:
            raise TransportError(Trouble.LOST, "the link was closed while the command ran", node=self.node)
        await self._tail
        if code < 0:
            return Completed(None, stdout, bytes(self._stderr), signal.Signals(-code).name.removeprefix("SIG"))
        return Completed(code, stdout, bytes(self._stderr))

    async def end(self) -> None:
        """End the command if it still runs: by the end of its input, then by KILL to its group."""
        self._ended = True
        # asyncio's Process has no public way to close its pipes, and its wait() does not return before they close.
        transport = self._process._transport  # type: ignore[attr-defined]
        for fd in (0, 1, 2):
            pipe = transport.get_pipe_transport(fd)
            if pipe is not None:
                pipe.close()
        try:
            async with asyncio.timeout(END_LIMIT_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        finally:
            self._tail.cancel()
            transport.close()


class LocalStream:
    """`Stream` of a local process."""

    def __init__(self, command: _Command, feeding: asyncio.Task[None], *, interactive: bool) -> None:
        self._command = command
        self._feeding = feeding
        self._interactive = interactive
        self._result: Completed | None = None

    async def blocks(self) -> AsyncIterator[bytes]:
        while block := await self._command.stdout.read(BLOCK_BYTES):
            yield block
        self._result = await self._command.completed()

    async def send(self, data: bytes) -> None:
        self._need_input()
        try:
            async with asyncio.timeout(WRITE_LIMIT_S):
                await asyncio.shield(self._feeding)
                self._command.stdin.write(data)
                await self._command.stdin.drain()
        except TimeoutError:
            raise TransportError(
                Trouble.DEADLINE, f"the command has read no input for {WRITE_LIMIT_S:.0f} s", node=self._command.node
            ) from None
        except ConnectionError:
            raise TransportError(
                Trouble.LOST, "the command ended before its input did", node=self._command.node
            ) from None

    async def end_input(self) -> None:
        self._need_input()
        await asyncio.shield(self._feeding)
        self._command.stdin.close()

    def result(self) -> Completed | None:
        return self._result

    def _need_input(self) -> None:
        if not self._interactive:
            raise UsageError("this stream was not opened with interactive=True and takes no input")


class LocalByteChannel:
    """`ByteChannel` straight from this machine."""

    def __init__(self, node: str, where: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._node = node
        self._where = where
        self._reader = reader
        self._writer = writer

    async def read(self, n: int) -> bytes:
        try:
            return await self._reader.read(n)
        except OSError as error:
            raise self._lost(error) from None

    async def write(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(WRITE_LIMIT_S):
                self._writer.write(data)
                await self._writer.drain()
        except TimeoutError:
            raise TransportError(
                Trouble.DEADLINE, f"{self._where} took no bytes for {WRITE_LIMIT_S:.0f} s", node=self._node
            ) from None
        except OSError as error:
            raise self._lost(error) from None

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()

    def _lost(self, error: OSError) -> TransportError:
        said = clean_line(str(error), limit=200)
        return TransportError(Trouble.LOST, f"the connection to {self._where} broke ({said})", node=self._node)


class LocalLink:
    """This machine as a node. There is no connection to lose; the same argv, deadlines and limits as over SSH."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._closed = False
        self._running: set[_Command] = set()

    @property
    def node(self) -> str:
        return self._node.name

    @property
    def connected(self) -> bool:
        return not self._closed

    async def connect(self, *, timeout: float) -> None:
        self._check()

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20) -> Completed:
        try:
            async with asyncio.timeout(timeout), self._command(wrapped(argv, len(stdin))) as command:
                feeding = asyncio.create_task(command.feed(stdin), name=f"input on {self.node}")
                try:
                    return await command.completed(await command.collect(limit))
                finally:
                    feeding.cancel()
        except TimeoutError:
            raise TransportError(
                Trouble.DEADLINE, f"the command did not end in {timeout:.3g} s and was ended", node=self.node
            ) from None

    @asynccontextmanager
    async def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AsyncIterator[Stream]:
        async with self._command(list(argv) if interactive else wrapped(argv, len(stdin))) as command:
            feeding = asyncio.create_task(command.feed(stdin), name=f"input on {self.node}")
            try:
                yield LocalStream(command, feeding, interactive=interactive)
            finally:
                feeding.cancel()

    @asynccontextmanager
    async def _command(self, argv: Sequence[str]) -> AsyncIterator[_Command]:
        self._check()
        command_line(argv)  # the same guards as over SSH: what is refused there is refused here
        try:
            command = await self._start(argv)
        except OSError as error:
            raise TransportError(
                Trouble.CHANNEL, f"{argv[0]} cannot be started: {error.strerror}", node=self.node
            ) from None
        self._running.add(command)
        try:
            yield command
        finally:
            self._running.discard(command)
            await asyncio.shield(command.end())

    async def _start(self, argv: Sequence[str]) -> _Command:
        """Start a process; a caller that is cancelled meanwhile does not leave it half started, which would wait for
        its pipes: it is let start, and then ended."""

        async def start() -> _Command:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=BLOCK_BYTES,
            )
            return _Command(self.node, process)

        starting = asyncio.create_task(start(), name=f"start on {self.node}")
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            command = await starting
            await command.end()
            raise

    async def open_tcp(self, host: str, port: int, *, timeout: float) -> ByteChannel:
        self._check()
        where = f"{host}:{port}"
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(host, port, limit=BLOCK_BYTES)
        except TimeoutError:
            raise TransportError(Trouble.CHANNEL, f"{where}: no answer in {timeout:.3g} s", node=self.node) from None
        except ConnectionRefusedError:
            raise TransportError(Trouble.REFUSED, f"{where}: connection refused on the node", node=self.node) from None
        except OSError as error:
            said = clean_line(str(error), limit=200)
            raise TransportError(
                Trouble.CHANNEL, f"the node cannot connect to {where} ({said})", node=self.node
            ) from None
        return LocalByteChannel(self.node, where, reader, writer)

    async def open_unix(self, path: str, *, timeout: float) -> ByteChannel:
        """A unix socket of this machine."""
        self._check()
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_unix_connection(path, limit=BLOCK_BYTES)
        except (OSError, TimeoutError) as error:
            said = clean_line(str(error), limit=200)
            raise TransportError(
                Trouble.CHANNEL, f"the node cannot connect to {path} ({said})", node=self.node
            ) from None
        return LocalByteChannel(self.node, path, reader, writer)

    async def close(self) -> None:
        """Close for good: what runs is ended, and its callers get LOST."""
        self._closed = True
        await asyncio.gather(*(command.end() for command in list(self._running)))

    def _check(self) -> None:
        if self._closed:
            raise TransportError(Trouble.LOST, "the link is closed", node=self.node)
