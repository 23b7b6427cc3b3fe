"""What guards leave for others to read: a folder for each, under one of this user alone, and a lock while they live."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

from console.probe.host import reason

if TYPE_CHECKING:
    Group = dict[str, Any]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,150}$")
KEEP_S = 7 * 86400.0
KEEP_MARKERS = 8


def home() -> str:
    """The folder of all guards of this user, made where it is missing. Raises OSError, ValueError where it is not ours.

    Not under the home (it may be one for all nodes) nor XDG_RUNTIME_DIR (it goes when the last session ends)."""
    uid = os.stat("/proc/self").st_uid
    base = os.environ.get("TMPDIR", "/tmp") if "HOST_PROC" in os.environ else "/tmp"
    top = f"{base}/nightdeck-{uid}"
    for folder in (top, top + "/guard"):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        seen = os.lstat(folder)
        if seen.st_uid != uid or (seen.st_mode & 0o170077) != 0o040000:
            raise ValueError(folder + " is not a folder of this user alone")
    return top + "/guard"


def put(path: str, value: object) -> None:
    fresh = path + ".new"
    with open(fresh, "w") as out:
        json.dump(value, out)
    os.replace(fresh, path)


def get(path: str) -> Group:
    """A small JSON object, empty where there is none or it cannot be read."""
    try:
        with open(path, "rb") as source:
            value = json.loads(source.read(65536))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def held(folder: str) -> bool:
    """True while a guard runs on this folder: it holds the lock as long as it lives, however it ends."""
    try:
        fd = os.open(folder + "/lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def clear(top: str) -> None:
    """Remove what is of no use any more: what guards left behind a week ago, what one left that ended with its
    container and killed nothing, and all but the newest markers of those that did. A guard that lives keeps its own,
    and so does one that did not say that it ended: its container may live."""
    markers = []
    for name in os.listdir(top):
        folder = top + "/" + name
        try:
            if held(folder):
                continue
            since = os.stat(folder).st_mtime
            if os.path.exists(folder + "/tripped.json"):
                markers.append((since, folder))
            elif time.time() - since > KEEP_S or get(folder + "/state.json").get("ended"):
                shutil.rmtree(folder)
        except OSError:
            continue
    for n, (since, folder) in enumerate(sorted(markers, reverse=True)):
        if n >= KEEP_MARKERS or time.time() - since > KEEP_S:
            shutil.rmtree(folder, ignore_errors=True)


def status(options: Group) -> list[Group]:
    """Guards that left their files here, of one deployment or of all: those that run come last, whatever their
    deployments' names, and before them the newest."""
    wanted, top, out = str(options.get("deployment", "")), home(), []
    for name in os.listdir(top):
        if wanted and name.rpartition(".r")[0] != wanted:
            continue
        folder = top + "/" + name
        row = dict(get(folder + "/state.json"), running=held(folder))
        if row.get("deployment"):
            out.append(dict(row, tripped=get(folder + "/tripped.json") or None))
    return sorted(out, key=_order)[-32:]


def _order(row: Group) -> tuple[bool, float]:
    since = row.get("since")
    return bool(row["running"]), float(since) if isinstance(since, (int, float)) else 0.0


class Guards:
    """The guards of this node for a frame of the telemetry probe."""

    def __call__(self) -> Group:
        try:
            rows = status({})[-8:]
        except (OSError, ValueError) as error:
            return {"why": reason(error), "rows": []}
        for row in rows:
            if row["tripped"]:  # a frame comes every second: the whole story stays in the file
                row["tripped"]["history"] = row["tripped"].get("history", [])[-20:]
        return {"why": "", "rows": rows}
