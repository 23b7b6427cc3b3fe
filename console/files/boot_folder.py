"""One boot's folder while it is written: one process owns it, secrets never enter it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from console.base.absent import Absent
from console.base.errors import NightdeckError
from console.base.secrets import MASK, is_secret_name, mask_argv, mask_env, mask_text
from console.enginelog.conceal import conceal_bytes
from console.files.atomic import Appender, trouble, write_whole
from console.plan.model import Plan

EVENTS: Final = "events.jsonl"
SUMMARY: Final = "boot.json"
TELEMETRY: Final = "telemetry.jsonl"
PLAN: Final = "plan.json"
STATES: Final = "states.json"
RECIPE: Final = "recipe.toml"
LOCK: Final = "lock"
_LONGEST_LINE: Final = 1 << 20


class BusyError(NightdeckError):
    """Another process, or another part of this one, writes the boot."""


class BootFolder:
    """The writer of `boots/<id>/`. Raises DiskError from every write; close it, or use it in a `with`."""

    def __init__(self, path: Path, number: int, *, secrets: Iterable[str] = ()) -> None:
        """Own an existing folder. Raises BusyError where another owner holds it."""
        self.path = path
        self.id = path.name
        self.number = number
        self._secrets: frozenset[str] = frozenset()
        self.add_secrets(secrets)
        self._lock = _lock(path / LOCK)
        try:
            self._events = Appender(path / EVENTS, lines=True)
        except NightdeckError:
            os.close(self._lock)
            raise
        self._logs: dict[int, Appender] = {}
        self._held: dict[int, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def add_secrets(self, values: Iterable[str]) -> None:
        """Values that are masked in everything written from now on; shorter than 4 characters are no secrets."""
        self._secrets |= frozenset(v for v in values if len(v) >= 4)

    def write_recipe(self, masked_source: str) -> None:
        """The recipe's text as run (`console.recipe.mask.masked_source` of it)."""
        write_whole(self.path / RECIPE, mask_text(masked_source, self._secrets).encode())

    def write_plan(self, plan: Plan) -> None:
        """The plan as executed, secrets masked."""
        self.add_secrets(plan.secrets)
        self._write_json(PLAN, plan_json(plan))

    def write_states(self, states: Mapping[str, Any]) -> None:
        """states.json of a folder of evidence: what each node's engine and the head's API said."""
        self._write_json(STATES, states)

    def write_document(self, name: str, document: Mapping[str, Any]) -> None:
        """Another JSON document of the boot (`measure.json`). name: a plain file name."""
        self._write_json(name, document)

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """facts.json: what each node said of itself before the launch."""
        self._write_json("facts.json", facts)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """boot.json: the ledger's row. `id` and `number` are added."""
        self._write_json(SUMMARY, {**summary, "id": self.id, "number": self.number})

    def append_event(self, event: Mapping[str, Any], *, flush: bool = False) -> None:
        """One line of events.jsonl. flush: for what must survive a power cut (launch, ready, failure, stop)."""
        line = json.dumps(self._masked(jsonable(event)), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        self._events.append(line.encode("utf-8", "replace") + b"\n", flush=flush)

    def append_log(self, rank: int, data: bytes) -> None:
        """Bytes of a rank's log as docker gave them, time stamps and all; secrets masked, by value and by look, even
        across two calls."""
        before = self._held.pop(rank, b"")
        data = before + data
        for value in self._secrets:
            data = data.replace(value.encode("utf-8", "replace"), MASK.encode())
        # A line is looked through as a whole: its beginning waits for its end, unless that never comes.
        end = len(data) - self._unfinished(data)
        if end - (whole := data.rfind(b"\n", 0, end) + 1) <= _LONGEST_LINE:
            end = whole
        if end < len(data):
            data, self._held[rank] = data[:end], data[end:]
        if not data:
            return
        try:
            self._write_log(rank, data)
        except NightdeckError:
            self._held[rank] = before  # whoever tries again gives the same bytes again
            raise

    def append_guard(self, rank: int, text: str) -> None:
        """Lines of `rankR.guard`: what the memory guard beside a rank did. A trip is written once."""
        path = self.path / f"rank{rank}.guard"
        if "TRIPPED" in text:
            try:
                if b"TRIPPED" in path.read_bytes():
                    return
            except FileNotFoundError:
                pass  # the first lines of this guard
            except OSError as error:
                raise trouble("cannot be read", path, error) from error
        file = Appender(path, lines=True)
        try:
            file.append(mask_text(text, self._secrets).encode("utf-8", "replace"), flush=True)
        finally:
            file.close()

    def sync(self) -> None:
        """Logs and events to the disk itself: before the nodes' own copies are removed."""
        for file in (*self._logs.values(), self._events):
            file.sync()

    def _write_log(self, rank: int, data: bytes) -> None:
        if rank not in self._logs:
            self._logs[rank] = Appender(self.path / f"rank{rank}.log", lines=True, again=True)
        self._logs[rank].append(conceal_bytes(data))

    def _unfinished(self, data: bytes) -> int:
        """Length of the end of `data` that may be the beginning of a secret."""
        longest = 0
        for value in self._secrets:
            secret = value.encode("utf-8", "replace")
            for n in range(min(len(secret) - 1, len(data)), longest, -1):
                if data.endswith(secret[:n]):
                    longest = n
                    break
        return longest

    def close(self) -> None:
        """Write what was held back and give the folder up."""
        try:
            for rank, data in sorted(self._held.items()):
                self._write_log(rank, data)
        finally:
            self._held.clear()
            for log in self._logs.values():
                log.close()
            self._logs.clear()
            if self._lock >= 0:
                self._events.close()
                os.close(self._lock)
                self._lock = -1

    def _write_json(self, name: str, value: Mapping[str, Any]) -> None:
        text = json.dumps(self._masked(jsonable(value)), ensure_ascii=False, allow_nan=False, indent=1)
        write_whole(self.path / name, text.encode("utf-8", "replace") + b"\n")

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return mask_text(value, self._secrets)
        if isinstance(value, dict):
            return {
                k: (MASK if v and isinstance(v, str) and is_secret_name(k) else self._masked(v))
                for k, v in value.items()
            }
        return [self._masked(v) for v in value] if isinstance(value, list) else value


def plan_json(plan: Plan) -> dict[str, Any]:
    """A plan as JSON values with secrets masked; `secrets` itself is left out."""
    out: dict[str, Any] = {}
    for item in fields(plan):
        if item.name not in ("secrets", "ranks"):
            out[item.name] = jsonable(getattr(plan, item.name))
    out["ranks"] = [
        {
            "rank": r.rank,
            "node": r.node,
            "is_head": r.is_head,
            "container": r.container,
            "argv": mask_argv(r.argv),
            "engine_argv": mask_argv(r.engine_argv),
            "env": mask_env(r.env),
            "mkdirs": list(r.mkdirs),
        }
        for r in plan.ranks
    ]
    return out


_PLAIN = frozenset({str, int, bool, type(None)})


def jsonable(value: Any) -> Any:
    """Values as JSON has them: dataclasses as tables, tuples and sets as lists, enums by value.

    Absent, NaN and infinity are null.

    Raises TypeError for what has no such form, so that nothing is written as a guess.
    """
    if type(value) in _PLAIN:  # most values; the questions below take ten times as long
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Absent):
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: jsonable(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, frozenset | set):
        return sorted((jsonable(v) for v in value), key=str)
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    raise TypeError(f"no JSON form for {type(value).__name__}")


def _lock(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise trouble("cannot be opened", path, error) from error
    try:
        _take(descriptor)
    except OSError as error:
        os.close(descriptor)
        who = holder_of(path.parent)
        raise BusyError(f"{who} writes this boot", where=str(path.parent), remedy="follow it from there") from error
    with contextlib.suppress(OSError):  # no room for who it is: the lock itself is the kernel's
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def holder_of(folder: Path) -> str:
    """Who writes a boot, as its lock's file says."""
    try:
        with (folder / LOCK).open("rb") as file:
            holder = file.read(20).decode("ascii", "replace").strip()
    except OSError:
        holder = ""
    return f"process {holder}" if holder.isdigit() else "another process"


def _take(descriptor: int) -> None:
    """Lock, or raise OSError. Who lists boots holds the lock for some microseconds: that is waited for."""
    for _ in range(10):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.001)
        else:
            return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
