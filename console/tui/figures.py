"""Numbers as an operator reads them: GiB, rates, ages, durations; an unknown is n/a."""

from __future__ import annotations

from typing import Final

from console.base.absent import Absent
from console.base.times import local_text

GIB: Final = 1024**3
NA: Final = "n/a"

Number = float | int | Absent | None


def number(value: Number) -> float | None:
    """The value as a float, None when it is not known."""
    return None if value is None or isinstance(value, Absent) else float(value)


def gib(value: Number, digits: int = 1) -> str:
    """Bytes as GiB without the unit."""
    known = number(value)
    return NA if known is None else f"{known / GIB:.{digits}f}"


def size(value: Number) -> str:
    """Bytes with a unit, short: `412 G`, `1.8 T` (binary)."""
    known = number(value)
    if known is None:
        return NA
    for unit, step in (("T", 1024**4), ("G", GIB), ("M", 1024**2)):
        if known >= step:
            scaled = known / step
            return f"{scaled:.1f} {unit}" if scaled < 10 else f"{scaled:.0f} {unit}"
    return f"{known / 1024:.0f} K"


def rate(value: Number) -> str:
    """Bytes per second without `/s`, three digits and a decimal unit: `1.2G`, `310M`, `0`."""
    known = number(value)
    if known is None:
        return NA
    for unit, step in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if known >= step:
            scaled = known / step
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"
    return "0"


def whole(value: Number, unit: str = "") -> str:
    known = number(value)
    return NA if known is None else f"{known:.0f}{unit}"


def one(value: Number) -> str:
    known = number(value)
    return NA if known is None else (f"{known:.1f}" if known < 100 else f"{known:.0f}")


def span(seconds: float) -> str:
    """A duration: `9s`, `5:10`, `1:02:03`."""
    seconds = max(0, int(seconds))
    if seconds < 60:
        return f"{seconds}s"
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def clock_span(seconds: float) -> str:
    """A duration that always has minutes: `0:41`, `12:41`, `1:00:00`."""
    seconds = max(0, int(seconds))
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def age(seconds: Number) -> str:
    """How old a sample is: `1 s`, `4 m`, `2 h`."""
    known = number(seconds)
    if known is None:
        return "never"
    if known < 100:
        return f"{known:.0f} s"
    return f"{known / 60:.0f} m" if known < 6000 else f"{known / 3600:.0f} h"


def hhmm(at: float) -> str:
    """Local wall time of an epoch second."""
    return local_text(at, "%H:%M")


def hhmmss(at: float) -> str:
    return local_text(at, "%H:%M:%S")
