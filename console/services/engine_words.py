"""What a container engine said when it refused: its last line that says something."""

from __future__ import annotations

from typing import Final

from console.base.text import clean_line, decode
from console.transport.base import Completed

_HINTS: Final = ("See 'docker run", "Run 'docker run", "time=")


def last_words(done: Completed) -> str:
    """Clean; empty where it said nothing. The usage hint that docker repeats at the end says nothing."""
    lines = [line.strip() for line in decode(done.stderr).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(_HINTS)] or lines
    return clean_line(telling[-1], limit=300) if telling else ""
