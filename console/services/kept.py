"""What a boot's folder holds of its events and of the end of a rank's log, whoever writes there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from console.base.errors import NightdeckError
from console.boot.events import Event
from console.files.archive import log_files, read_log
from console.files.event_codec import decode_event
from console.files.journal import read_events
from console.services.tail import stamp_of

# The end of a log that is held already is what resuming needs; more than this is not read back into memory.
_READ_BACK: Final = 64 << 20
_LAST_BYTES: Final = 4 << 20


def newest_in(folder: Path, rank: int) -> bytes:
    """The stamp of the last whole line of a rank's log, which is on the disk itself then; empty where there is none."""
    try:
        file = log_files(folder).get(rank)
        if file is None:
            return b""
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _LAST_BYTES))
            lines = stream.read(_LAST_BYTES).split(b"\n")
    except (NightdeckError, OSError):  # not to be read: then it is not known to hold anything
        return b""
    return next((s for line in reversed(lines[:-1]) if (s := stamp_of(line))), b"")


def log_end(file: Path) -> bytes:
    """The end of a kept log, packed or not, as far back as resuming it needs. Raises OSError, NightdeckError."""
    if file.suffix == ".gz":
        data = bytearray()
        for block in read_log(file):
            data += block
            del data[: max(0, len(data) - _READ_BACK)]
        return bytes(data)
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - _READ_BACK))
        return stream.read(_READ_BACK)


def kept_events(folder: Path) -> list[Event]:
    """The events that an earlier console of this machine kept of a boot. Raises NightdeckError. Blocks: a night's are
    many."""
    found = (decode_event(line.event) for line in read_events(folder) if line.event is not None)
    return [event for event in found if event is not None]
