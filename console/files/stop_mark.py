"""Who stops a boot, told beside its journal to the other consoles of this machine, whichever of them writes it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from console.base.text import clean_line
from console.files.atomic import write_whole

MARK: Final = "stopping.json"
# What a stop ends is seen within seconds of it, also by a console that reads a slow node.
SEEN_WITHIN_S: Final = 30.0
# Longer than any stop: then its process hangs, or another has its number by now.
LONGEST_S: Final = 600.0
_IN_VAIN: Final = frozenset({"failed", "nothing"})


class StopMark(NamedTuple):
    """by: who. at: when the stop began, epoch seconds."""

    by: str
    at: float


def write_stop_mark(folder: Path, by: str, at: float, *, ended: float | None = None, result: str = "") -> None:
    """Tell that a stop began, or how it ended (epoch seconds). Raises DiskError."""
    row = {"by": clean_line(by, limit=300), "at": at, "pid": os.getpid(), "ended": ended, "result": result}
    write_whole(folder / MARK, json.dumps(row, allow_nan=False).encode() + b"\n")


def read_stop_mark(folder: Path, now: float) -> StopMark | None:
    """The stop that goes on, or was a moment ago. None where there is none. Never raises: a file that is no mark tells
    nothing."""
    try:
        row = json.loads((folder / MARK).read_bytes()[:4096])
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    by, at, ended = row.get("by"), _number(row.get("at")), _number(row.get("ended"))
    if not isinstance(by, str) or at is None:
        return None
    if ended is not None:
        there = now - ended <= SEEN_WITHIN_S and row.get("result") not in _IN_VAIN
    else:
        there = now - at <= LONGEST_S and _lives(row.get("pid"))
    return StopMark(clean_line(by, limit=300), at) if there else None


def _lives(pid: Any) -> bool:
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid < 1 << 31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's: it lives
        return True
    return True


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


__all__ = ["StopMark", "read_stop_mark", "write_stop_mark"]
