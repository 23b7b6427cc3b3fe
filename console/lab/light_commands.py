"""What a console asks of every node again and again, answered by a light lab itself where the answer is plain."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from functools import lru_cache
from pathlib import Path
from typing import Final

from console.lab.world import LabNode

# Words that only these two programs have; the rest of what they are is in their arguments.
_LOOK: Final = "nightdeck-lease"
_CENSUS: Final = 'ps -aq --no-trunc --filter "label=$label"'


def plain_answer(node: LabNode, command: str | None) -> bytes | None:
    """Standard output of a command that ends well; None: it is really run."""
    words = _words(command) if command is not None and (_LOOK in command or "ps -aq" in command) else ()
    if len(words) > 4 and words[-6:-5] == (_LOOK,) and words[-4] == "look":
        return _look(node)
    if len(words) > 4 and words[-2] == "docker" and words[-4].endswith('"$cli" inspect $ids') and _CENSUS in words[-4]:
        return _census(node, words[-1])
    return None


@lru_cache(maxsize=64)
def _words(command: str) -> tuple[str, ...]:
    """The same few lines come from every console for every node."""
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()


def _look(node: LabNode) -> bytes | None:
    """Who has the controls: nobody, where the lock is free."""
    host = Path("/proc/sys/kernel/hostname").read_text().strip()
    try:
        lock = os.open(node.folder / f"tmp/nightdeck-lease-{host}", os.O_RDONLY)
    except FileNotFoundError:
        return b"free\n"
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return b"free\n"
    except BlockingIOError:
        return None  # who has them, the program finds out
    finally:
        os.close(lock)


def _census(node: LabNode, label: str) -> bytes | None:
    if node.engine.down:
        return None
    found = node.engine.matching({"label": [label]}, everything=True)
    return json.dumps([c.inspect() for c in found]).encode() + b"\n"
