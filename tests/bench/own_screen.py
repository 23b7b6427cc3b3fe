"""nightdeck's first picture: from the command to a painted table, on a terminal of its own."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
import time

from tests.bench.ground import Ground
from tests.bench.measure import Measure, Unmeasurable
from tests.bench.own import ROOT, environment

COLUMNS, ROWS = 160, 48
LIMIT_S = 60.0
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_].*?\x1b\\|[@-Z\\-_])", re.S)


async def first_screen(ground: Ground) -> float:
    """Until every node has its row in the table of the console."""
    names = [name.encode() for name in ground.names]
    return await asyncio.to_thread(_time_to, ground, lambda text: all(name in text for name in names))


async def first_figures(ground: Ground) -> float:
    """Until the memory of every node is in it: the table says GiB once a row, and before that of no node."""
    count = len(ground.names)
    return await asyncio.to_thread(_time_to, ground, lambda text: text.count(b"GiB") >= count)


def _time_to(ground: Ground, wanted: object) -> float:
    assert callable(wanted)
    argv = [sys.executable, "-m", "console", "--cluster", str(ground.bed.cluster_toml())]
    env = environment(ground) | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
    start = time.perf_counter()
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execve(argv[0], argv, env)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    painted = bytearray()
    try:
        while time.perf_counter() - start < LIMIT_S:
            try:
                painted += os.read(fd, 65536)
            except OSError:
                break  # it has ended
            if wanted(_ESCAPE.sub(b" ", bytes(painted))):
                return time.perf_counter() - start
        raise Unmeasurable(f"no picture in {LIMIT_S:.0f} s: {_ESCAPE.sub(b' ', bytes(painted))[-200:]!r}")
    finally:
        _end(pid, fd)


def _end(pid: int, fd: int) -> None:
    """Let it leave by itself, as after the terminal's end; its last bytes are read so that it is not held up."""
    os.kill(pid, signal.SIGTERM)
    with contextlib.suppress(OSError):
        while os.read(fd, 65536):
            pass
    os.close(fd)
    os.waitpid(pid, 0)


SCREEN = (
    Measure("nightdeck: from the prompt to the first table of eight nodes", first_screen),
    Measure("nightdeck: from the prompt to the memory of eight nodes in it", first_figures),
)
