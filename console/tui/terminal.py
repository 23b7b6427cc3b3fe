"""Life in a terminal: hang-ups and signals end the console in order, a terminal that went away too."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM)
GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


def no_colour(environ: Mapping[str, str]) -> bool:
    """NO_COLOR counts when it is set, even to nothing."""
    return "NO_COLOR" in environ


class TerminalGuard:
    """Calls `leave(code)` once on SIGHUP, on SIGTERM, or when the terminal behind standard input is gone.

    With SIGHUP ignored (nohup) nobody would tell that the terminal went, and reading it would spin: so it is polled."""

    def __init__(self, leave: Callable[[int], None], *, fd: int = 0) -> None:
        self._leave = leave
        self._fd = fd
        self._poll: select.poll | None = None
        self._gone = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def install(self) -> None:
        """In the running loop's thread; a loop of another thread takes no signals, which is no harm."""
        self._loop = asyncio.get_running_loop()
        for number in SIGNALS:
            with suppress(ValueError, RuntimeError):
                self._loop.add_signal_handler(number, self._signalled, number)
        if os.isatty(self._fd):
            self._poll = select.poll()
            self._poll.register(self._fd, 0)

    def remove(self) -> None:
        if self._loop is not None:
            for number in SIGNALS:
                with suppress(ValueError, RuntimeError):
                    self._loop.remove_signal_handler(number)
        self._poll = None

    def check(self) -> None:
        """To be called about once a second."""
        if self._poll is not None and any(event & GONE for _, event in self._poll.poll(0)):
            self._end(128 + signal.SIGHUP)

    def _signalled(self, number: int) -> None:
        self._end(128 + number)

    def _end(self, code: int) -> None:
        if not self._gone:
            self._gone = True
            self._leave(code)
