"""Times for people: this machine's own, as the console shows them; JSON has UTC.

A log, a node or an old file may say any number: one that no calendar has is `n/a`."""

from __future__ import annotations

from datetime import datetime

from console.base.units import NA


def clock(at: float | None, *, millis: bool = False) -> str:
    """An epoch second as HH:MM:SS, with milliseconds where asked; empty for none."""
    when = None if at is None else _local(at)
    if when is None:
        return "" if at is None else NA
    return when.time().isoformat(timespec="milliseconds" if millis else "seconds")


def minute(at: float) -> str:
    """HH:MM."""
    return _as(at, "%H:%M")


def day(at: float) -> str:
    """Month, day and minute, as a ledger's row has room for."""
    return _as(at, "%m-%d %H:%M")


def whole(at: float) -> str:
    """Date, second and zone."""
    return _as(at, "%Y-%m-%d %H:%M:%S %Z")


def _as(at: float, form: str) -> str:
    when = _local(at)
    return NA if when is None else when.strftime(form)


def _local(at: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(at).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
