"""Processes by pid and start time, so that a reused pid is never signalled."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def started(pid: int) -> int | None:
    """Start in clock ticks since boot (/proc/PID/stat field 22); None where the process is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def alive(pid: int, start: int) -> bool:
    """True while this very process lives."""
    return started(pid) == start


def end(pid: int, start: int, signum: int = signal.SIGKILL) -> bool:
    """Signal this very process; False where it was gone already."""
    if not alive(pid, start):
        return False
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return False
    return True


def children(pid: int) -> list[int]:
    """Direct children, in the order in which they were started; empty where the process is gone."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid: int) -> list[int]:
    """Every process below, parents before their children."""
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def command(pid: int) -> str:
    """The process's short name, empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll every 20 ms until the condition holds; TimeoutError names what was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.02)
