"""Quantities as short text for people: binary sizes, rates, durations, ages."""

from __future__ import annotations

import math
from typing import Final

from console.base.absent import Absent

GIB: Final = 1 << 30
NA: Final = "n/a"
_RATES: Final = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s")
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def gib(size: float | Absent, *, unit: bool = True, digits: int = 1) -> str:
    """Bytes in GiB (2**30): `13.9 GiB`."""
    if isinstance(size, Absent):
        return NA
    return f"{size / GIB:.{digits}f}" + (" GiB" if unit else "")


def size_text(size: float | Absent) -> str:
    """Bytes in the largest binary unit that leaves a whole part: `412 GiB`, `1.5 TiB`, `512 B`."""
    if isinstance(size, Absent):
        return NA
    step = 0
    while abs(size) >= 1024 and step < len(_SIZES) - 1:
        size, step = size / 1024, step + 1
    return f"{size:.0f} {_SIZES[step]}" if step == 0 or abs(size) >= 100 else f"{size:.1f} {_SIZES[step]}"


def rate_text(bytes_per_s: float | Absent) -> str:
    """Bytes per second, decimal as links are rated: `1.2 GB/s`, `310 MB/s`."""
    if isinstance(bytes_per_s, Absent):
        return NA
    step = 0
    while abs(bytes_per_s) >= 1000 and step < len(_RATES) - 1:
        bytes_per_s, step = bytes_per_s / 1000, step + 1
    return (
        f"{bytes_per_s:.0f} {_RATES[step]}"
        if step == 0 or abs(bytes_per_s) >= 10
        else f"{bytes_per_s:.1f} {_RATES[step]}"
    )


def duration(seconds: float | Absent) -> str:
    """Seconds as `5:10`, `1:02:03`, `2d 03:00`; cut, not rounded, so that a clock never shows a second too early."""
    if isinstance(seconds, Absent):
        return NA
    sign, whole = ("-" if seconds < 0 else ""), int(abs(seconds))
    minutes, left = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{sign}{days}d {hours:02}:{minutes:02}"
    return f"{sign}{hours}:{minutes:02}:{left:02}" if hours else f"{sign}{minutes}:{left:02}"


def took(seconds: float | Absent) -> str:
    """How long something took that is over: as `duration`, to the nearest second, so that 22.8 s is `0:23` wherever it
    is told."""
    return NA if isinstance(seconds, Absent) else duration(math.floor(abs(seconds) + 0.5))


def age(seconds: float | Absent) -> str:
    """How old something is: `4s`, `3m`, `2h`, `5d`."""
    if isinstance(seconds, Absent):
        return NA
    whole = max(0, int(seconds))
    for limit, step, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")):
        if whole < limit:
            return f"{whole // step}{unit}"
    return f"{whole // 86400}d"


def percent(value: float | Absent) -> str:
    """`96%`."""
    return NA if isinstance(value, Absent) else f"{value:.0f}%"
