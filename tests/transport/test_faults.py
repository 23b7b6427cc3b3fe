"""What breaks on the way, each told apart, and none hammered."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import time
from pathlib import Path

import pytest

from console.transport import ssh, ssh_dial
from console.transport.base import TransportError, Trouble
from console.transport.ssh_errors import Attempt, Phase, explain
from tests.transport.sshd import Sshd
from tests.transport.tools import OwnClock, Proxy, linked, serving


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of the real thing, shortened: they are constants, not behaviour."""
    monkeypatch.setattr(ssh_dial, "GREETING_LIMIT_S", 0.3)
    monkeypatch.setattr(ssh_dial, "KEEPALIVE_S", 0.1)


async def fails(link: ssh.SshLink, timeout: float = 10) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await link.run(["true"], timeout=timeout)
    assert caught.value.node == "n1"
    return caught.value


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_refused() -> None:
    async with linked(None, "127.0.0.1", port=unused_port()) as link:
        assert (await fails(link)).trouble == Trouble.REFUSED


async def test_a_name_that_does_not_resolve() -> None:
    async with linked(None, "no-such-host.invalid") as link:
        error = await fails(link)
        assert error.trouble == Trouble.UNKNOWN_HOST
        assert "no-such-host.invalid" in error.what


async def test_no_answer_to_tcp_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_dial, "CONNECT_LIMIT_S", 0.3)
    with socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # beyond its backlog, Linux drops the SYN
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        async with linked(None, "127.0.0.1", port=full.getsockname()[1]) as link:
            error = await fails(link)
            assert error.trouble == Trouble.UNREACHABLE
            assert "no answer in 0.3 s" in error.what


@pytest.mark.parametrize("code", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT])
def test_no_route(code: int) -> None:
    attempt = Attempt("n1", phase=Phase.CONNECTING)
    assert explain(attempt, OSError(code, os.strerror(code))).trouble == Trouble.UNREACHABLE


def test_refused_on_every_address() -> None:
    error = OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 22, 0, 0), [Errno 111] Connect call")
    assert explain(Attempt("n1", phase=Phase.CONNECTING), error).trouble == Trouble.REFUSED


async def test_a_wedged_node_is_silent_and_left_alone() -> None:
    connects = 0

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connects
        connects += 1
        await reader.read()

    clock = OwnClock()
    async with serving(say_nothing) as port, linked(None, "127.0.0.1", port=port, clock=clock) as link:
        error = await fails(link)
        assert error.trouble == Trouble.SILENT
        assert "no SSH greeting" in error.what
        waits = []
        for _ in range(6):
            waits.append(link.retry_in)
            again = await fails(link, timeout=1.0)  # shorter than the wait: the last error, at once
            assert again.trouble == Trouble.SILENT
            assert "next try in" in again.what
            assert connects == len(waits)
            clock.now += link.retry_in
            assert (await fails(link)).trouble == Trouble.SILENT
        assert waits[0] >= 4.0
        assert waits[-1] >= 48.0
        assert max(waits) <= 72.0


async def test_a_caller_with_little_time_learns_what_is_known_so_far() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(say_nothing) as port, linked(None, "127.0.0.1", port=port) as link:
        assert (await fails(link, timeout=0.1)).trouble == Trouble.SILENT


async def test_a_server_that_is_not_ssh() -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n" * 2000)
        await reader.read()

    async with serving(http) as port, linked(None, "127.0.0.1", port=port) as link:
        assert (await fails(link)).trouble in (Trouble.LOST, Trouble.CONFIG, Trouble.SILENT)


async def test_a_drop_before_the_greeting_is_tried_again(sshd: Sshd) -> None:
    """sshd beyond MaxStartups does this."""
    async with Proxy(sshd.port) as proxy:
        proxy.refuse_first = 2
        sshd.known_hosts.write_text(sshd.known_line(name=f"[127.0.0.1]:{proxy.port}"))
        async with linked(sshd.config(), port=proxy.port) as link:
            assert (await link.run(["true"], timeout=20)).ok
            assert proxy.connects == 3


@pytest.mark.parametrize(
    "says", [b"", b"SSH-2.0-half", b"SSH-2.0-OpenSSH_9.2\r\n", b"SSH-2.0-x\r\n" + b"\0\0\x01\0" + bytes(300)]
)
async def test_an_attempt_is_closed_before_the_next_begins(says: bytes) -> None:
    """A node that is slow, not gone: an attempt left open would log in beside the next."""
    opened = most = connects = 0
    none_left = asyncio.Event()

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened, most, connects
        opened, connects = opened + 1, connects + 1
        none_left.clear()
        most = max(most, opened)
        writer.write(says)
        with contextlib.suppress(OSError):
            while await reader.read(65536):
                pass
        opened -= 1
        if not opened:
            none_left.set()

    clock = OwnClock()
    async with serving(stall) as port, linked(None, "127.0.0.1", port=port, clock=clock) as link:
        for _ in range(4):
            await fails(link)
            clock.now += link.retry_in
        assert connects >= 4 and most == 1
        async with asyncio.timeout(5):
            await none_left.wait()


async def test_ciphers_are_the_fast_ones_where_the_configuration_names_none(sshd: Sshd, tmp_path: Path) -> None:
    async with linked(sshd.config()) as link:
        await link.connect(timeout=10)
        assert link._opened is not None
        assert link._opened.conn.get_extra_info("send_cipher") == "aes128-gcm@openssh.com"
    named = tmp_path / "named"
    named.write_text(f"Ciphers aes256-ctr\nInclude {sshd.config()}\n")
    async with linked(named) as link:
        await link.connect(timeout=10)
        assert link._opened is not None and link._opened.conn.get_extra_info("send_cipher") == "aes256-ctr"


async def test_drops_before_the_greeting_are_not_tried_for_ever(sshd: Sshd) -> None:
    async with Proxy(sshd.port) as proxy:
        proxy.refuse_first = 99
        async with linked(sshd.config(), port=proxy.port) as link:
            error = await fails(link)
            assert error.trouble == Trouble.LOST
            assert "MaxStartups" in error.remedy
            assert proxy.connects == 3


async def test_a_frozen_node_is_noticed_by_keepalive(sshd: Sshd) -> None:
    async with Proxy(sshd.port) as proxy:
        sshd.known_hosts.write_text(sshd.known_line(name=f"[127.0.0.1]:{proxy.port}"))
        async with linked(sshd.config(), port=proxy.port) as link, link.stream(["cat"], interactive=True) as stream:
            blocks = stream.blocks()
            await stream.send(b"x")
            assert await anext(blocks) == b"x"
            proxy.freeze()
            with pytest.raises(TransportError) as caught:
                await anext(blocks)
            assert caught.value.trouble == Trouble.LOST
            assert not link.connected


async def test_a_cut_in_the_middle_is_lost_and_the_next_call_connects_again(sshd: Sshd) -> None:
    async with Proxy(sshd.port) as proxy:
        sshd.known_hosts.write_text(sshd.known_line(name=f"[127.0.0.1]:{proxy.port}"))
        async with linked(sshd.config(), port=proxy.port) as link:
            async with link.stream(["sh", "-c", "printf 'half a fra'; exec sleep 1000"]) as stream:
                blocks = stream.blocks()
                assert await anext(blocks) == b"half a fra"
                proxy.cut()
                with pytest.raises(TransportError) as caught:
                    await anext(blocks)
                assert caught.value.trouble == Trouble.LOST
                assert stream.result() is None
            assert (await link.run(["true"], timeout=20)).ok
            assert proxy.connects == 2


async def test_the_wait_ends_once_connected(sshd: Sshd) -> None:
    clock = OwnClock()
    known = sshd.known_hosts.read_text()
    sshd.known_hosts.write_text("")
    async with linked(sshd.config(), clock=clock) as link:
        assert (await fails(link)).trouble == Trouble.HOST_KEY
        assert link.last_error is not None
        sshd.known_hosts.write_text(known)  # the operator follows the remedy; the file is read again
        clock.now += 60
        assert (await link.run(["true"], timeout=20)).ok
        assert link.last_error is None
        assert link.retry_in == 0


async def test_one_wedged_host_does_not_hold_another(sshd: Sshd) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        serving(say_nothing) as port,
        linked(None, "127.0.0.1", port=port) as wedged,
        linked(sshd.config()) as well,
    ):
        stuck = asyncio.create_task(wedged.connect(timeout=30))
        assert (await well.run(["true"], timeout=20)).ok
        with pytest.raises(TransportError):
            await stuck


async def test_closing_while_connecting_is_prompt() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(say_nothing) as port, linked(None, "127.0.0.1", port=port) as link:
        work = asyncio.create_task(link.connect(timeout=30))
        await asyncio.sleep(0)
        began = time.monotonic()
        await link.close()
        with pytest.raises(TransportError) as caught:
            await work
        assert caught.value.trouble == Trouble.LOST
        assert time.monotonic() - began < 2
