"""Copied text reaches the terminal's clipboard by OSC 52, which nothing acknowledges: so a file has it too."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Final

from textual.app import App

LIMIT: Final = 74_000  # what common terminals take of one OSC 52 sequence, in bytes of text


def copy(app: App[object], text: str) -> str:
    """Copy; returns what happened in words. Raises OSError when the file cannot be written."""
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    name = f"nightdeck-copy-{os.getuid()}-{time.strftime('%H%M%S')}.txt"
    path = folder / name
    # The fallback folder is shared by all users: never follow a link there.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    lines = text.count("\n") + 1
    if len(text.encode()) > LIMIT:
        return f"{lines} lines are too much for the clipboard; they are in {path}"
    app.copy_to_clipboard(text)
    return f"{lines} lines offered to the clipboard, and in {path}"
