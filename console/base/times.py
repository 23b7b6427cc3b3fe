"""Epoch seconds as text. A log, a node or an old file may say any number: one that no calendar has is `n/a`."""

from __future__ import annotations

from datetime import UTC, datetime

from console.base.units import NA


def local(at: float) -> datetime | None:
    """This machine's own time, with its zone."""
    try:
        return datetime.fromtimestamp(at).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def local_text(at: float, form: str) -> str:
    """form: as of `strftime`."""
    when = local(at)
    return NA if when is None else when.strftime(form)


def utc_text(at: float) -> str:
    """Date and second, with the zone said."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return NA
