"""What could not be written yet: kept in order until the disk takes it again, so that a full disk costs no line."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from console.base.errors import NightdeckError
from console.files.boot_folder import BootFolder

# Memory that a full disk may cost: a night's events, and what eight ranks log in an hour or so.
MOST_BYTES: Final = 64 << 20
MOST_ITEMS: Final = 50_000
# A disk that got nothing done for this long hangs; one that is only slow is waited for.
HANGS_S: Final = 30.0
# Shares of that memory: where who reads a log waits, and where an outage is over.
_PRESSED: Final = 0.5
_LOW: Final = 0.125

Work = Callable[[BootFolder], None]


class Pulse:
    """When the ledger's thread last got something done, in seconds of `clock`. One thread writes all boots, so that one
    boot's work waits for another's."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.at = clock()

    def beat(self) -> None:
        self.at = self.clock()


class Backlog:
    """What one boot handed to the ledger's thread and is not written. A log can be read faster than a disk writes: half
    full, who reads waits, so that nothing is lost while the disk moves at all. Only where it hangs or refuses for
    `HANGS_S`, more than the limit is not taken: memory is not for a night of logs. Used from several threads."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._lock = threading.Lock()
        self._bytes = 0
        self._items = 0
        self._unbegun = 0
        self._moved_at = pulse.at
        self.refused = False  # then what other boots get done says nothing of this one

    def enter(self, size: int, *, must: bool = False) -> bool:
        """False: nothing moves, and the limit is reached. must: taken in any case, as is the one that finds out whether
        a disk that refused takes something again."""
        with self._lock:
            tries = self.refused and not self._unbegun
            if not (must or tries) and self._share(size) > 1 and self._hangs():
                return False
            if not self._items:
                self._moved_at = self._pulse.clock()
            self._items += 1
            self._unbegun += 1
            self._bytes += size
            return True

    def begin(self) -> None:
        with self._lock:
            self._unbegun -= 1

    def leave(self, size: int, *, written: bool = True) -> None:
        with self._lock:
            self._items -= 1
            self._bytes -= size
            if written:
                self._pulse.beat()
                self._moved_at = self._pulse.at

    @property
    def pressed(self) -> bool:
        """Whoever can wait with more does: the disk is slower, and moves."""
        with self._lock:
            return self._share() > _PRESSED and not self._hangs()

    @property
    def full(self) -> bool:
        """More than the limit is held, and nothing moves."""
        with self._lock:
            return self._share() > 1 and self._hangs()

    @property
    def low(self) -> bool:
        with self._lock:
            return self._share() <= _LOW

    def _share(self, more: int = 0) -> float:
        return max((self._items + bool(more)) / MOST_ITEMS, (self._bytes + more) / MOST_BYTES)

    def _hangs(self) -> bool:
        moved = self._moved_at if self.refused else max(self._moved_at, self._pulse.at)
        return self._pulse.clock() - moved > HANGS_S


class DiskQueue:
    """Work on one boot's folder, done in order in the ledger's thread. told: hears once an outage that the disk
    refuses, or that memory is used up, and once that it takes everything again, or that something was lost."""

    def __init__(self, folder: BootFolder, told: Callable[[str], None], backlog: Backlog) -> None:
        self._folder = folder
        self._told = told
        self._backlog = backlog
        self._waiting: deque[tuple[Work, int]] = deque()
        self._refused = False
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
        """Something could not even be held: the nodes have their logs; the next console reads them from there. Told
        once until the disk keeps up again. log: a piece of a rank's log."""
        self._lost_logs += log
        if not self._overflowed:
            self._overflowed = True
            self._told("this machine's disk takes nothing, and memory for it is used up: what comes now is not kept")

    def do(self, work: Work, size: int, *, log: bool = False, must: bool = False) -> None:
        """What entered the backlog with `size`. Never raises for the disk."""
        self._backlog.begin()
        try:
            self._catch_up()
            work(self._folder)
        except NightdeckError as error:
            if not self._refused:
                self._refused = True
                self._told(f"this boot is not kept on disk for now; it is held in memory and tried again: {error}")
            self._backlog.refused = True
            if self._backlog.full and not must:
                self._backlog.leave(size, written=False)
                self.lost(log=log)
            else:
                self._waiting.append((work, size))
            return
        self._backlog.leave(size)
        self._again()

    def last(self) -> None:
        """The console ends: one more try, and the word where it fails."""
        try:
            self._catch_up()
            self._again()
        except NightdeckError as error:
            self._told(f"{len(self._waiting)} writes of this boot are lost with this console: {error}")
            self._waiting.clear()

    def _catch_up(self) -> None:
        while self._waiting:
            work, size = self._waiting[0]
            work(self._folder)
            self._waiting.popleft()
            self._backlog.leave(size)
        self._backlog.refused = False

    def _again(self) -> None:
        """After a write that went well. While much waits still, the outage is not over: the next moment may lose."""
        if (self._refused or self._overflowed) and self._backlog.low:
            lost = ", but not all that came meanwhile" if self._overflowed else "; nothing was lost"
            self._refused = self._overflowed = False
            self._told(f"this boot is kept on disk again{lost}")
