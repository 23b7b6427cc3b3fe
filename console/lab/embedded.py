"""A lab for one command or one session: a child process that ends with whoever started it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from console.base.errors import NightdeckError
from console.lab.clock import SPEED_COMMAND
from console.lab.control import ask
from console.lab.layout import discard
from console.lab.main import speed_from_environment

# -P: a `console/` in the folder that the lab is started from is not this one.
SELF: Final = (sys.executable, "-P", "-m", "console.lab")
_READY_S = 60.0
_END_S = 10.0


@dataclass(slots=True)
class LabHandle:
    """A lab in a process of its own. cluster_file: what the product is given. own: the folder goes with the lab."""

    cluster_file: Path
    folder: Path
    control_socket: Path
    own: bool
    _process: asyncio.subprocess.Process

    async def control(self, do: str, name: str = "") -> dict[str, Any]:
        """`set NAME`, `kill NODE`, `freeze NODE`, `cut NODE`, `heal NODE`, `status`. Raises UsageError."""
        return await ask(self.control_socket, do=do, name=name)

    async def close(self) -> None:
        """End the lab and everything in it; safe to call twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()  # the lab ends when this pipe ends
        if self._process.returncode is None:
            try:
                await asyncio.wait_for(self._process.wait(), _END_S)
            except TimeoutError:
                kill(self._process)
                await self._process.wait()
                await asyncio.to_thread(shutil.rmtree, self.control_socket.parent, True)
        if self.own:
            await asyncio.to_thread(discard, self.folder)


async def start_lab(
    *,
    nodes: int = 8,
    speed: float | None = None,
    scenario: str = "healthy",
    folder: Path | None = None,
    recipes: Sequence[Path] = (),
    images: Sequence[str] = (),
) -> LabHandle:
    """Start a lab and wait for its own word that it is ready. speed: lab seconds a second; None: the environment's,
    else the speed of a command without a screen. folder: None for one of its own. Raises NightdeckError."""
    own = folder is None
    where = Path(tempfile.mkdtemp(prefix="nightdeck-lab-")) if folder is None else folder
    pace = speed if speed is not None else speed_from_environment(SPEED_COMMAND)
    words = [
        "--dir",
        str(where),
        "--nodes",
        str(nodes),
        "--speed",
        f"{pace:g}",
        "--scenario",
        scenario,
        "--parent-pipe",
    ]
    for path in recipes:
        words += ["--recipes", str(path)]
    for image in images:
        words += ["--image", image]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *SELF, *words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _READY_S)
        state = json.loads(line)
        return LabHandle(Path(state["cluster"]), Path(state["folder"]), Path(state["control"]), own, process)
    except (TimeoutError, ValueError, KeyError) as e:
        kill(process)
        said = (await process.stderr.read()).decode(errors="replace").strip().splitlines()
        await process.wait()
        if own:
            shutil.rmtree(where, ignore_errors=True)
        raise NightdeckError(
            "the lab did not start", remedy=said[-1] if said else f"{type(e).__name__} after {_READY_S:g} s"
        ) from e
    except BaseException:
        kill(process)
        await process.wait()
        if own:
            shutil.rmtree(where, ignore_errors=True)
        raise


def kill(process: asyncio.subprocess.Process) -> None:
    """Without the look that `Process.kill` takes first: that look would reap a child which asyncio waits for, and
    asyncio would complain of an unknown child on the terminal. Until it is waited for its number is its own."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def lab(**options: Any) -> AsyncIterator[LabHandle]:
    """`start_lab`, and its end whatever happens."""
    handle = await start_lab(**options)
    try:
        yield handle
    finally:
        await handle.close()
