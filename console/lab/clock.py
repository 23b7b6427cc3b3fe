"""The lab's time: the one place where its speed is known."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Final

# A boot takes about 690 lab seconds: about a minute on a screen, under 30 s for a command without one.
SPEED_SCREEN: Final = 12.0
SPEED_COMMAND: Final = 30.0
# Faster than this nobody watches: answers stop taking the time that a real engine takes for them.
_WATCHED: Final = 60.0


class LabClock:
    """Lab seconds run `speed` times faster than the wall. Stamps (log lines, docker) are true wall time, and so are
    counters of bytes: whoever samples them divides by wall seconds."""

    def __init__(self, speed: float = SPEED_SCREEN) -> None:
        if not speed > 0:
            raise ValueError(f"a lab's speed is above 0, not {speed}")
        self.speed = speed
        self._start = time.monotonic()

    def now(self) -> float:
        """Lab seconds since the start."""
        return (time.monotonic() - self._start) * self.speed

    def wall(self, lab_s: float) -> float:
        """How many wall seconds `lab_s` lab seconds take: what a log line of this lab says of a duration."""
        return lab_s / self.speed

    def lab(self, wall_s: float) -> float:
        """How many lab seconds pass in `wall_s` wall seconds."""
        return wall_s * self.speed

    async def sleep(self, lab_s: float) -> None:
        await asyncio.sleep(max(lab_s, 0.0) / self.speed)

    async def pace(self, wall_s: float) -> None:
        """A wait in wall seconds as a person sees it, shorter only when the lab runs faster than anyone watches."""
        await asyncio.sleep(wall_s * min(1.0, _WATCHED / self.speed))


def rfc3339_nano(ns: int) -> str:
    """Nanoseconds since the epoch as docker writes them: nine digits, UTC, `Z`."""
    return (
        datetime.fromtimestamp(ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ns % 1_000_000_000:09d}Z"
    )


def parse_moment(text: str, now_ns: int) -> int | None:
    """What docker takes for --since, as nanoseconds: RFC 3339, epoch seconds, or a Go duration back from now."""
    text = text.strip()
    seconds, _, fraction = text.partition(".")
    if seconds.isdigit():
        return int(seconds) * 1_000_000_000 + (int((fraction + "000000000")[:9]) if fraction.isdigit() else 0)
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    back, number, unit = 0.0, "", ""
    for char in text + "0":
        if char.isdigit() or char == ".":
            if unit:
                if unit not in units or not number:
                    break
                back, number, unit = back + float(number) * units[unit], "", ""
            number += char
        else:
            unit += char
    else:
        if not unit and back:
            return now_ns - int(back * 1e9)
    return _parse_rfc3339(text)


def _parse_rfc3339(text: str) -> int | None:
    main, dot, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))] if dot else ""
    zone = rest[len(digits) :] if dot else ""
    try:
        moment = datetime.fromisoformat(main + zone)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000_000 + int((digits + "000000000")[:9])
