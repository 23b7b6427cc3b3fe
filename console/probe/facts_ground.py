"""Runs on a node, for the facts programs: small files read, commands run within a limit, and what was found so far."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from console.probe.facts_looks import Looker

PROC = os.environ.get("HOST_PROC", "/proc")
SYS = os.environ.get("HOST_SYS", "/sys")
MAX_OUTPUT = 4 << 20


class Missing(Exception):
    """A fact that is not known, and why."""


def one_line(text: str, limit: int = 300) -> str:
    return " ".join(text.split())[:limit]


def read(path: str, size: int = 1 << 20) -> str:
    """Text of a small file of the kernel's."""
    try:
        with open(path, "rb") as file:
            return file.read(size).decode("utf-8", "replace")
    except OSError as error:
        raise Missing(f"{path}: {error.strerror}") from None


def word(path: str) -> str | None:
    try:
        return read(path, 4096).strip()
    except Missing:
        return None


def number(path: str) -> int | None:
    """A count above 0, or None: drivers say -1, or refuse to be read, for "unknown"."""
    text = word(path)
    return int(text) if text is not None and text.isdigit() and int(text) > 0 else None


def meminfo(key: str) -> int:
    found = re.search(rf"^{key}:\s+(\d+) kB", read(PROC + "/meminfo"), re.M)
    if not found:
        raise Missing(f"{PROC}/meminfo has no {key}")
    return int(found.group(1)) * 1024


def which(name: str, path: str | None = None) -> str | None:
    """Where a command lies. shutil's own loads three compressors to say so."""
    if "/" in name:
        return name if os.access(name, os.X_OK) else None
    for folder in (path or os.environ.get("PATH") or os.defpath).split(":"):
        file = os.path.join(folder, name)
        if os.access(file, os.X_OK) and os.path.isfile(file):
            return file
    return None


def silent(what: str, limit_s: float) -> Missing:
    """No answer in time. What more than its processors have asked of a node is said too: then it may only be slow."""
    try:
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
    except OSError:
        load, cores = 0.0, 1
    busy = f" (load {load:.0f} on {cores} cores)" if load > cores else ""
    return Missing(f"{what} gave no answer in {limit_s:g} s{busy}")


def run(argv: list[str], limit_s: float) -> tuple[int, str, str]:
    """(exit status, stdout, stderr) of a child that is not waited for beyond its limit, not even to be reaped:
    one stuck in the kernel cannot be killed."""
    try:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise Missing(f"{argv[0]} is not installed") from None
    except OSError as error:
        raise Missing(f"{argv[0]}: {error.strerror}") from None
    texts: dict[str, str] = {}

    def pump(name: str, pipe: Any) -> None:
        texts[name] = pipe.read(MAX_OUTPUT).decode("utf-8", "replace")

    pumps = [
        threading.Thread(target=pump, args=("out", child.stdout), daemon=True),
        threading.Thread(target=pump, args=("err", child.stderr), daemon=True),
    ]
    for thread in pumps:
        thread.start()
    end = time.monotonic() + limit_s
    for thread in pumps:
        thread.join(max(0.0, end - time.monotonic()))
    try:
        status = child.wait(max(0.05, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        child.kill()
        raise silent(os.path.basename(argv[0]), limit_s) from None
    return status, texts.get("out", ""), texts.get("err", "")


def checked(argv: list[str], limit_s: float) -> str:
    status, out, err = run(argv, limit_s)
    if status != 0:
        raise Missing("{}: {}".format(os.path.basename(argv[0]), one_line(err or out) or f"exit status {status}"))
    return out


class Facts:
    """What was found; each gatherer puts its own. looker: looks at what may hang."""

    def __init__(self, request: dict[str, Any], looker: Looker) -> None:
        self.looker = looker
        self.cli = str(request.get("cli") or "docker")
        self.images = [str(i) for i in request.get("images") or []]
        self.paths = [str(p) for p in request.get("paths") or []]
        self.limit_s = float(request.get("limit_s") or 4.0)
        self.request = request
        self.values: dict[str, dict[str, Any]] = {}
        self.missing: dict[str, str] = {}
        self.lock = threading.Lock()

    def put(self, **values: object) -> None:
        with self.lock:
            for name, value in values.items():
                self.values[name] = {"v": value}

    def lack(self, names: Iterable[str], reason: str) -> None:
        with self.lock:
            for name in names:
                self.values.setdefault(name, {"why": reason})

    def take(self, name: str, get: Callable[[], object]) -> None:
        """One fact whose failure leaves the others alone."""
        try:
            self.put(**{name: get()})
        except Missing as error:
            self.lack([name], str(error))
        except (OSError, ValueError, KeyError, IndexError) as error:
            self.lack([name], f"{type(error).__name__}: {one_line(str(error))}")
