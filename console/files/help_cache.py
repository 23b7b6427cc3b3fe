"""Flags that images' engines know, kept by image Id: importing an engine to ask it takes half a minute."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from console.files.atomic import DiskError, write_whole

KEEP: Final = 50
_LIMIT: Final = 1 << 20


class HelpCache:
    """A folder of small files; an Id names one content, so an entry is never out of date."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, image_id: str, command: Sequence[str]) -> frozenset[str] | None:
        """None where it is not there or cannot be read."""
        try:
            with self._file(image_id, command).open("rb") as file:
                flags = json.loads(file.read(_LIMIT))["flags"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return frozenset(f for f in flags if isinstance(f, str)) if isinstance(flags, list) and flags else None

    def put(self, image_id: str, command: Sequence[str], flags: frozenset[str]) -> None:
        """Keep it. A disk that takes nothing costs the next question its half minute, and nothing else."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            text = json.dumps({"image": image_id, "command": list(command), "flags": sorted(flags)})
            write_whole(self._file(image_id, command), text.encode())
            for old in sorted(self._folder.glob("*.json"), key=lambda p: p.stat().st_mtime)[:-KEEP]:
                old.unlink(missing_ok=True)
        except (OSError, DiskError):
            return

    def _file(self, image_id: str, command: Sequence[str]) -> Path:
        key = json.dumps([image_id, *command])
        return self._folder / f"{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:32]}.json"
