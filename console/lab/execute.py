"""Commands on a lab node, really run: `sh -c` in a group of its own, with the node's folder as its world."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios
from pathlib import Path
from typing import Final

import asyncssh

from console.lab.world import LabNode

_BLOCK: Final = 1 << 16


class Executor:
    """All running commands. When a channel or its connection goes, the command's whole group is killed."""

    def __init__(self, runtime: Path, shim_socket: Path) -> None:
        self._runtime = runtime
        self._shim_socket = shim_socket
        self._running: dict[asyncio.Task[None], tuple[LabNode, asyncio.subprocess.Process]] = {}
        self._left_behind: set[int] = set()  # groups with a member that outlived its command, as nohup lets it

    def docker_socket(self, node: LabNode) -> Path:
        return self._runtime / f"{node.name}.sock"

    def count(self, node: LabNode) -> int:
        return sum(1 for n, _ in self._running.values() if n is node)

    def environment(self, node: LabNode) -> dict[str, str]:
        folder = node.folder
        return {
            "PATH": f"{folder}/bin:/usr/bin:/bin",
            "HOME": f"{folder}/home",
            "USER": "operator",
            "LOGNAME": "operator",
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "TMPDIR": f"{folder}/tmp",
            "HOST_PROC": f"{folder}/proc",
            "HOST_SYS": f"{folder}/sys",
            "DOCKER_HOST": f"unix://{self.docker_socket(node)}",
            "XDG_RUNTIME_DIR": f"{folder}/run",
            "NIGHTDECK_LAB_SOCKET": str(self._shim_socket),
            "NIGHTDECK_LAB_NODE": node.name,
        }

    def freeze(self, node: LabNode, frozen: bool) -> None:
        for owner, process in self._running.values():
            if owner is node:
                _signal(process, signal.SIGSTOP if frozen else signal.SIGCONT)

    async def close(self, node: LabNode) -> None:
        tasks = [t for t, (n, _) in self._running.items() if n is node]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for group in self._left_behind:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._left_behind.clear()

    async def run(self, node: LabNode, channel: asyncssh.SSHServerProcess[bytes]) -> None:
        """One command, or a shell. Its exit status goes back as it is; a signal as a signal."""
        await node.moving.wait()
        node.on_command()
        terminal = channel.term_type is not None
        master, slave = os.openpty() if terminal else (-1, -1)
        end: int = slave if terminal else asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", *(["-c", channel.command] if channel.command is not None else []),
                stdin=end, stdout=end, stderr=end, cwd=node.folder / "home", env=self.environment(node),
                start_new_session=True, limit=_BLOCK,
            )  # fmt: skip
        finally:
            if terminal:
                os.close(slave)
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = (node, process)
        gone = asyncio.create_task(channel.channel.wait_closed())
        if terminal:
            feed = asyncio.create_task(_feed_terminal(channel, master))
            drains = [asyncio.create_task(_drain_terminal(node, master, channel.stdout))]
        else:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            feed = asyncio.create_task(_feed(channel, process, process.stdin))
            drains = [
                asyncio.create_task(_drain(node, process.stdout, channel.stdout)),
                asyncio.create_task(_drain(node, process.stderr, channel.stderr)),
            ]
        ended = asyncio.gather(process.wait(), *drains, return_exceptions=True)
        try:
            await asyncio.wait([ended, gone], return_when=asyncio.FIRST_COMPLETED)
            await node.moving.wait()
            if ended.done() and not gone.done():
                code = process.returncode or 0
                if code < 0:
                    channel.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
                else:
                    channel.exit(code)
        finally:
            if not ended.done():
                _signal(process, signal.SIGCONT)
                _signal(process, signal.SIGKILL)
            elif _signal(process, None):
                self._left_behind.add(process.pid)
            for t in (feed, gone, *drains):
                t.cancel()
            await asyncio.gather(feed, gone, *drains, return_exceptions=True)
            await asyncio.gather(ended, process.wait(), return_exceptions=True)
            if terminal:
                os.close(master)
            self._running.pop(task, None)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals | None) -> bool:
    """A signal to the command's group (None: only look). False when nothing of the group is left."""
    try:
        os.killpg(process.pid, number if number is not None else 0)
    except ProcessLookupError:
        return False
    return True


async def _feed(
    channel: asyncssh.SSHServerProcess[bytes], process: asyncio.subprocess.Process, stdin: asyncio.StreamWriter
) -> None:
    while True:
        try:
            data = await channel.stdin.read(_BLOCK)
        except asyncssh.SignalReceived as e:
            number = getattr(signal, f"SIG{e.signal}", None)
            if isinstance(number, signal.Signals):
                _signal(process, number)
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


async def _drain(node: LabNode, source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    # When the channel is gone, the command's end is decided elsewhere; here it only stops being read.
    with contextlib.suppress(asyncssh.Error, OSError):
        while data := await source.read(_BLOCK):
            await node.moving.wait()
            target.write(data)
            await target.drain()


async def _feed_terminal(channel: asyncssh.SSHServerProcess[bytes], master: int) -> None:
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


async def _drain_terminal(node: LabNode, master: int, target: asyncssh.SSHWriter[bytes]) -> None:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(os.dup(master), "rb", 0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        # A terminal whose last process is gone reads as an input/output error.
        await _drain(node, reader, target)
    finally:
        transport.close()


def _resize(master: int, size: tuple[int, int, int, int]) -> None:
    width, height, pixel_width, pixel_height = size
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", height or 24, width or 80, pixel_height, pixel_width))
