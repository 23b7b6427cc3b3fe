"""What the transport's tests share: a clock that the test owns, waiting for a process to end, a proxy with faults."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from console.cluster.model import Node
from console.transport.ssh import SshLink
from tests.transport.sshd import Sshd


class RealClock:
    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class OwnClock:
    """Moves only when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@asynccontextmanager
async def linked(
    config: Path | str | None, host: str = "spark-1", *, clock: object = None, **options: object
) -> AsyncIterator[SshLink]:
    node_options = {k: options.pop(k) for k in ("user", "port") if k in options}
    link = SshLink(
        Node(name="n1", host=host, **node_options),  # type: ignore[arg-type]
        clock=clock or RealClock(),  # type: ignore[arg-type]
        ssh_config=str(config) if config is not None else None,
        **options,  # type: ignore[arg-type]
    )
    try:
        yield link
    finally:
        await link.close()


async def ended(pid: int, within: float = 5.0) -> None:
    """Wait for a process, anybody's, to end. Fails with TimeoutError when it lives on."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, gone.set)
    try:
        async with asyncio.timeout(within):
            await gone.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Announcer:
    """A command that says its pid through a fifo and then stays."""

    def __init__(self, folder: Path) -> None:
        self.fifo = folder / "pid.fifo"
        os.mkfifo(self.fifo)

    @property
    def argv(self) -> Sequence[str]:
        return ["sh", "-c", 'trap "" HUP; echo $$ > "$1"; exec sleep 1000', "announce", str(self.fifo)]

    async def pid(self) -> int:
        return int(await asyncio.to_thread(self.fifo.read_text))


class Proxy:
    """TCP between a link and its sshd: can stop passing bytes, or cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._flow = asyncio.Event()
        self._flow.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.connects = 0
        self.refuse_first = 0

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cut()

    def freeze(self) -> None:
        self._flow.clear()

    def thaw(self) -> None:
        self._flow.set()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connects += 1
        if self.connects <= self.refuse_first:
            writer.close()
            return
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, up_writer]
        try:
            await asyncio.gather(self._pump(reader, up_writer), self._pump(up_reader, writer))
        finally:
            writer.close()
            up_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flow.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(
    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """A raw TCP server whose handlers end with it; gives its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(tracked, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


__all__ = ["Announcer", "OwnClock", "Proxy", "RealClock", "Sshd", "alive", "ended", "linked", "serving"]
