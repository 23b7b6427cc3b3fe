"""A small HTTP/1.1 server over any pair of byte streams: a socket of ours or a channel of an SSH connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

_REASONS: Final = {
    200: "OK", 201: "Created", 204: "No Content", 304: "Not Modified", 400: "Bad Request", 404: "Not Found",
    405: "Method Not Allowed", 409: "Conflict", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip
_MAX_BODY: Final = 64 << 20


class Reader(Protocol):
    async def readuntil(self, separator: Any = ...) -> bytes: ...

    async def readexactly(self, n: int) -> bytes: ...


class Writer(Protocol):
    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Request:
    """path: decoded, without the query. peer: who asks, `address:port`. last: the peer asks nothing after this."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    peer: str
    last: bool = False

    def json(self) -> Any:
        """The body as JSON, or None when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Response:
    """body: bytes, or blocks as they come (sent chunked)."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def as_json(value: Any, status: int = 200) -> Response:
    return Response(status, json.dumps(value).encode())


Handler = Callable[[Request], Awaitable[Response]]


async def serve_http(reader: Reader, writer: Writer, handler: Handler, peer: str, server: str) -> None:
    """Answer requests until the other side goes away."""
    try:
        while True:
            request = await _read(reader, peer)
            if request is None:
                break
            response = await handler(request)
            await _write(writer, response, server)
            if request.last or not isinstance(response.body, bytes):
                break
    except (OSError, EOFError, asyncio.LimitOverrunError, ValueError):
        return  # the peer is gone or speaks no HTTP: nobody is left to be told
    finally:
        writer.close()


async def _read(reader: Reader, peer: str) -> Request | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, version = [*head[0].split(" "), "", ""][:3]
    headers = {k.strip().lower(): v.strip() for k, sep, v in (line.partition(":") for line in head[1:]) if sep}
    body = b""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
            if len(body) > _MAX_BODY:
                return None
        await reader.readuntil(b"\r\n")
    elif length := int(headers.get("content-length", "0") or 0):
        if length > _MAX_BODY:
            return None
        body = await reader.readexactly(length)
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    last = headers.get("connection", "keep-alive" if version != "HTTP/1.0" else "close").lower() == "close"
    return Request(method.upper(), unquote(parts.path), query, headers, body, peer, last)


async def _write(writer: Writer, response: Response, server: str) -> None:
    lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Unknown')}", f"Server: {server}"]
    if response.status != 204:
        lines.append(f"Content-Type: {response.kind}")
    lines += [f"{k}: {v}" for k, v in response.headers.items()]
    if isinstance(response.body, bytes):
        lines.append(f"Content-Length: {len(response.body)}")
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + response.body)
        await writer.drain()
        return
    lines.append("Transfer-Encoding: chunked")
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
    await writer.drain()
    async for block in response.body:
        if block:
            writer.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
            await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
