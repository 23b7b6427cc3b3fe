"""The folder of boots: a number for each, who writes it, what is in it, and which go when there are too many."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from console.base.errors import NightdeckError, UsageError
from console.base.text import clean_line
from console.files.archive import log_files
from console.files.atomic import DiskError, trouble, write_whole
from console.files.boot_folder import EVENTS, LOCK, SUMMARY, BootFolder, BusyError
from console.plan.model import LARGEST_FOREIGN_BOOT

_ID: Final = re.compile(r"b([0-9]{4,9})-([A-Za-z0-9][A-Za-z0-9_.\-]{0,62})-([0-9]{8}T[0-9]{6}Z)")
_COUNTER: Final = "last-number"
# Our own numbers begin above a foreign one at most, and go up by one: what is beyond was taken from a label once.
_LARGEST: Final = 99_999_999
LARGEST_SUMMARY: Final = 4 << 20  # bytes; a boot.json beyond it is none of ours


@dataclass(frozen=True, slots=True)
class BootEntry:
    """A boot in the journal. opened_at: epoch seconds, from the folder's name. summary: boot.json, empty where there
    is none; `trouble` says why. live: somebody writes it now."""

    id: str
    number: int
    recipe: str
    opened_at: float
    path: Path
    summary: Mapping[str, Any]
    trouble: str = ""
    live: bool = False

    @property
    def logs(self) -> dict[int, Path]:
        """Rank -> its log (`rankR.log`, or `rankR.log.gz` once packed), for the ranks that have one."""
        return log_files(self.path)


@dataclass(frozen=True, slots=True)
class EventLine:
    """A line of events.jsonl: its number from 1, and the event, or None for a line that cannot be read."""

    number: int
    event: dict[str, Any] | None


class Journal:
    """`state/boots`. Every method raises DiskError where the disk refuses."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open_boot(
        self, recipe: str, *, now: float, number: int | None = None, above: int = 0, secrets: Iterable[str] = ()
    ) -> BootFolder:
        """A new boot's folder, owned. recipe: the slug. now: epoch seconds.

        number: taken as given (UsageError where it is taken, or beyond what a label may give), else the next after the
        highest that the journal ever had and after `above`, such as the highest that containers on the nodes carry.
        """
        with self._locked():
            if number is None:
                number = self.next_number(above=above)
            elif number > max(LARGEST_FOREIGN_BOOT, self.next_number()):
                raise UsageError(f"{number} is no number of a boot", where=str(self.root))
            elif any(n == number for n, _ in self._folders()):
                raise UsageError(f"boot {number} is in the journal already", where=str(self.root))
            stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
            path = self.root / f"b{number:04d}-{recipe}-{stamp}"
            if not _ID.fullmatch(path.name):
                raise UsageError(f"no boot can be named after {clean_line(recipe, limit=80)!r}")
            try:
                path.mkdir(mode=0o700)
            except OSError as error:
                raise trouble("cannot be made", path, error) from error
            try:
                write_whole(self.root / _COUNTER, str(max(number, self._highest())).encode())
                return BootFolder(path, number, secrets=secrets)
            except NightdeckError:
                shutil.rmtree(path, ignore_errors=True)  # a full disk leaves no boot that never was
                raise

    def next_number(self, *, above: int = 0) -> int:
        """The number that the next boot would get; `open_boot` is what takes it. An `above` that would soon leave no
        next number counts for nothing."""
        return max(self._highest(), above if above <= LARGEST_FOREIGN_BOOT else 0) + 1

    def reopen(self, boot: str, *, secrets: Iterable[str] = ()) -> BootFolder:
        """Go on writing a boot that a console before this one began. Raises BusyError while that one still writes."""
        entry = self.get(boot)
        return BootFolder(entry.path, entry.number, secrets=secrets)

    def boots(self) -> list[BootEntry]:
        """All boots, newest first. A boot whose boot.json is missing or broken is listed with its trouble."""
        return [self._entry(path) for _, path in sorted(self._folders(), key=lambda f: (-f[0], f[1].name))]

    def get(self, boot: str) -> BootEntry:
        """By id, by number (`11` or `b11`), or `last`. Raises UsageError where there is none."""
        folders = sorted(self._folders(), key=lambda f: f[0])
        if boot == "last" and folders:
            return self._entry(folders[-1][1])
        digits = boot.removeprefix("b")
        wanted = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None
        for number, path in reversed(folders):
            if path.name == boot or wanted == number:
                return self._entry(path)
        known = ", ".join(str(n) for n, _ in folders[-5:]) or "none"
        raise UsageError(f"no boot {clean_line(boot, limit=80)} in the journal", remedy=f"the last ones: {known}")

    def remove(self, boot: str) -> None:
        """Remove one boot. Raises BusyError while somebody writes it, UsageError where there is none."""
        entry = self.get(boot)
        with self._locked(), BootFolder(entry.path, entry.number):
            try:
                shutil.rmtree(entry.path)
            except OSError as error:
                raise trouble("cannot be removed", entry.path, error) from error

    def prune(self, keep: int) -> list[str]:
        """Remove the oldest boots beyond `keep` (0: keep all); a boot that is being written stays. The ids removed."""
        removed: list[str] = []
        if keep <= 0:
            return removed
        with self._locked():
            oldest_first = sorted(self._folders(), key=lambda f: f[0])
            for number, path in oldest_first[: max(0, len(oldest_first) - keep)]:
                try:
                    folder = BootFolder(path, number)
                except BusyError:
                    continue
                try:
                    shutil.rmtree(path)
                except OSError as error:
                    raise trouble("cannot be removed", path, error) from error
                finally:
                    folder.close()
                removed.append(path.name)
        return removed

    def _entry(self, path: Path) -> BootEntry:
        match = _ID.fullmatch(path.name)
        if match is None:
            raise UsageError("not a boot's folder", where=str(path))
        summary, why = read_summary(path)
        opened = datetime.strptime(match.group(3), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        return BootEntry(path.name, int(match.group(1)), match.group(2), opened, path, summary, why, is_held(path))

    def _folders(self) -> list[tuple[int, Path]]:
        try:
            paths = list(self.root.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise trouble("cannot be read", self.root, error) from error
        out = []
        for path in paths:
            match = _ID.fullmatch(path.name)
            if match and _is_date(match.group(3)) and path.is_dir() and not path.is_symlink():
                out.append((int(match.group(1)), path))
        return out

    def _highest(self) -> int:
        try:
            text = (self.root / _COUNTER).read_bytes()[:20].decode("ascii", "replace").strip()
        except OSError:  # no boot yet, or a counter that cannot be read: the folders themselves then say
            text = ""
        counted = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        return max(n for n in (0, counted, *(n for n, _ in self._folders())) if n <= _LARGEST)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time gives numbers or removes boots; held for milliseconds."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise trouble("cannot be opened", self.root, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def read_events(path: Path) -> Iterator[EventLine]:
    """Events of a boot's folder in order, read as they are asked for. Half a last line, as a crash leaves it, and any
    other line that is no JSON table come as None. A folder without events gives none. Raises DiskError."""
    try:
        with (path / EVENTS).open("rb") as file:
            for number, line in enumerate(file, 1):
                yield EventLine(number, _event(line))
    except FileNotFoundError:
        return
    except OSError as error:
        raise trouble("cannot be read", path / EVENTS, error) from error


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # half a line, or bytes that are no JSON
        return None
    return value if isinstance(value, dict) else None


def parse_boot_id(name: str) -> tuple[int, str, float] | None:
    """Number, recipe and epoch seconds of the opening, out of a folder's name; None for one that is no boot's."""
    match = _ID.fullmatch(name)
    if match is None:
        return None
    t = match.group(3)
    try:
        opened = datetime(int(t[:4]), int(t[4:6]), int(t[6:8]), int(t[9:11]), int(t[11:13]), int(t[13:15]), tzinfo=UTC)
    except ValueError:
        return None
    return int(match.group(1)), match.group(2), opened.timestamp()


def read_summary(folder: Path) -> tuple[Mapping[str, Any], str]:
    """boot.json of a boot's folder, and what is wrong with it (then the table is empty)."""
    path = folder / SUMMARY
    try:
        if path.stat().st_size > LARGEST_SUMMARY:
            return {}, "boot.json is too large"
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}, "no boot.json: the console ended before it wrote one"
    except OSError as error:
        return {}, f"boot.json cannot be read: {error.strerror or type(error).__name__}"
    except (ValueError, RecursionError):
        return {}, "boot.json is damaged"
    return (value, "") if isinstance(value, dict) else ({}, "boot.json is damaged")


def _is_date(stamp: str) -> bool:
    try:
        datetime.strptime(stamp, "%Y%m%dT%H%M%SZ")
    except ValueError:
        return False
    return True


def is_held(path: Path) -> bool:
    """True while some process holds the boot's lock; a shared lock is tried and given back at once."""
    try:
        descriptor = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # never locked
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


__all__ = ["BootEntry", "BootFolder", "BusyError", "DiskError", "EventLine", "Journal", "NightdeckError", "read_events"]
