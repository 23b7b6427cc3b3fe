"""Faults of the console itself, appended to one file that does not grow without end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from console.files.atomic import Appender, trouble

LARGEST_BYTES: Final = 1_000_000  # then the file begins anew: the last faults are what is looked for


class FaultFile:
    """`faults.log` of a state folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self, text: str) -> str:
        """Append a fault with the time; returns where. Raises DiskError."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_file() and self.path.stat().st_size > LARGEST_BYTES:
                self.path.replace(self.path.with_name(self.path.name + ".old"))
        except OSError as error:
            raise trouble("cannot be written", self.path, error) from error
        stamp = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        file = Appender(self.path, lines=True)
        try:
            file.append(f"{stamp}\n{text.rstrip()}\n\n".encode(errors="backslashreplace"))
        finally:
            file.close()
        return str(self.path)
