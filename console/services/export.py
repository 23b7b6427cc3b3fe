"""A small HTTP server that gives the snapshot to a Prometheus, on loopback unless told otherwise."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import h11

from console.base.errors import UsageError
from console.services.openmetrics import CONTENT_TYPE, TEXT_TYPE

DEADLINE_S: Final = 10.0
MAX_CLIENTS: Final = 256
# Scrapes that come together get one exposition: making it takes milliseconds of the loop that watches the nodes.
KEEP_S: Final = 0.25
_PLAIN: Final = "text/plain; charset=utf-8"


class Exporter:
    """`async with Exporter(...)`: serves until the end. text: the exposition, asked for at each request."""

    def __init__(self, text: Callable[[], bytes], host: str, port: int) -> None:
        self._text = text
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._kept: tuple[float, bytes] | None = None
        self.served = 0

    @property
    def port(self) -> int:
        """The port that was bound (0 asks the system for one)."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Exporter:
        """Raises UsageError where the address cannot be bound."""
        try:
            self._server = await asyncio.start_server(self._client, self._host, self._port, backlog=MAX_CLIENTS)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen: {error}", where=f"{self._host}:{self._port}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._clients) >= MAX_CLIENTS:
            writer.close()
            return
        self._clients.add(task)
        try:
            # A client that is slow, rude or gone is its own trouble.
            with contextlib.suppress(TimeoutError, OSError, h11.ProtocolError):
                async with asyncio.timeout(DEADLINE_S):
                    await self._answer(reader, writer)
        finally:
            self._clients.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=16 << 10)
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(8192))
            elif isinstance(event, h11.Request):
                await self._reply(connection, event, writer)
                return
            elif isinstance(event, h11.ConnectionClosed):
                return

    def _exposition(self) -> bytes:
        now = asyncio.get_running_loop().time()
        if self._kept is None or now - self._kept[0] >= KEEP_S:
            self._kept = (now, self._text())
        return self._kept[1]

    async def _reply(self, connection: h11.Connection, request: h11.Request, writer: asyncio.StreamWriter) -> None:
        path = bytes(request.target).partition(b"?")[0]
        if bytes(request.method) not in (b"GET", b"HEAD"):
            status, kind, body = 405, _PLAIN, b"only GET and HEAD\n"
        elif path == b"/metrics":
            status, kind, body = 200, _kind(request), self._exposition()
            self.served += 1
        elif path == b"/":
            status, kind, body = 200, _PLAIN, b"nightdeck: see /metrics\n"
        else:
            status, kind, body = 404, _PLAIN, b"see /metrics\n"
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Connection", "close")]
        writer.write(connection.send(h11.Response(status_code=status, headers=headers)) or b"")
        if bytes(request.method) != b"HEAD":
            writer.write(connection.send(h11.Data(data=body)) or b"")
        await writer.drain()


def _kind(request: h11.Request) -> str:
    """Scrapers that know OpenMetrics say so; to the others the same lines are the older text format."""
    accepts = b",".join(value for name, value in request.headers if name == b"accept")
    return CONTENT_TYPE if b"application/openmetrics-text" in accepts or not accepts else TEXT_TYPE
