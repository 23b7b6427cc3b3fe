"""Commands on a lab node, really run: `sh -c` in a group of its own, with the node's folder as its world."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Final

import asyncssh

from console.lab.light import LightProbe, order_of
from console.lab.light_commands import plain_answer
from console.lab.streams import drain, drain_terminal, feed_pipe, feed_terminal, signal_group
from console.lab.world import LabNode
from console.transport.framing import peeled

_BLOCK: Final = 1 << 16
_MARK: Final = "NIGHTDECK_LAB_SESSION"
# A command that ends with its input (as the product wraps its own) has time to do so; 2 s of it are its own patience.
_INPUT_ENDED_S: Final = 2.5


class Executor:
    """All running commands. When a channel or its connection goes, the command sees its input end; what is left of it
    after a short time is killed, its whole family with it."""

    def __init__(self, runtime: Path, shim_socket: Path, *, light: bool = False) -> None:
        """light: probes, and what else is asked of all nodes again and again, are answered here instead of run."""
        self._runtime = runtime
        self._light = light
        self._shim_socket = shim_socket
        self._running: dict[asyncio.Task[None], LabNode] = {}
        self._probes: dict[asyncio.Task[None], LabNode] = {}
        self._sessions = 0
        self._over = False

    def docker_socket(self, node: LabNode) -> Path:
        return self._runtime / f"{node.name}.sock"

    def count(self, node: LabNode) -> int:
        return sum(1 for owner in self._running.values() if owner is node)

    def environment(self, node: LabNode, session: str = "") -> dict[str, str]:
        folder = node.folder
        return {
            "PATH": f"{folder.parent}/bin:/usr/bin:/bin",
            "HOME": f"{folder}/home",
            "USER": "operator",
            "LOGNAME": "operator",
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "TMPDIR": f"{folder}/tmp",
            "HOST_PROC": f"{folder}/proc",
            "HOST_SYS": f"{folder}/sys",
            "HOST_DEV": f"{folder}/dev",
            "DOCKER_HOST": f"unix://{self.docker_socket(node)}",
            "XDG_RUNTIME_DIR": f"{folder}/run",
            "NIGHTDECK_LAB_SOCKET": str(self._shim_socket),
            "NIGHTDECK_LAB_NODE": node.name,
            _MARK: f"{self._runtime}/{node.name}/{session}",
        }

    def freeze(self, node: LabNode, frozen: bool) -> None:
        for _ in range(2):  # what was being started during the first look is caught by the second
            _signal_family(f"{self._runtime}/{node.name}/", signal.SIGSTOP if frozen else signal.SIGCONT)

    async def close(self, node: LabNode) -> None:
        """End everything that runs on the node, also what left its session."""
        tasks = [t for t, owner in {**self._running, **self._probes}.items() if owner is node]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def sweep(self) -> None:
        """The end: kill every command, and whatever any of them left behind, as nohup and setsid let it."""
        self._over = True
        _signal_family(f"{self._runtime}/", signal.SIGKILL)

    async def run(self, node: LabNode, channel: asyncssh.SSHServerProcess[bytes]) -> None:
        """One command, or a shell. Its exit status goes back as it is; a signal as a signal."""
        await node.moving.wait()
        mark, line = peeled(channel.command) if self._light and channel.command is not None else (b"", None)
        order = order_of(line)
        if order is not None:
            channel.stdout.write(mark)
            await self._answer_probe(node, LightProbe(node, order, self.docker_socket(node)), channel)
            return
        said = plain_answer(node, line)
        if said is not None:
            channel.stdout.write(mark + said)
            channel.exit(0)
            return
        node.on_command()
        self._sessions += 1
        session = f"{self._sessions}."
        terminal = channel.term_type is not None
        master, slave = os.openpty() if terminal else (-1, -1)
        end: int = slave if terminal else asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", *(["-c", channel.command] if channel.command is not None else []),
                stdin=end, stdout=end, stderr=end, cwd=node.folder / "home", env=self.environment(node, session),
                start_new_session=True, limit=_BLOCK,
            )  # fmt: skip
        finally:
            if terminal:
                os.close(slave)
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = node
        gone = asyncio.create_task(channel.channel.wait_closed())
        if terminal:
            feed = asyncio.create_task(feed_terminal(channel, master))
            drains = [asyncio.create_task(drain_terminal(node, master, channel.stdout))]
        else:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            feed = asyncio.create_task(feed_pipe(channel, process.pid, process.stdin))
            drains = [
                asyncio.create_task(drain(node, process.stdout, channel.stdout)),
                asyncio.create_task(drain(node, process.stderr, channel.stderr)),
            ]
        ended = asyncio.create_task(_all_over(process, drains))
        try:
            await asyncio.wait((ended, gone), return_when=asyncio.FIRST_COMPLETED)
            await node.moving.wait()
            if ended.done() and not gone.done():
                code = process.returncode or 0
                if code < 0:
                    channel.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
                else:
                    channel.exit(code)
            elif process.returncode is None:
                if process.stdin is not None:
                    process.stdin.close()
                elif terminal:
                    signal_group(process.pid, signal.SIGHUP)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _INPUT_ENDED_S)
        finally:
            if not self._over and (process.returncode is None or not ended.done()):
                _signal_family(f"{self._runtime}/{node.name}/{session}", signal.SIGKILL)
                signal_group(process.pid, signal.SIGKILL)
            for t in (feed, gone, *drains):
                t.cancel()
            await asyncio.gather(feed, gone, ended, process.wait(), return_exceptions=True)
            if terminal:
                os.close(master)
            self._running.pop(task, None)

    async def _answer_probe(self, node: LabNode, probe: LightProbe, channel: asyncssh.SSHServerProcess[bytes]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._probes[task] = node
        gone = asyncio.create_task(channel.channel.wait_closed())

        def hang_up(_: asyncio.Task[None]) -> None:
            task.cancel()

        gone.add_done_callback(hang_up)
        try:
            await probe.run(channel)
        finally:
            gone.remove_done_callback(hang_up)
            gone.cancel()
            del self._probes[task]


async def _all_over(process: asyncio.subprocess.Process, drains: list[asyncio.Task[None]]) -> None:
    """As sshd counts it: the command ended and its output is read to the end."""
    await process.wait()
    await asyncio.gather(*drains)


def _signal_family(mark: str, number: signal.Signals) -> None:
    """A signal to every process that carries the mark in its environment, whatever session it moved to."""
    wanted = f"{_MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # Processes end while they are looked at, and those of others cannot be read.
            with contextlib.suppress(OSError):
                if any(v.startswith(wanted) for v in (entry / "environ").read_bytes().split(b"\0")):
                    os.kill(int(entry.name), number)
