"""What the kernel tells at once, as its own text: files of /proc that never hang, and the kernel log."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Group = dict[str, Any]

PROC = os.environ.get("HOST_PROC", "/proc")
SYS = os.environ.get("HOST_SYS", "/sys")
DEV = os.environ.get("HOST_DEV", "/dev")
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


def read(path: str, limit: int = 256 << 10) -> str:
    """A small file as text. /proc gives a page at a time, so read to the end. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        parts, size = [], 0
        while size < limit:
            part = os.read(fd, 65536)
            if not part:
                break
            parts.append(part)
            size += len(part)
    finally:
        os.close(fd)
    return b"".join(parts).decode("utf-8", "replace")


def word(path: str) -> str | None:
    """A /sys attribute, or None where the driver does not answer (speed of a port that is down: EINVAL)."""
    try:
        return read(path, 4096).strip()
    except OSError:
        return None


def listed(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def reason(error: BaseException) -> str:
    text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return (text or type(error).__name__)[:300]


def engine_socket(cli: str) -> str | None:
    """The engine's unix socket by the rules of its own command line; None: only the command line can ask it."""
    own = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    told = os.environ.get("CONTAINER_HOST" if cli == "podman" else "DOCKER_HOST") or os.environ.get("DOCKER_HOST", "")
    if cli not in ("docker", "podman"):
        return None
    if told:
        return told[len("unix://") :] if told.startswith("unix://") else None
    if cli == "podman":
        return "/run/podman/podman.sock" if os.getuid() == 0 else own + "/podman/podman.sock"
    if docker_context():
        return None
    rootless = own + "/docker.sock"
    return (
        rootless if not os.path.exists("/var/run/docker.sock") and os.path.exists(rootless) else "/var/run/docker.sock"
    )


def docker_context() -> bool:
    """Whether docker's command line asks another engine than the usual one (`docker context use`)."""
    named = os.environ.get("DOCKER_CONTEXT")
    if not named:
        folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
        try:
            named = json.loads(word(folder + "/config.json") or "{}").get("currentContext")
        except (ValueError, AttributeError):
            return True  # what cannot be read here the command line knows
    return bool(named) and named != "default"


HOST_FILES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "meminfo",
        "meminfo",
        (
            *("MemTotal:", "MemFree:", "MemAvailable:", "Buffers:", "Cached:", "Shmem:", "SwapTotal:", "SwapFree:"),
            *("CmaTotal:", "CmaFree:", "Dirty:", "Writeback:"),
        ),
    ),
    ("vmstat", "vmstat", ("pswpin ", "pswpout ")),
    ("stat", "stat", ("cpu", "procs_blocked ")),
    ("loadavg", "loadavg", ()),
    ("buddyinfo", "buddyinfo", ()),
    ("uptime", "uptime", ()),
    ("boot_id", "sys/kernel/random/boot_id", ()),
    ("psi_memory", "pressure/memory", ()),
    ("psi_cpu", "pressure/cpu", ()),
    ("psi_io", "pressure/io", ()),
    ("net", "net/dev", ()),
    ("disks", "diskstats", ()),
)
VIRTUAL_NET = re.compile(r"^\s*(?:lo|veth\w*|cni\w*|cali\w*|flannel\S*|dummy\d*|ifb\d*):")
VIRTUAL_DISK = re.compile(r"^\s*\d+\s+\d+\s+(?:loop|ram|zram|fd|sr|nbd)\d+ ")


def host_group() -> Group:
    """The kernel's own text, only the lines that are wanted: it is parsed where there is time for it."""
    out: Group = {"t": time.monotonic(), "page": PAGE, "why": {}}
    for key, name, wanted in HOST_FILES:
        try:
            text = read(PROC + "/" + name)
        except OSError as error:
            out["why"][key] = reason(error)
            continue
        if key == "stat":
            out["cores"] = text.count("\ncpu")
            wanted = ("cpu ", "procs_blocked ")
        if wanted:
            text = "\n".join(line for line in text.split("\n") if line.startswith(wanted))
        elif key == "net":
            text = "\n".join([line for line in text.split("\n")[2:] if not VIRTUAL_NET.match(line)][:64])
        elif key == "disks":
            disks = set(listed(SYS + "/block"))
            rows = [line for line in text.split("\n") if not VIRTUAL_DISK.match(line)]
            if disks:  # without partitions
                rows = [line for line in rows if line.split()[2:3] and line.split()[2] in disks]
            text = "\n".join(rows[:64])
        out[key] = text[:16384]
    return out


class KernelLog:
    """Lines of the kernel log that matter, from the moment of the start on."""

    WANTED = re.compile(
        r"\bXid\b|NVRM|oom-kill|Out of memory|Killed process|invoked oom-killer|blocked for more than|soft lockup"
        r"|not responding|AER:|I/O error|[Ww]atchdog|mlx5.*(?:health|error|failed)|Machine check|thermal",
    )

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.why = ""
        self.fd = -1
        self.number = 0
        try:
            self.fd = os.open(DEV + "/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self.fd, 0, os.SEEK_END)
        except OSError as error:
            self.why = "kernel log: " + reason(error)

    def group(self) -> Group:
        for _ in range(200 if self.fd >= 0 else 0):
            try:
                record = os.read(self.fd, 8192)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # records were overwritten before they were read
                    continue
                self.why = "kernel log: " + reason(error)
                break
            if not record:
                break
            for line in record.decode("utf-8", "replace").split("\n"):
                head, mark, text = line.partition(";")
                if mark and self.WANTED.search(text):
                    fields = head.split(",")
                    self.number += 1
                    stamp = fields[2] if len(fields) > 2 else ""
                    self.rows.append([self.number, stamp, text[:500]])
        del self.rows[:-20]
        return {"t": time.monotonic(), "why": self.why, "rows": self.rows}
