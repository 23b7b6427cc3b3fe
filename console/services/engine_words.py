"""What a container engine said when it refused: its last line that says something."""

from __future__ import annotations

from typing import Final

from console.base.text import clean_line, decode
from console.transport.base import Completed

_HINTS: Final = ("See 'docker run", "Run 'docker run", "time=")


def telling(done: Completed) -> list[str]:
    """Lines of stderr, but for the usage hint that docker repeats at the end and that says nothing."""
    lines = [line.strip() for line in decode(done.stderr).splitlines() if line.strip()]
    return [line for line in lines if not line.startswith(_HINTS)] or lines


def last_words(done: Completed) -> str:
    """Clean; empty where it said nothing."""
    lines = telling(done)
    return clean_line(lines[-1], limit=300) if lines else ""
