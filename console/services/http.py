"""A small HTTP client over a channel that a node opens: the API is asked from where it runs, no open port needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import h11

from console.transport.base import ByteChannel, Link, TransportError, Trouble


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: status code and body (cut at the limit that was given)."""

    status: int
    body: bytes


class HttpError(Exception):
    """The server did not speak HTTP, or hung up in the middle."""


@asynccontextmanager
async def request(
    link: Link, host: str, port: int, method: str, path: str, *, body: bytes = b"", timeout: float
) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
    """Send one request and give (status, blocks of the body). `timeout` covers opening, sending and the headers.

    Raises TransportError (REFUSED while nothing listens), HttpError, TimeoutError."""
    async with asyncio.timeout(timeout):
        channel = await link.open_tcp(host, port, timeout=timeout)
    try:
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=256 * 1024)
        headers = [("Host", f"{host}:{port}"), ("Connection", "close"), ("Accept", "*/*")]
        if body:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        async with asyncio.timeout(timeout):
            await channel.write(
                connection.send(h11.Request(method=method, target=path, headers=headers))
                + (connection.send(h11.Data(data=body)) if body else b"")
                + connection.send(h11.EndOfMessage())
            )
            status = await _head(channel, connection)
        yield status, _blocks(channel, connection)
    except h11.RemoteProtocolError as error:
        raise HttpError(str(error)) from error
    finally:
        await channel.close()


async def _next(channel: ByteChannel, connection: h11.Connection) -> h11.Event | type[h11.PAUSED]:
    while True:
        event = connection.next_event()
        if event is not h11.NEED_DATA:
            return event  # type: ignore[return-value]  # h11 types its sentinels as bare classes
        connection.receive_data(await channel.read(65536))


async def _head(channel: ByteChannel, connection: h11.Connection) -> int:
    while True:
        event = await _next(channel, connection)
        if isinstance(event, h11.Response):
            return event.status_code
        if isinstance(event, h11.ConnectionClosed):
            raise HttpError("the server hung up before it answered")


async def _blocks(channel: ByteChannel, connection: h11.Connection) -> AsyncIterator[bytes]:
    try:
        while True:
            event = await _next(channel, connection)
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            else:
                return
    except h11.RemoteProtocolError as error:
        raise HttpError(str(error)) from error


async def fetch(
    link: Link,
    port: int,
    path: str,
    *,
    host: str = "127.0.0.1",
    method: str = "GET",
    body: bytes = b"",
    timeout: float = 5.0,
    limit: int = 4 << 20,
) -> Response:
    """One request, whole answer. Raises TransportError, HttpError, and TransportError(DEADLINE) at the limit."""
    try:
        async with asyncio.timeout(timeout):
            data = bytearray()
            async with request(link, host, port, method, path, body=body, timeout=timeout) as (status, blocks):
                async for block in blocks:
                    data += block[: limit - len(data)]
                    if len(data) >= limit:
                        break
            return Response(status, bytes(data))
    except TimeoutError as error:
        raise TransportError(
            Trouble.DEADLINE, f"no answer from port {port} to {path} in {timeout:.0f} s", node=link.node
        ) from error
