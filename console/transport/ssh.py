"""`Link` over SSH: one connection kept to a node, opened again with patience, commands on channels of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import asyncssh

from console.base.clock import Clock
from console.base.text import clean_line
from console.cluster.model import Node
from console.transport.base import ByteChannel, Completed, Stream, TransportError, Trouble
from console.transport.framing import framed_line, new_mark
from console.transport.ssh_channel import SshByteChannel, channel_error
from console.transport.ssh_config import route_to
from console.transport.ssh_dial import Gate, Opened, dial, no_gate
from console.transport.ssh_errors import Attempt, Phase, explain, timed_out
from console.transport.ssh_session import CommandSession, SshStream
from console.transport.turns import Turnstile
from console.transport.wrapper import wrapped

T = TypeVar("T")

# sshd allows 10 sessions on a connection (MaxSessions); the console takes 4, and streams leave one for commands.
MAX_CHANNELS: Final = 4
MAX_STREAMS: Final = 3
CLOSE_LIMIT_S: Final = 2.0
# (first wait, longest wait) in seconds after a failed attempt; a wedged node is not hammered, a refused login
# not repeated until something like fail2ban minds.
_PATIENCE: Final = {Trouble.SILENT: (5.0, 60.0), Trouble.AUTH: (2.0, 30.0)}
_USUAL_PATIENCE: Final = (0.5, 8.0)
_GREETING_TRIES: Final = 3
# How long a refused session is asked for again: sshd frees one a moment after its channel closes.
_CHANNEL_PATIENCE_S: Final = 2.0


class SshLink:
    """One node over SSH. Bytes in, bytes out; every failure is a TransportError that names the node.

    ssh_config: a file read instead of ~/.ssh/config (ssh -F). gate: entered around each hop's opening, so that a
    pool can limit how many connects go through one jump host at once. turns: passed before a connect or a channel
    begins, so that what is asked of all nodes at once leaves the loop its turns. Must be used from one event loop."""

    def __init__(
        self,
        node: Node,
        *,
        clock: Clock,
        ssh_config: str | None = None,
        gate: Gate = no_gate,
        turns: Turnstile | None = None,
        max_channels: int = MAX_CHANNELS,
        max_streams: int = MAX_STREAMS,
    ) -> None:
        self._node = node
        self._clock = clock
        self._ssh_config = ssh_config
        self._gate = gate
        self._turns = turns if turns is not None else Turnstile()
        self._channels = asyncio.Semaphore(max_channels)
        self._streams = asyncio.Semaphore(max_streams)
        self._opened: Opened | None = None
        self._dialing: asyncio.Task[Opened] | None = None
        self._attempt = Attempt(node.name)
        self._last_error: TransportError | None = None
        self._failures = 0
        self._not_before = 0.0
        self._owned: set[asyncio.Future[Any]] = set()
        self._closed = False

    @property
    def node(self) -> str:
        return self._node.name

    @property
    def connected(self) -> bool:
        return self._opened is not None and self._opened.is_open

    @property
    def last_error(self) -> TransportError | None:
        """Why the last attempt to connect failed; None once connected."""
        return self._last_error

    @property
    def retry_in(self) -> float:
        """Seconds until the next attempt to connect is made; 0 when one may be made now."""
        return max(0.0, self._not_before - self._clock.monotonic()) if self._last_error is not None else 0.0

    async def connect(self, *, timeout: float) -> None:
        await self._within(timeout, self._connection(timeout), "the connection was not open")

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20) -> Completed:
        mark = new_mark()
        line = framed_line(wrapped(argv, len(stdin)), mark)
        async with self._slot(self._channels, timeout, "channels") as left:
            return await self._within(left, self._run(line, mark, left, stdin, limit), "the command did not end")

    @asynccontextmanager
    async def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AsyncIterator[Stream]:
        mark = new_mark()
        line = framed_line(argv if interactive else wrapped(argv, len(stdin)), mark)
        async with (
            self._slot(self._streams, open_timeout, "streams") as left,
            self._slot(self._channels, left, "channels") as left,
        ):
            session = await self._within(left, self._session(line, mark, left), "no channel was open")
            try:
                session.feed(stdin)
                yield SshStream(session, interactive=interactive)
            finally:
                session.abort()

    async def open_tcp(self, host: str, port: int, *, timeout: float) -> ByteChannel:
        opening = self._byte_channel(
            f"{host}:{port}", timeout, lambda conn: conn.open_connection(host, port, encoding=None)
        )
        return await self._within(timeout, opening, f"no connection to {host}:{port} was open")

    async def open_unix(self, path: str, *, timeout: float) -> ByteChannel:
        """A unix socket on the node (OpenSSH's AllowStreamLocalForwarding). Errors as `open_tcp`."""
        opening = self._byte_channel(path, timeout, lambda conn: conn.open_unix_connection(path, encoding=None))
        return await self._within(timeout, opening, f"no connection to {path} was open")

    async def close(self) -> None:
        """Close for good, within 2 s; what runs over the link ends with LOST, and on the node with it."""
        self._closed = True
        dialing, opened = self._dialing, self._opened
        self._opened = None
        if dialing is not None:
            dialing.cancel()
            await asyncio.wait([dialing])
        for future in list(self._owned):
            future.cancel()
        if opened is not None:
            await opened.close(CLOSE_LIMIT_S)

    # -- deadlines --

    async def _within(self, timeout: float, work: Awaitable[T], undone: str) -> T:
        try:
            async with asyncio.timeout(timeout):
                return await work
        except TimeoutError:
            raise self._deadline(timeout, undone) from None

    def _deadline(self, timeout: float, undone: str) -> TransportError:
        if self.connected:
            return TransportError(Trouble.DEADLINE, f"{undone} after {timeout:.3g} s", node=self.node)
        if self._attempt.phase == Phase.PREPARING and self._last_error is not None:
            return self._last_error
        return timed_out(self._attempt, timeout)

    @asynccontextmanager
    async def _slot(self, slots: asyncio.Semaphore, timeout: float, what: str) -> AsyncIterator[float]:
        """Hold one of this node's few channels; gives the seconds that are left of `timeout`."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(timeout):
                await slots.acquire()
        except TimeoutError:
            raise TransportError(
                Trouble.CHANNEL, f"all {what} to this node stayed busy for {timeout:.3g} s", node=self.node
            ) from None
        try:
            yield max(0.0, timeout - (asyncio.get_running_loop().time() - began))
        finally:
            slots.release()

    # -- the connection --

    async def _connection(self, timeout: float) -> Opened:
        if self._closed:
            raise self._is_closed()
        if self._opened is not None and self._opened.is_open:
            return self._opened
        self._opened = None
        if self._dialing is None or self._dialing.done():
            if self._last_error is not None and self.retry_in >= timeout:
                raise self._again(self._last_error)
            self._dialing = asyncio.create_task(self._dial(), name=f"dial {self.node}")
            self._dialing.add_done_callback(_look)
        # Callers share the attempt: one that gives up does not end it for the others.
        dialing = self._dialing
        try:
            return await asyncio.shield(dialing)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if dialing.cancelled() and not (task is not None and task.cancelling()):
                # `close` ended the attempt; its callers were not cancelled and must not look so.
                raise self._is_closed() from None
            raise

    def _is_closed(self) -> TransportError:
        return TransportError(Trouble.LOST, "the link is closed", node=self.node)

    def _again(self, error: TransportError) -> TransportError:
        return TransportError(
            error.trouble, f"{error.what}; next try in {self.retry_in:.0f} s", node=self.node, remedy=error.remedy
        )

    async def _dial(self) -> Opened:
        if self.retry_in > 0:
            await asyncio.sleep(self.retry_in)
        try:
            self._opened = await self._dial_patiently()
        except TransportError as error:
            self._failures += 1
            first, longest = _PATIENCE.get(error.trouble, _USUAL_PATIENCE)
            wait = min(longest, first * 2.0 ** min(self._failures - 1, 10)) * random.uniform(0.8, 1.2)
            self._not_before = self._clock.monotonic() + wait
            self._last_error = error
            raise
        self._failures = 0
        self._last_error = None
        return self._opened

    async def _dial_patiently(self) -> Opened:
        """sshd beyond MaxStartups closes a fresh connection before its greeting: that alone is tried again here."""
        for tries in range(1, _GREETING_TRIES + 1):
            await self._turns.enter()
            attempt = self._attempt = Attempt(self.node)
            try:
                route = await route_to(self._node, self._ssh_config)
                return await dial(route, attempt, gate=self._gate)
            except TransportError as error:
                if error.trouble != Trouble.LOST or attempt.phase > Phase.GREETING or tries == _GREETING_TRIES:
                    raise
            except OSError as error:
                raise explain(attempt, error) from error
            await asyncio.sleep(random.uniform(0.1, 0.4) * tries)
        raise AssertionError("unreachable")

    # -- channels --

    async def _run(self, line: str, mark: str, timeout: float, stdin: bytes, limit: int) -> Completed:
        session = await self._session(line, mark, timeout)
        try:
            session.feed(stdin)
            return session.completed(await session.collect(limit))
        finally:
            session.abort()

    async def _session(self, line: str, mark: str, timeout: float) -> CommandSession:
        async def open_on(conn: asyncssh.SSHClientConnection) -> CommandSession:
            _, session = await conn.create_session(
                lambda: CommandSession(self.node, mark.encode()), line, encoding=None
            )
            return session  # type: ignore[return-value]  # create_session's type forgets the factory's

        return await self._on_connection(timeout, open_on, lambda s: s.abort(), "a session")

    async def _byte_channel(
        self, where: str, timeout: float, opening: Callable[[asyncssh.SSHClientConnection], Awaitable[Any]]
    ) -> ByteChannel:
        async def open_on(conn: asyncssh.SSHClientConnection) -> SshByteChannel:
            reader, writer = await opening(conn)
            return SshByteChannel(self.node, where, reader, writer)

        return await self._on_connection(timeout, open_on, lambda c: c.abort(), where)

    async def _on_connection(
        self,
        timeout: float,
        open_on: Callable[[asyncssh.SSHClientConnection], Awaitable[T]],
        dispose: Callable[[T], None],
        what: str,
    ) -> T:
        """Open a channel. A connection found dead before the channel was open is replaced once: nothing was sent."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + min(_CHANNEL_PATIENCE_S, timeout / 2)
        replaced = False
        while True:
            opened = await self._connection(timeout)
            await self._turns.enter()
            try:
                return await self._owned_open(asyncio.ensure_future(open_on(opened.conn)), dispose)
            except (OSError, asyncssh.Error) as error:
                gone = not opened.is_open
                if gone or not isinstance(error, asyncssh.ChannelOpenError):
                    self._drop(opened)
                    if replaced:
                        said = clean_line(str(error), limit=200)
                        raise TransportError(
                            Trouble.LOST, f"the connection broke before a channel was open ({said})", node=self.node
                        ) from None
                    replaced = True
                    continue
                if what != "a session" or loop.time() >= give_up:
                    raise channel_error(self.node, what, error) from None
            await asyncio.sleep(random.uniform(0.05, 0.2))

    async def _owned_open(self, opening: asyncio.Future[T], dispose: Callable[[T], None]) -> T:
        """Await an opening that is not abandoned half-way when the caller is cancelled: the node may have started the
        command already, so it is let come, and then closed."""
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._owned.add(opening)

            def finish(done: asyncio.Future[T]) -> None:
                self._owned.discard(done)
                if not done.cancelled() and done.exception() is None:
                    dispose(done.result())

            opening.add_done_callback(finish)
            raise

    def _drop(self, opened: Opened) -> None:
        opened.abort()
        if self._opened is opened:
            self._opened = None


def _look(task: asyncio.Task[Opened]) -> None:
    """Take the error of an attempt that all its callers gave up on; it is kept as the link's last error."""
    if not task.cancelled():
        task.exception()
