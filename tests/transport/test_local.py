"""This machine as a node: the same promises as over SSH."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from console.base.errors import UsageError
from console.cluster.model import Node
from console.transport.base import Completed, TransportError, Trouble
from console.transport.local import LocalLink
from tests.transport.tools import Announcer, alive, ended, serving


@pytest.fixture
async def link() -> AsyncIterator[LocalLink]:
    link = LocalLink(Node("here", "local"))
    yield link
    await link.close()


async def test_exit_status_output_and_input(link: LocalLink) -> None:
    done = await link.run(["sh", "-c", "cat; echo err >&2; exit 3"], timeout=10, stdin=b"in\0\xff")
    assert done == Completed(3, b"in\0\xff", b"err\n")
    assert (await link.run(["no-such-command-here"], timeout=10)).status == 127
    assert link.connected and link.node == "here"


async def test_input_larger_than_a_pipe_and_output_at_the_same_time(link: LocalLink) -> None:
    data = os.urandom(3_000_000)
    assert (await link.run(["cat"], timeout=20, stdin=data)).stdout == data


async def test_too_much_and_deadline_end_the_command(link: LocalLink, tmp_path: Path) -> None:
    with pytest.raises(TransportError) as caught:
        await link.run(["yes"], timeout=20, limit=1000)
    assert caught.value.trouble == Trouble.TOO_MUCH
    announcer = Announcer(tmp_path)
    work = asyncio.create_task(link.run(announcer.argv, timeout=1.0))
    pid = await announcer.pid()
    with pytest.raises(TransportError) as caught:
        await work
    assert caught.value.trouble == Trouble.DEADLINE
    await ended(pid)


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_cancel_and_close_end_the_command(link: LocalLink, tmp_path: Path, how: str) -> None:
    announcer = Announcer(tmp_path)
    work = asyncio.create_task(link.run(announcer.argv, timeout=60))
    pid = await announcer.pid()
    if how == "cancel":
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    else:
        await link.close()
        with pytest.raises(TransportError) as caught:
            await work
        assert caught.value.trouble == Trouble.LOST
    await ended(pid)


async def test_leaving_a_stream_ends_even_one_that_writes_for_ever(link: LocalLink) -> None:
    async with link.stream(["sh", "-c", "trap '' TERM; echo $$; while :; do echo x; done"]) as stream:
        async with contextlib.aclosing(stream.blocks()) as blocks:
            pid = int((await anext(blocks)).split()[0])
        assert alive(pid)
    await ended(pid)


async def test_an_interactive_stream(link: LocalLink) -> None:
    async with link.stream(["cat"], stdin=b"one ", interactive=True) as stream:
        await stream.send(b"two")
        await stream.end_input()
        assert b"".join([b async for b in stream.blocks()]) == b"one two"
        assert stream.result() == Completed(0, b"", b"")
    async with link.stream(["sh", "-c", "kill -9 $$"], interactive=True) as stream:
        assert [b async for b in stream.blocks()] == []
        assert stream.result() == Completed(None, b"", b"", "KILL")
    async with link.stream(["true"]) as stream:
        with pytest.raises(UsageError):
            await stream.send(b"x")


async def test_a_command_that_cannot_be_started(link: LocalLink) -> None:
    with pytest.raises(TransportError) as caught:
        async with link.stream(["/no/such/program"], interactive=True):
            pass
    assert caught.value.trouble == Trouble.CHANNEL


async def test_tcp(link: LocalLink) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        await writer.drain()

    async with serving(echo) as port:
        channel = await link.open_tcp("127.0.0.1", port, timeout=5)
        await channel.write(b"hello")
        assert await channel.read(100) == b"hello"
        assert await channel.read(100) == b""
        await channel.close()
    with pytest.raises(TransportError) as caught:
        await link.open_tcp("127.0.0.1", port, timeout=5)
    assert caught.value.trouble == Trouble.REFUSED
    with pytest.raises(TransportError) as caught:
        await link.open_unix("/no/such/socket", timeout=5)
    assert caught.value.trouble == Trouble.CHANNEL


async def test_a_closed_link_stays_closed(link: LocalLink) -> None:
    await link.close()
    assert not link.connected
    with pytest.raises(TransportError) as caught:
        await link.run(["true"], timeout=5)
    assert caught.value.trouble == Trouble.LOST


async def test_cancelling_while_the_process_starts_leaves_nothing(link: LocalLink, tmp_path: Path) -> None:
    for turns in range(12):  # at every turn of the loop that starting takes
        mark = f"sleep-{os.getpid()}-{turns}"
        work = asyncio.create_task(link.run(["sh", "-c", "exec sleep 1000", mark], timeout=60))
        for _ in range(turns):
            await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    assert [t.get_name() for t in asyncio.all_tasks() if t.get_name().startswith(("start on", "stderr on"))] == []
