"""Commands over a real OpenSSH sshd: results, limits, and the proof that what was started dies with its channel."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from console.base.errors import UsageError
from console.transport.base import Completed, TransportError, Trouble
from tests.transport.sshd import Sshd
from tests.transport.tools import Announcer, Proxy, alive, ended, linked


async def test_exit_status_output_and_input(sshd: Sshd) -> None:
    async with linked(sshd.config()) as link:
        assert not link.connected
        done = await link.run(["sh", "-c", "cat; echo err >&2; exit 3"], timeout=10, stdin=b"in\0put\xff")
        assert done == Completed(3, b"in\0put\xff", b"err\n")
        assert link.connected and link.node == "n1"
        assert (await link.run(["true"], timeout=10)).ok
        assert (await link.run(["no-such-command-here"], timeout=10)).status == 127
        assert (await link.run(["sh", "-c", "kill -9 $$"], timeout=10)).status == 137


async def test_words_are_never_code(sshd: Sshd, tmp_path: Path) -> None:
    nasty = f"$(touch {tmp_path}/harm); `touch {tmp_path}/harm` ' \" \\ \n ; touch {tmp_path}/harm"
    async with linked(sshd.config()) as link:
        assert (await link.run(["printf", "%s", nasty], timeout=10)).stdout == nasty.encode()
    assert not (tmp_path / "harm").exists()


async def test_bytes_that_are_not_text_leave_the_connection_well(sshd: Sshd) -> None:
    async with linked(sshd.config()) as link:
        done = await link.run(["printf", r"\377\376 ok"], timeout=10)
        assert done.stdout == b"\xff\xfe ok"
        assert (await link.run(["true"], timeout=10)).ok


async def test_a_long_line_and_a_bounded_tail_of_stderr(sshd: Sshd) -> None:
    async with linked(sshd.config()) as link:
        script = "head -c 10000000 /dev/zero; head -c 200000 /dev/zero >&2; echo end >&2"
        done = await link.run(["sh", "-c", script], timeout=20, limit=16 << 20)
        assert len(done.stdout) == 10_000_000
        assert len(done.stderr) == 64 * 1024
        assert done.stderr.endswith(b"end\n")


async def test_too_much_output_ends_the_command(sshd: Sshd, tmp_path: Path) -> None:
    announcer = Announcer(tmp_path)
    script = 'echo $$ > "$1"; exec yes'
    async with linked(sshd.config()) as link:
        work = asyncio.create_task(link.run(["sh", "-c", script, "x", str(announcer.fifo)], timeout=20, limit=100_000))
        pid = await announcer.pid()
        with pytest.raises(TransportError) as caught:
            await work
        assert caught.value.trouble == Trouble.TOO_MUCH
        await ended(pid)


async def test_a_deadline_ends_the_command_on_the_node(sshd: Sshd, tmp_path: Path) -> None:
    announcer = Announcer(tmp_path)
    async with linked(sshd.config()) as link:
        await link.connect(timeout=10)
        work = asyncio.create_task(link.run(announcer.argv, timeout=2.0))
        pid = await announcer.pid()
        with pytest.raises(TransportError) as caught:
            await work
        assert caught.value.trouble == Trouble.DEADLINE
        await ended(pid)
        assert link.connected


async def test_cancelling_ends_the_command_on_the_node(sshd: Sshd, tmp_path: Path) -> None:
    announcer = Announcer(tmp_path)
    async with linked(sshd.config()) as link:
        work = asyncio.create_task(link.run(announcer.argv, timeout=60))
        pid = await announcer.pid()
        assert alive(pid)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await ended(pid)
        assert (await link.run(["true"], timeout=10)).ok


@pytest.mark.parametrize("how", ["close", "abort", "cut"])
async def test_losing_the_connection_ends_the_command_on_the_node(sshd: Sshd, tmp_path: Path, how: str) -> None:
    announcer = Announcer(tmp_path)
    async with Proxy(sshd.port) as proxy:
        sshd.known_hosts.write_text(sshd.known_line(name=f"[127.0.0.1]:{proxy.port}"))
        config = sshd.config()
        async with linked(config, port=proxy.port) as link:
            work = asyncio.create_task(link.run(announcer.argv, timeout=60))
            pid = await announcer.pid()
            if how == "close":
                await link.close()
            elif how == "abort":
                assert link._opened is not None
                link._opened.abort()
            else:
                proxy.cut()
            with pytest.raises(TransportError) as caught:
                await work
            assert caught.value.trouble == Trouble.LOST
            await ended(pid)


async def test_leaving_a_stream_ends_the_command_on_the_node(sshd: Sshd) -> None:
    async with linked(sshd.config()) as link:
        async with link.stream(["sh", "-c", "echo $$; exec sleep 1000"]) as stream:
            async with contextlib.aclosing(stream.blocks()) as blocks:
                pid = int(await anext(blocks))
            assert alive(pid)
            assert stream.result() is None
        await ended(pid)


async def test_a_stream_to_its_end(sshd: Sshd) -> None:
    async with linked(sshd.config()) as link, link.stream(["sh", "-c", "cat; echo e >&2; exit 4"], stdin=b"abc") as s:
        assert [b async for b in s.blocks()] == [b"abc"]
        assert s.result() == Completed(4, b"", b"e\n")
        with pytest.raises(UsageError):
            await s.send(b"more")


async def test_an_interactive_stream(sshd: Sshd) -> None:
    async with linked(sshd.config()) as link, link.stream(["cat"], stdin=b"first ", interactive=True) as stream:
        blocks = stream.blocks()
        assert await anext(blocks) == b"first "
        await stream.send(b"second")
        assert await anext(blocks) == b"second"
        await stream.end_input()
        assert [b async for b in blocks] == []
        assert stream.result() == Completed(0, b"", b"")


async def test_input_larger_than_any_window(sshd: Sshd) -> None:
    data = os.urandom(5_000_000)
    async with linked(sshd.config()) as link:
        async with link.stream(["sha256sum"], interactive=True) as stream:
            await stream.send(data)
            await stream.end_input()
            out = b"".join([b async for b in stream.blocks()])
        done = await link.run(["sha256sum"], timeout=30, stdin=data)
        assert done.stdout == out


async def test_a_reader_that_does_not_read_holds_the_command_back(sshd: Sshd) -> None:
    async with linked(sshd.config()) as link, link.stream(["head", "-c", "30000000", "/dev/zero"]) as stream:
        blocks = stream.blocks()
        size = len(await anext(blocks))
        await link.run(["true"], timeout=10)  # other channels go on meanwhile
        assert stream._session._held < 3 << 20  # type: ignore[attr-defined]
        async for block in blocks:
            assert len(block) <= 64 * 1024
            size += len(block)
        assert size == 30_000_000
        assert stream.result() == Completed(0, b"", b"")


async def test_concurrent_callers_share_one_connection(sshd: Sshd) -> None:
    async with Proxy(sshd.port) as proxy:
        sshd.known_hosts.write_text(sshd.known_line(name=f"[127.0.0.1]:{proxy.port}"))
        async with linked(sshd.config(), port=proxy.port) as link:
            results = await asyncio.gather(*(link.run(["echo", str(i)], timeout=20) for i in range(12)))
            assert [r.stdout for r in results] == [f"{i}\n".encode() for i in range(12)]
            assert proxy.connects == 1


async def test_streams_leave_a_channel_for_commands(sshd: Sshd) -> None:
    async with linked(sshd.config()) as link, contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(link.stream(["sleep", "1000"]))
        assert (await link.run(["true"], timeout=10)).ok
        with pytest.raises(TransportError) as caught:
            await stack.enter_async_context(link.stream(["sleep", "1000"], open_timeout=0.05))
        assert caught.value.trouble == Trouble.CHANNEL
        assert "busy" in caught.value.what


async def test_a_refused_session_says_so_and_keeps_the_connection(make_sshd: Callable[..., Sshd]) -> None:
    sshd = make_sshd("MaxSessions 1")
    async with linked(sshd.config()) as link:
        async with link.stream(["sleep", "1000"]):
            with pytest.raises(TransportError) as caught:
                await link.run(["true"], timeout=1)
            assert caught.value.trouble == Trouble.CHANNEL
            assert "MaxSessions" in caught.value.remedy
            assert link.connected
        assert (await link.run(["true"], timeout=10)).ok


async def test_tcp_from_the_node(sshd: Sshd) -> None:
    async with linked(sshd.config()) as link:
        channel = await link.open_tcp("127.0.0.1", sshd.port, timeout=10)
        assert (await channel.read(100)).startswith(b"SSH-2.0-")
        await channel.write(b"not ssh at all\r\n" * 10)
        while await channel.read(100):
            pass
        await channel.close()
        with pytest.raises(TransportError) as caught:
            await link.open_tcp("127.0.0.1", 1, timeout=10)
        assert caught.value.trouble == Trouble.REFUSED
        assert link.connected


async def test_a_unix_socket_on_the_node(sshd: Sshd, tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    path = str(tmp_path / "s")
    server = await asyncio.start_unix_server(echo, path)
    async with linked(sshd.config()) as link:
        channel = await link.open_unix(path, timeout=10)
        await channel.write(b"hello")
        assert await channel.read(100) == b"hello"
        await channel.close()
        with pytest.raises(TransportError) as caught:
            await link.open_unix(path + "-none", timeout=10)
        assert caught.value.trouble == Trouble.CHANNEL
    server.close()


async def test_forwarding_that_sshd_does_not_allow(make_sshd: Callable[..., Sshd]) -> None:
    sshd = make_sshd("AllowTcpForwarding no")
    async with linked(sshd.config()) as link:
        with pytest.raises(TransportError) as caught:
            await link.open_tcp("127.0.0.1", sshd.port, timeout=10)
        assert caught.value.trouble == Trouble.CHANNEL
        assert "AllowTcpForwarding yes" in caught.value.remedy


async def test_a_closed_link_stays_closed(sshd: Sshd) -> None:
    async with linked(sshd.config()) as link:
        await link.connect(timeout=10)
        await link.close()
        with pytest.raises(TransportError) as caught:
            await link.run(["true"], timeout=10)
        assert caught.value.trouble == Trouble.LOST
