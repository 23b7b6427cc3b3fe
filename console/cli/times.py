"""Times for people: this machine's own, as the console shows them; JSON has UTC."""

from __future__ import annotations

from datetime import datetime


def clock(at: float | None, *, millis: bool = False) -> str:
    """An epoch second as HH:MM:SS, with milliseconds where asked; empty for none."""
    if at is None:
        return ""
    return datetime.fromtimestamp(at).time().isoformat(timespec="milliseconds" if millis else "seconds")


def minute(at: float) -> str:
    """HH:MM."""
    return f"{datetime.fromtimestamp(at):%H:%M}"


def day(at: float) -> str:
    """Month, day and minute, as a ledger's row has room for."""
    return f"{datetime.fromtimestamp(at):%m-%d %H:%M}"


def whole(at: float) -> str:
    """Date, second and zone."""
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S %Z}"
