"""A file in the operator's own editor: a new tmux window when there is one, else the console steps aside."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from textual.app import App, SuspendNotSupported

from console.base.errors import NightdeckError

FALLBACKS: Final = ("nano", "vim", "vi")
LINE_FLAG: Final = frozenset({"vi", "vim", "nvim", "nano", "emacs", "micro", "kak", "joe"})  # take +LINE


def editor_argv(file: str, line: int | None, environ: Mapping[str, str]) -> list[str]:
    """The command from $VISUAL or $EDITOR, as a shell would split it. Raises NightdeckError when there is none."""
    given = environ.get("VISUAL") or environ.get("EDITOR") or ""
    argv = shlex.split(given) if given.strip() else []
    if not argv:
        found = next((name for name in FALLBACKS if shutil.which(name)), None)
        if found is None:
            raise NightdeckError("no editor found", remedy="set EDITOR to the name of your editor")
        argv = [found]
    name = argv[0].rpartition("/")[2]
    if line is not None and name in LINE_FLAG:
        argv.append(f"+{line}")
    return [*argv, file]


async def edit(app: App[object], file: str, line: int | None = None) -> str:
    """Open `file`; returns where it opened, in words. Raises NightdeckError.

    Inside tmux the editor gets a window of its own and the console goes on; else the console is suspended
    until the editor ends, and samples are old for as long."""
    argv = editor_argv(file, line, os.environ)
    if os.environ.get("TMUX") and shutil.which("tmux"):
        # tmux runs its one argument in a shell: quoted once, here.
        proc = await asyncio.create_subprocess_exec(
            "tmux", "new-window", "-n", "edit", shlex.join(argv),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(5):
                _, stderr = await proc.communicate()
        except TimeoutError:
            with suppress(ProcessLookupError):
                proc.kill()
            await proc.wait()
            raise NightdeckError("tmux did not open a window in 5 s") from None
        if proc.returncode == 0:
            return "a new tmux window"
        raise NightdeckError(f"tmux did not open a window: {stderr.decode(errors='replace').strip()[:200]}")
    try:
        with app.suspend():
            subprocess.run(argv, check=False)  # noqa: ASYNC221  the editor has the terminal: nothing may draw
    except SuspendNotSupported:
        raise NightdeckError("this terminal cannot be handed to an editor", remedy=f"edit {file} yourself") from None
    except OSError as error:
        raise NightdeckError(f"{argv[0]} did not start: {error.strerror}", remedy="set EDITOR") from error
    return argv[0]
