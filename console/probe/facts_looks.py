"""Runs on a node, for the facts programs: a child that looks at what may hang, a thread for each look.

A mount whose server is gone keeps its thread, and with it the child; never the report. The child is forked before the
program has threads of its own, so it costs no start of an interpreter, and what it does is plain functions.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from console.probe.facts_ground import Missing, one_line

if TYPE_CHECKING:
    from typing import Any

# What can be looked at: name -> function of the child. Filled while the program's parts are loaded.
LOOKS: dict[str, Callable[[Any], Any]] = {}


class Looker:
    """The parent's side. `ask` at any time; `answer` waits for one look, within a limit."""

    def __init__(self) -> None:
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        self._lock = threading.Lock()
        self._news = threading.Condition()
        self._rows: dict[int, Any] = {}
        self._number = 0
        self._gone = False
        if os.fork() == 0:
            try:
                os.close(self._orders)
                os.close(self._answers)
                serve(orders, answers)
            finally:
                os._exit(0)
        os.close(orders)
        os.close(answers)
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, what: str, about: object) -> int:
        """The number of the look, for `answer`."""
        with self._lock:
            self._number += 1
            line = json.dumps([self._number, what, about]).encode() + b"\n"
            try:
                while line:
                    line = line[os.write(self._orders, line) :]
            except BrokenPipeError:
                pass  # `answer` says that the child has ended
            return self._number

    def answer(self, look: int, limit_s: float) -> Any:
        """Raises Missing: no answer in time, or what the look met."""
        end = time.monotonic() + limit_s
        with self._news:
            while look not in self._rows:
                left = end - time.monotonic()
                if self._gone:
                    raise Missing("the child that looks at folders has ended")
                if left <= 0:
                    raise Missing(f"gave no answer in {limit_s:g} s")
                self._news.wait(left)
            row = self._rows[look]
        if "error" in row:
            raise Missing(str(row["error"]))
        return row["v"]

    def _read(self) -> None:
        with os.fdopen(self._answers, "rb") as answers:
            for line in answers:
                number, row = json.loads(line)
                with self._news:
                    self._rows[number] = row
                    self._news.notify_all()
        with self._news:
            self._gone = True
            self._news.notify_all()


def serve(orders: int, answers: int) -> None:
    """The child: until the parent ends. It holds none of the program's own pipes, or a hung look would hold them."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    lock = threading.Lock()

    def look(number: int, what: str, about: object) -> None:
        row: dict[str, Any] = {}
        try:
            row["v"] = LOOKS[what](about)
        except OSError as error:
            row["error"] = error.strerror or str(error)
        except Exception as error:  # noqa: BLE001  one look's surprise must not cost the others
            row["error"] = f"{type(error).__name__}: {one_line(str(error))}"
        data = json.dumps([number, row]).encode() + b"\n"
        with lock:
            while data:
                data = data[os.write(answers, data) :]

    with os.fdopen(orders, "rb") as lines:
        for line in lines:
            threading.Thread(target=look, args=json.loads(line), daemon=True).start()


def free_bytes(path: Any) -> int:
    """For this user at a path, or at its nearest folder that exists."""
    path = os.path.abspath(str(path))
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize


LOOKS["free"] = free_bytes
