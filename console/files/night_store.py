"""A night on disk: its state after every step, its log, the recipes that it made, and the lock of the one that runs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from console.base.errors import NightdeckError, UsageError
from console.base.text import clean_line
from console.boot.night_model import Night, Phase, Result, Rules, Run
from console.files.archive import read_json
from console.files.atomic import Appender, trouble, write_whole

STATE: Final = "state.json"
LOG: Final = "night.log"
QUEUE: Final = "queue.toml"
BEGUN_WITH: Final = "begun-with.json"
_ID: Final = re.compile(r"n[0-9]{8}T[0-9]{6}Z(-[0-9]{1,4})?")


class NightBusy(NightdeckError):
    """Another process runs a night on this machine."""


class NightStore:
    """`state/nights`. Raises DiskError where the disk refuses."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, queue_text: str, now: float) -> str:
        """A new night's folder with its queue; its id."""
        self._make(self.root)
        stamp = datetime.fromtimestamp(now, UTC).strftime("n%Y%m%dT%H%M%SZ")
        for n in range(1000):
            name = stamp if n == 0 else f"{stamp}-{n}"
            try:
                (self.root / name).mkdir(mode=0o700)
            except FileExistsError:
                continue
            except OSError as error:
                raise trouble("cannot be made", self.root / name, error) from error
            write_whole(self.root / name / QUEUE, queue_text.encode("utf-8", "replace"))
            return name
        raise UsageError("too many nights began in one second")

    def nights(self) -> list[str]:
        """Newest first."""
        try:
            names = [p.name for p in self.root.iterdir() if _ID.fullmatch(p.name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise trouble("cannot be read", self.root, error) from error
        return sorted(names, reverse=True)

    def find(self, night: str | None = None) -> str:
        """The newest, or one by its id. Raises UsageError."""
        names = self.nights()
        if night in (None, "last") and names:
            return names[0]
        if night in names:
            return str(night)
        raise UsageError(
            "no night has been run yet" if not names else f"no night {clean_line(str(night), limit=60)}",
            remedy=f"there are: {', '.join(names[:5])}" if names else "`nightdeck night QUEUE.toml` runs one",
        )

    def folder(self, night: str) -> Path:
        return self.root / night

    def write(self, night: Night, extra: Mapping[str, Any]) -> None:
        """The state, whole. extra: what is not the model's (what is waited for, the rules, the runs)."""
        row = {"schema": 1, "boot_id": boot_id(), **extra, **_json(night)}
        write_whole(self.folder(night.id) / STATE, json.dumps(row, indent=1, ensure_ascii=False).encode())

    def write_begun_with(self, night: str, options: Mapping[str, Any]) -> None:
        """The general options that a night was begun with: whoever goes on with it must mean the same cluster."""
        write_whole(self.folder(night) / BEGUN_WITH, json.dumps(dict(options), ensure_ascii=False).encode())

    def begun_with(self, night: str) -> dict[str, Any]:
        """Those options; empty where none are kept."""
        return read_json(self.folder(night) / BEGUN_WITH) or {}

    def read(self, night: str) -> dict[str, Any]:
        """The state as written. Raises UsageError where there is none."""
        row = read_json(self.folder(night) / STATE)
        if row is None:
            raise UsageError(f"the night {night} has no state that can be read")
        return row

    def recipe_file(self, night: str, step: int, slug: str) -> Path:
        """Where a step's own recipe goes; the folder keeps the recipe's name, so the ledger knows it by that."""
        path = self.folder(night) / "recipes" / f"step{step}" / slug / "recipe.toml"
        self._make(path.parent)
        return path

    def log(self, night: str, text: str, at: float) -> None:
        """A line of the night's own log, with its time in UTC."""
        stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        log = Appender(self.folder(night) / LOG, lines=True)
        try:
            log.append(f"{stamp} {clean_line(text, limit=1000)}\n".encode("utf-8", "replace"))
        finally:
            log.close()

    # -- the one that runs --------------------------------------------------------------------------------------

    def lock(self, night: str) -> int:
        """Own the nights of this machine until the descriptor is closed or the process ends. Raises NightBusy."""
        self._make(self.root)
        descriptor = self._open_lock()
        for _ in range(20):  # who asks for the status holds the lock for some microseconds
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.005)
        else:
            running = os.pread(descriptor, 200, 0).decode("ascii", "replace").split()
            os.close(descriptor)
            raise NightBusy(
                f"a night runs already: {' '.join(running[1:]) or 'of an unknown id'}",
                remedy="`nightdeck night status`, or `nightdeck night stop`",
            )
        words = f"{os.getpid()} {night}".encode()
        # Over what stands there, and cut after: a full disk has no room for a file that was emptied first. The lock
        # itself is the kernel's, and holds without words too.
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, words, 0)
            os.ftruncate(descriptor, len(words))
        return descriptor

    def running(self) -> tuple[int, str] | None:
        """(process, night) of the night that runs now, known by its lock; None where none does."""
        try:
            descriptor = os.open(self.root / ".lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # no night yet
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            words = os.pread(descriptor, 200, 0).decode("ascii", "replace").split()
            return (int(words[0]), words[1]) if len(words) == 2 and words[0].isdigit() else None
        else:
            return None
        finally:
            os.close(descriptor)

    def _open_lock(self) -> int:
        path = self.root / ".lock"
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise trouble("cannot be opened", path, error) from error

    def _make(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise trouble("cannot be made", path, error) from error


def boot_id() -> str:
    """What this machine calls its present boot; another one after a restart. Empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not Linux
        return ""


def _json(night: Night) -> dict[str, Any]:
    return {**asdict(night), "phase": str(night.phase)}


def night_of(row: Mapping[str, Any]) -> tuple[Night, Rules, tuple[Run, ...]]:
    """A state read back, to go on with. Raises UsageError where it is damaged."""
    try:
        results = tuple(_build(Result, r) for r in row["results"])
        pending = None if row["pending"] is None else _build(Run, row["pending"])
        running = None if row["running"] is None else _build(Run, row["running"])
        plain = {
            k: row[k] for k in ("id", "next", "began", "failures", "deployment", "stop_asked", "why", "left_serving")
        }
        night = Night(phase=Phase(row["phase"]), results=results, pending=pending, running=running, **plain)
        return night, _build(Rules, row["rules"]), tuple(_build(Run, r) for r in row["runs"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"the night's {STATE} is damaged: {type(error).__name__}") from error


def _build(kind: type, row: Mapping[str, Any]) -> Any:
    names = {f.name for f in fields(kind)}
    return kind(**{k: v for k, v in row.items() if k in names})
