"""Commands that a lab node answers itself: the socket behind `bin/docker`, `bin/nvidia-smi` and the rest."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

_OUT: Final = 1
_ERR: Final = 2
_EXIT: Final = 3
_INPUT: Final = 4


class Call:
    """One command in progress. args: without its own name."""

    def __init__(
        self, node: str, cwd: str, argv: list[str], blocks: asyncio.Queue[bytes], writer: asyncio.StreamWriter
    ):
        self.node = node
        self.cwd = cwd
        self.name = argv[0]
        self.args = argv[1:]
        self._blocks = blocks
        self._writer = writer

    async def out(self, data: str | bytes) -> None:
        await self._send(_OUT, data)

    async def err(self, data: str | bytes) -> None:
        await self._send(_ERR, data)

    async def read(self) -> bytes:
        """A block of the command's standard input; empty at its end."""
        self._writer.write(bytes([_INPUT]) + bytes(4))
        await self._writer.drain()
        return await self._blocks.get()

    async def _send(self, kind: int, data: str | bytes) -> None:
        block = data.encode(errors="surrogateescape") if isinstance(data, str) else data
        if block:
            self._writer.write(bytes([kind]) + len(block).to_bytes(4, "big") + block)
            await self._writer.drain()

    async def exit(self, status: int) -> None:
        self._writer.write(bytes([_EXIT]) + status.to_bytes(4, "big"))
        await self._writer.drain()


Command = Callable[[Call], Awaitable[int]]


class ShimServer:
    """The unix socket that all nodes' shims talk to. A command whose process is gone is cancelled."""

    def __init__(self, path: Path, dispatch: Command) -> None:
        self._path = path
        self._dispatch = dispatch
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._path)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            body = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            node, cwd, *argv = [w.decode(errors="surrogateescape") for w in body.split(b"\0")]
            blocks: asyncio.Queue[bytes] = asyncio.Queue()
            work = asyncio.create_task(self._work(Call(node, cwd, argv, blocks, writer)))
            watch = asyncio.create_task(_pump(reader, blocks, work))
            try:
                await work
            finally:
                work.cancel()
                watch.cancel()
                await asyncio.gather(work, watch, return_exceptions=True)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the command's process is gone or the lab ends: nobody is left to be told
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _work(self, call: Call) -> None:
        try:
            status = await self._dispatch(call)
        except (OSError, EOFError):
            raise
        except Exception as e:  # noqa: BLE001 a fault of the lab itself must be visible to who called it
            await call.err(f"lab: {type(e).__name__}: {e}\n")
            status = 70
        await call.exit(status)


async def _pump(reader: asyncio.StreamReader, blocks: asyncio.Queue[bytes], work: asyncio.Task[None]) -> None:
    """Input as the shim sends it, only when asked; the end of the socket means that the command was ended."""
    try:
        while True:
            blocks.put_nowait(await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")))
    except (OSError, EOFError):
        work.cancel()


_IDENTITY: Final = """import os, pwd, socket
node = os.environ.get("NIGHTDECK_LAB_NODE", "dgx")
u = os.uname_result(("Linux", node, "6.17.0-1032-nvidia", "#32-Ubuntu SMP PREEMPT", "aarch64"))
os.uname = lambda: u
socket.gethostname = lambda: node
os.getuid = os.geteuid = lambda: 1000
pwd.getpwuid = lambda uid: pwd.struct_passwd(("operator", "x", uid, uid, "", os.path.expanduser("~"), "/bin/sh"))
free = 1_900_000_000_000 // 4096 - int(node.strip("dgx") or 0) * 2_000_003
os.statvfs = lambda path: os.statvfs_result((4096, 4096, 960_000_000, free, free, 10**8, 10**8, 10**8, 0, 255))
isdir = os.path.isdir
os.path.isdir = lambda path: path == "/dev/infiniband" or isdir(path)
"""


def write_shims(home: Path, names: Iterable[str]) -> Path:
    """`bin` for all nodes: one small file per command, which starts the program with the least that Python can start
    with. The node is known by the environment."""
    folder = home / "bin"
    program = home / "shim_node.py"
    shutil.copyfile(Path(__file__).with_name("shim_node.py"), program)
    shutil.rmtree(folder, ignore_errors=True)
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{base}" -I -S "{program}" {name} "$@"\n')
        path.chmod(0o755)
    (folder / "python3").symlink_to(base)
    # A Python that says the node's name and machine, as the shims do: a `venv` whose start-up module answers uname.
    packages = home / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    (home / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    # By a path file: a sitecustomize of the system's own Python (Debian has one) would come before ours.
    (packages / "nightdeck_lab.pth").write_text("import nightdeck_lab_node\n")
    (packages / "nightdeck_lab_node.py").write_text(_IDENTITY)
    return folder
