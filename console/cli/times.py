"""Times for people: this machine's own, as the console shows them; JSON has UTC."""

from __future__ import annotations

from console.base.times import local, local_text
from console.base.units import NA


def clock(at: float | None, *, millis: bool = False) -> str:
    """An epoch second as HH:MM:SS, with milliseconds where asked; empty for none."""
    if at is None:
        return ""
    when = local(at)
    return NA if when is None else when.time().isoformat(timespec="milliseconds" if millis else "seconds")


def minute(at: float) -> str:
    """HH:MM."""
    return local_text(at, "%H:%M")


def day(at: float) -> str:
    """Month, day and minute, as a ledger's row has room for."""
    return local_text(at, "%m-%d %H:%M")


def whole(at: float) -> str:
    """Date, second and zone."""
    return local_text(at, "%Y-%m-%d %H:%M:%S %Z")
