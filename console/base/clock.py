"""Time as an argument, so that a test can own it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """wall: seconds since the epoch, UTC, for stamps. monotonic: seconds, for ages and limits."""

    def wall(self) -> float: ...

    def monotonic(self) -> float: ...
