"""The HTTP client against servers that answer well, badly, slowly and not at all."""

from __future__ import annotations

import asyncio

import pytest

from console.services.http import HttpError, fetch, request
from console.transport.base import TransportError, Trouble
from tests.services.servers import SocketLink, reply, serving, sse


async def get(data: bytes, *, limit: int = 4 << 20, timeout: float = 5.0) -> tuple[int, bytes]:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    link = SocketLink()
    async with serving(answer) as server:
        try:
            got = await fetch(link, server.port, "/health", limit=limit, timeout=timeout)
        finally:
            assert all(c.closed for c in link.channels), "every channel is closed, whatever came"
    return got.status, got.body


async def test_lengths_chunks_and_answers_without_either() -> None:
    assert await get(reply(b"hello")) == (200, b"hello")
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    assert await get(chunked) == (200, b"abcde")
    assert await get(b"HTTP/1.0 503 Loading\r\n\r\nuntil the end") == (503, b"until the end")
    assert await get(b"HTTP/1.1 100 Continue\r\n\r\n" + reply(b"x")) == (200, b"x")
    assert await get(reply(b"", "204 No Content")) == (204, b"")


async def test_a_body_is_cut_at_the_limit() -> None:
    assert await get(reply(b"y" * 100_000), limit=10) == (200, b"y" * 10)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff" * 40 + b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 100_000,
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf of it",
    ],
    ids=["binary", "ssh", "length", "chunk", "endless headers", "hang-up", "half a body"],
)
async def test_what_is_no_answer_is_told(data: bytes) -> None:
    with pytest.raises(HttpError):
        await get(data)


async def test_nothing_listening_is_refused() -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("closed")

    async with serving(answer) as server:
        port = server.port
    with pytest.raises(TransportError) as refused:
        await fetch(SocketLink(), port, "/health")
    assert refused.value.trouble is Trouble.REFUSED


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"], ids=["headers", "body"])
async def test_silence_ends_at_the_deadline(first: bytes) -> None:
    over = asyncio.Event()

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await over.wait()

    link = SocketLink()
    async with serving(answer) as server:
        with pytest.raises(TransportError) as late:
            await fetch(link, server.port, "/v1/models", timeout=0.05)
        over.set()
    assert late.value.trouble is Trouble.DEADLINE and "/v1/models" in late.value.what
    assert link.channels[0].closed


async def test_a_stream_comes_piece_by_piece_and_can_be_left() -> None:
    over = asyncio.Event()

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(sse({"a": 1}, end=False))
        await over.wait()

    link = SocketLink()
    async with serving(answer) as server:
        async with request(link, "127.0.0.1", server.port, "POST", "/x", body=b"{}", timeout=5) as (status, blocks):
            assert status == 200
            assert b'data: {"a": 1}' in await anext(blocks)
        over.set()
    assert link.channels[0].closed
