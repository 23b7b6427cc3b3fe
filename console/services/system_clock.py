"""The machine's own clocks."""

from __future__ import annotations

import time


class SystemClock:
    """`console.base.clock.Clock` of this machine."""

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
