"""Bytes between an SSH channel and a command: pipes, or a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios
from typing import Final

import asyncssh

from console.lab.world import LabNode

_BLOCK: Final = 1 << 16


def signal_group(pid: int, number: signal.Signals) -> None:
    """A signal to a command's process group, if anything of it is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


async def feed_pipe(channel: asyncssh.SSHServerProcess[bytes], pid: int, stdin: asyncio.StreamWriter) -> None:
    while True:
        try:
            data = await channel.stdin.read(_BLOCK)
        except asyncssh.SignalReceived as e:
            number = getattr(signal, f"SIG{e.signal}", None)
            if isinstance(number, signal.Signals):
                signal_group(pid, number)
            continue
        except (asyncssh.BreakReceived, asyncssh.TerminalSizeChanged):
            continue
        except (asyncssh.Error, OSError):
            return
        if not data:
            break
        try:
            stdin.write(data)
            await stdin.drain()
        except OSError:
            return  # the command reads no more
    with contextlib.suppress(OSError):
        stdin.close()
        await stdin.wait_closed()


async def drain(node: LabNode, source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    # When the channel is gone, the command's end is decided elsewhere; here it only stops being read.
    with contextlib.suppress(asyncssh.Error, OSError):
        while data := await source.read(_BLOCK):
            await node.moving.wait()
            target.write(data)
            await target.drain()


async def feed_terminal(channel: asyncssh.SSHServerProcess[bytes], master: int) -> None:
    _resize(master, channel.term_size)
    while True:
        try:
            data = await channel.stdin.read(_BLOCK)
        except asyncssh.TerminalSizeChanged as e:
            _resize(master, (e.width, e.height, e.pixwidth, e.pixheight))
            continue
        except (asyncssh.BreakReceived, asyncssh.SignalReceived):
            continue
        except (asyncssh.Error, OSError):
            return
        os.write(master, data or b"\x04")
        if not data:
            return


async def drain_terminal(node: LabNode, master: int, target: asyncssh.SSHWriter[bytes]) -> None:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(os.dup(master), "rb", 0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        # A terminal whose last process is gone reads as an input/output error.
        await drain(node, reader, target)
    finally:
        transport.close()


def _resize(master: int, size: tuple[int, int, int, int]) -> None:
    width, height, pixel_width, pixel_height = size
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", height or 24, width or 80, pixel_height, pixel_width))
