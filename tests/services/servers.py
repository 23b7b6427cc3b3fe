"""Real servers on loopback that say what a test tells them to, and a link whose TCP goes there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from console.transport.base import ByteChannel, TransportError, Trouble
from tests.services.fakes import FakeLink

Handler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class SocketChannel:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.closed = False

    async def read(self, n: int) -> bytes:
        try:
            return await self._reader.read(n)
        except ConnectionError as error:
            raise TransportError(Trouble.LOST, "the connection broke", node="dgx1") from error

    async def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def close(self) -> None:
        self.closed = True
        self._writer.close()


class SocketLink(FakeLink):
    """A node whose ports are this machine's."""

    def __init__(self) -> None:
        super().__init__("dgx1")
        self.channels: list[SocketChannel] = []

    async def open_tcp(self, host: str, port: int, *, timeout: float) -> ByteChannel:
        try:
            channel = SocketChannel(*await asyncio.open_connection(host, port))
        except ConnectionRefusedError as error:
            raise TransportError(Trouble.REFUSED, "connection refused", node=self.name) from error
        self.channels.append(channel)
        return channel


class Server:
    """`answer(request head, writer)` decides what is said; the connection ends after it."""

    def __init__(self, answer: Handler) -> None:
        self._answer = answer
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        self.port = 0
        self.open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.open[task] = writer
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((h for h in head.lower().split(b"\r\n") if h.startswith(b"content-length:")), b":0")
            self.bodies.append(await reader.readexactly(int(length.split(b":")[1])))
            self.requests.append(head.split(b"\r\n")[0].decode())
            await self._answer(head, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client went away, which some tests want
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: Handler) -> AsyncIterator[Server]:
    made = Server(answer)
    server = await asyncio.start_server(made, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for writer in made.open.values():
            writer.transport.abort()
        await asyncio.gather(*made.open, return_exceptions=True)


def reply(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def as_json(value: Any, status: str = "200 OK") -> bytes:
    return reply(json.dumps(value).encode(), status)


def sse(*pieces: Any, end: bool = True) -> bytes:
    """A streamed answer, chunked, one chunk an event."""
    rows = [b"data: " + json.dumps(p).encode() + b"\n\n" for p in pieces]
    rows += [b"data: [DONE]\n\n"] if end else []
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return b"".join([head, *(b"%x\r\n%s\r\n" % (len(r), r) for r in rows), b"0\r\n\r\n" if end else b""])
