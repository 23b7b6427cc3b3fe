"""The list of boots at speed: summaries of folders that have not changed come from one file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from console.base.errors import UsageError
from console.base.text import clean_line
from console.files.archive import Marks, read_marks
from console.files.atomic import DiskError, trouble, write_whole
from console.files.journal import BootEntry, Journal, is_held, parse_boot_id, read_summary

INDEX: Final = ".index.json"
_VERSION: Final = 2
# A folder that changed within the last tick of a coarse clock could change again unseen: it is not remembered yet.
_SETTLED_NS: Final = 2_000_000_000
# States after which nobody writes a boot any more, so that its lock need not be tried.
OVER: Final = frozenset({"stopped", "unknown"})


@dataclass(frozen=True, slots=True)
class Listed:
    """A boot of the journal with what the operator marked it with."""

    entry: BootEntry
    marks: Marks


class BootIndex:
    """The boots of a journal, newest first. The index is only a copy: it can be deleted at any time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._file = journal.root / INDEX
        self._rows: dict[str, list[Any]] | None = None

    def boots(self) -> list[Listed]:
        """Raises DiskError where the folder of boots cannot be read."""
        known = self._load()
        rows: dict[str, list[Any]] = {}
        found: list[tuple[int, str, Listed]] = []
        changed = False
        now = time.time_ns()
        for name, path, stamp in self._folders():
            row = known.get(name)
            if row is None or row[0] != stamp:
                summary, why = read_summary(Path(path))
                marks = read_marks(Path(path))
                row = [stamp, dict(summary), why, marks.note, marks.starred]
                if now - stamp > _SETTLED_NS:
                    changed = True
                    rows[name] = row
            else:
                rows[name] = row
            identity = parse_boot_id(name)
            if identity is None:
                continue
            number, recipe, opened_at = identity
            live = str(row[1].get("state")) not in OVER and is_held(Path(path))
            entry = BootEntry(name, number, recipe, opened_at, Path(path), row[1], row[2], live)
            found.append((-number, name, Listed(entry, Marks(row[3], row[4]))))
        if changed or len(rows) < len(known):
            self._save(rows)
        found.sort(key=lambda f: f[:2])
        return [listed for _, _, listed in found]

    def find(self, boot: str) -> Listed:
        """By id, by number (`11` or `b11`), or `last`; `served`: the newest that came to ready. Raises UsageError."""
        rows = self.boots()
        if boot == "last" and rows:
            return rows[0]
        if boot == "served":
            done = next((r for r in rows if r.entry.summary.get("ready_s") is not None), None)
            if done is None:
                raise UsageError("no boot in the ledger has served yet")
            return done
        digits = boot.removeprefix("b")
        wanted = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None
        for row in rows:
            if row.entry.id == boot or row.entry.number == wanted:
                return row
        near = ", ".join(str(r.entry.number) for r in rows[:5]) or "none"
        raise UsageError(f"no boot {clean_line(boot, limit=80)} in the ledger", remedy=f"the last ones: {near}")

    def _folders(self) -> list[tuple[str, str, int]]:
        out: list[tuple[str, str, int]] = []
        try:
            with os.scandir(self._journal.root) as entries:
                for item in entries:
                    if item.name.startswith("b") and item.is_dir(follow_symlinks=False):
                        try:
                            out.append((item.name, item.path, item.stat(follow_symlinks=False).st_mtime_ns))
                        except FileNotFoundError:  # removed while we look
                            continue
        except FileNotFoundError:
            return []
        except OSError as error:
            raise trouble("cannot be read", self._journal.root, error) from error
        return out

    def _load(self) -> Mapping[str, list[Any]]:
        if self._rows is None:
            try:
                value = json.loads(self._file.read_bytes())
            except (OSError, ValueError, RecursionError):  # none yet, or damaged: the folders themselves then say
                value = None
            rows = value.get("rows") if isinstance(value, dict) and value.get("version") == _VERSION else None
            self._rows = {k: v for k, v in rows.items() if _fits(v)} if isinstance(rows, dict) else {}
        return self._rows

    def _save(self, rows: dict[str, list[Any]]) -> None:
        self._rows = rows
        text = json.dumps({"version": _VERSION, "rows": rows}, ensure_ascii=False, separators=(",", ":"))
        try:
            write_whole(self._file, text.encode("utf-8", "replace"))
        except DiskError:
            # The index is a copy: a full or read-only disk costs time, not truth.
            return


def _fits(row: object) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 5
        and isinstance(row[0], int)
        and isinstance(row[1], dict)
        and isinstance(row[2], str)
        and isinstance(row[3], str)
        and isinstance(row[4], bool)
    )
