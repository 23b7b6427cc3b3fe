"""What could not be written yet: kept in order until the disk takes it again, so that a full disk costs no line."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from console.base.errors import NightdeckError
from console.files.boot_folder import BootFolder

# Memory that a full disk may cost: a night's events, and what eight ranks log in an hour or so.
MOST_BYTES: Final = 64 << 20
MOST_ITEMS: Final = 50_000

Work = Callable[[BootFolder], None]


class Backlog:
    """What was handed to the ledger's thread and is not begun. A disk that hangs takes nothing and refuses nothing, and
    memory is not for a night of logs: beyond the limit nothing more is handed on. Used from two threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = 0
        self._items = 0

    def enter(self, size: int) -> bool:
        with self._lock:
            if self._items >= MOST_ITEMS or self._bytes + size > MOST_BYTES:
                return False
            self._items += 1
            self._bytes += size
            return True

    def leave(self, size: int) -> None:
        with self._lock:
            self._items -= 1
            self._bytes -= size


class DiskQueue:
    """Work on one boot's folder, done in order in the ledger's thread. told: hears once that the disk refuses, and once
    that it takes everything again, or what was lost."""

    def __init__(self, folder: BootFolder, told: Callable[[str], None]) -> None:
        self._folder = folder
        self._told = told
        self._waiting: deque[tuple[Work, int]] = deque()
        self._bytes = 0
        self._overflowed = False
        self._lost_logs = 0

    @property
    def gap(self) -> str:
        """What of the logs is missing from the folder for good, in words; empty where nothing is. It stays so when the
        disk takes everything again: what came meanwhile is then kept nowhere but on the nodes."""
        if not self._lost_logs:
            return ""
        return f"{self._lost_logs} pieces of its logs came while this machine's disk took nothing, and were not kept"

    @property
    def stuck(self) -> bool:
        """The disk refused, and what waits is in memory alone."""
        return bool(self._waiting)

    def lost(self, *, log: bool) -> None:
        """Something could not even be held: told once until the disk answers again. log: a piece of a rank's log."""
        self._lost_logs += log
        if not self._overflowed:
            self._overflowed = True
            self._told("this machine's disk takes nothing, and memory for it is used up: what comes now is not kept")

    def do(self, work: Work, size: int, *, log: bool = False) -> None:
        """Never raises for the disk. size: bytes that holding it back costs. log: a piece of a rank's log."""
        try:
            waited = self._catch_up()
            work(self._folder)
            self._again(waited)
        except NightdeckError as error:
            if not self._waiting:
                self._told(f"this boot is not kept on disk for now; it is held in memory and tried again: {error}")
            self._hold(work, size, log)

    def last(self) -> None:
        """The console ends: one more try, and the word where it fails."""
        try:
            self._again(self._catch_up())
        except NightdeckError as error:
            self._told(f"{len(self._waiting)} writes of this boot are lost with this console: {error}")
            self._waiting.clear()

    def _catch_up(self) -> bool:
        """Whether something waited."""
        waited = bool(self._waiting)
        while self._waiting:
            work, size = self._waiting[0]
            work(self._folder)
            self._waiting.popleft()
            self._bytes -= size
        return waited

    def _again(self, waited: bool) -> None:
        """After a write that went well."""
        if waited or self._overflowed:
            lost = ", but not all that came meanwhile" if self._overflowed else "; nothing was lost"
            self._overflowed = False
            self._told(f"this boot is kept on disk again{lost}")

    def _hold(self, work: Work, size: int, log: bool) -> None:
        if len(self._waiting) >= MOST_ITEMS or self._bytes + size > MOST_BYTES:
            self.lost(log=log)  # the nodes have their logs; the next console reads them from there
            return
        self._waiting.append((work, size))
        self._bytes += size
