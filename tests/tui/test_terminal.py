"""Life in a real terminal: signals and a terminal that goes away end the console in order, and restore the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

LEAVE_ALTERNATE = b"\x1b[?1049l"


class Terminal:
    """The demo in a pseudo-terminal of 80x24."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.master = master
        self.seen = b""

    def until(self, wanted: bytes, limit_s: float = 30.0) -> None:
        """Read what is drawn until `wanted` was."""
        end = time.monotonic() + limit_s
        while wanted not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"{wanted!r} was not drawn; the end was {self.seen[-300:]!r}"
            if select.select([self.master], [], [], left)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    assert wanted in self.seen, self.seen[-300:]

    def drain(self) -> None:
        """Read on until the process ends, so that it can write its last."""
        while self.process.poll() is None:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    break
        with suppress(OSError):
            while select.select([self.master], [], [], 0)[0]:
                self.seen += os.read(self.master, 65536)


@contextmanager
def terminal(*, ignore_hup: bool = False, **environ: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def begin() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        if ignore_hup:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    command = [sys.executable, "-m", "tests.tui.demo", "booting", "0"]
    env = {**os.environ, **environ}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, preexec_fn=begin, env=env)
    os.close(slave)
    term = Terminal(process, master)
    try:
        yield term
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        with suppress(OSError):
            os.close(master)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    with terminal() as term:
        term.until(b"weights")
        term.process.send_signal(number)
        term.drain()
        assert term.process.wait(15) == 128 + number
        assert LEAVE_ALTERNATE in term.seen


@pytest.mark.parametrize("ignore_hup", [False, True])
def test_it_ends_when_the_terminal_goes(ignore_hup: bool) -> None:
    with terminal(ignore_hup=ignore_hup) as term:
        term.until(b"weights")
        os.close(term.master)
        assert term.process.wait(15) is not None


def test_quit_leaves_the_word_that_the_deployment_runs_on() -> None:
    with terminal() as term:
        term.until(b"weights")
        os.write(term.master, b"q")
        term.until(b"only the console ends")
        os.write(term.master, b"q")
        term.drain()
        assert term.process.wait(15) == 0
        assert b"keeps running on 8 nodes" in term.seen.rpartition(LEAVE_ALTERNATE)[2]


@pytest.mark.parametrize(
    ("environ", "has", "lacks"),
    [
        ({"TEXTUAL_COLOR_SYSTEM": "truecolor"}, b"38;2;", b"38;5;"),
        ({"TEXTUAL_COLOR_SYSTEM": "256"}, b"38;5;", b"38;2;"),
        ({"TEXTUAL_COLOR_SYSTEM": "standard"}, b"\x1b[1;9", b"38;5;"),
        ({"NO_COLOR": "1"}, b"\x1b[1", b"38;"),
    ],
)
def test_each_kind_of_terminal_gets_its_own_colours(environ: dict[str, str], has: bytes, lacks: bytes) -> None:
    with terminal(**environ) as term:
        term.until(b"weights")
        term.until(b"help")
        assert has in term.seen
        assert lacks not in term.seen
