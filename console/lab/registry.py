"""Where a lab that keeps running says so, for other commands to find it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import platformdirs

from console.base.errors import NightdeckError, UsageError
from console.lab.control import ask
from console.lab.layout import write_private


def state_file() -> Path:
    """`lab/current.json` in the state folder (`NIGHTDECK_STATE_DIR`, else the platform's)."""
    base = os.environ.get("NIGHTDECK_STATE_DIR") or platformdirs.user_state_dir("nightdeck", appauthor=False)
    return Path(base) / "lab" / "current.json"


def register(folder: Path) -> None:
    """Say that the lab in `folder` is the one to use."""
    file = state_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, json.dumps({"folder": str(folder), "pid": os.getpid()}).encode())


def unregister() -> None:
    """Take it back, if it is this process's."""
    file = state_file()
    try:
        if json.loads(file.read_text()).get("pid") == os.getpid():
            file.unlink()
    except (OSError, ValueError):
        return  # nothing of ours is registered


def registered_folder() -> Path:
    """The folder of the lab that says it keeps running. Raises UsageError where none does."""
    try:
        return Path(json.loads(state_file().read_text())["folder"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError("no lab serves", remedy="`nightdeck lab --serve` begins one") from error


def running_lab() -> Path | None:
    """The cluster file of the lab that keeps running, if its process lives and it answers. Blocks up to two seconds."""
    try:
        folder = Path(json.loads(state_file().read_text())["folder"])
        state = json.loads((folder / "lab.json").read_text())
        os.kill(int(state["pid"]), 0)
        answer = asyncio.run(ask(Path(state["control"]), 2.0, do="status"))
        return Path(answer["cluster"])
    except (OSError, ValueError, KeyError, TypeError, TimeoutError, NightdeckError):
        return None  # whatever is wrong with it: there is no lab to use


async def find_running_lab() -> Path | None:
    """`running_lab` for callers in an event loop."""
    return await asyncio.to_thread(running_lab)
