"""How near it was when a guard struck, or did not: measured from outside of the guard."""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.testbed.host import Host


class Watched:
    """The least that was left of a host's memory limit meanwhile; pages that can be dropped count as left.

    While the guard kills it does not read, so its own lowest is not the lowest."""

    def __init__(self, host: Host) -> None:
        group = Path("/sys/fs/cgroup/memory") / host.cgroup
        self._limit = int((group / "memory.limit_in_bytes").read_text())
        self._stat = group / "memory.stat"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.least = self._limit

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            rows = dict(line.split() for line in self._stat.read_text().splitlines())
            held = int(rows["total_rss"]) + int(rows.get("total_shmem", 0))
            self.least = min(self.least, self._limit - held)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)


def eaten(host: Host) -> int:
    """Bytes that the eater holds in memory."""
    for pid in host.pids("eat"):
        with contextlib.suppress(OSError, IndexError):  # it may end while we look
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def fall(told: dict[str, Any]) -> float:
    """How fast memory fell when the guard tripped, in bytes a second, by its own readings of the last 0.4 s."""
    near = [(at, left) for at, left in told["history"] if at >= -0.4]
    return float((near[0][1] - near[-1][1]) / (near[-1][0] - near[0][0]))


def spread(values: Sequence[float], unit: float) -> str:
    """`lowest-median-highest`."""
    return "-".join(f"{v / unit:.0f}" for v in (min(values), statistics.median(values), max(values)))
