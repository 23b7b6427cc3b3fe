"""One container as the guard needs it: found by name and labels, seen by its process, killed by whatever way works."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

from console.probe.host import engine_socket, read, reason

if TYPE_CHECKING:
    Group = dict[str, Any]

PATIENCE = 1.5
ENDED = ("exited", "dead", "stopped", "removing")


def exchange(line: socket.socket, method: str, target: str, limit: int = 1 << 20) -> tuple[int, bytes]:
    """One HTTP/1.0 exchange: status and body. By hand, so that nothing is imported or kept for it."""
    close = "Connection: close\r\n\r\n"
    line.sendall(f"{method} {target} HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n{close}".encode())
    data = b""
    while len(data) < limit and not whole(data):
        block = line.recv(65536)
        if not block:
            break
        data += block
    head, _, body = data.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise ValueError("no HTTP answer")
    return int(words[1]), body


def whole(data: bytes) -> bool:
    """True once an answer is there as far as its headers say; without a length its end is the connection's."""
    head, mark, body = data.partition(b"\r\n\r\n")
    if not mark:
        return False
    if re.match(rb"HTTP/1\.\d (?:204|304)\b", head):
        return True
    size = re.search(rb"(?mi)^content-length:[ \t]*(\d{1,9})", head)
    return size is not None and len(body) >= int(size.group(1))


def ask_tcp(host: str, port: int, target: str) -> int:
    """Status of a GET, 0 where nothing answers in time."""
    try:
        with socket.create_connection((host, port), 2.0) as line:
            line.settimeout(2.0)
            return exchange(line, "GET", target, 65536)[0]
    except (OSError, ValueError):
        return 0


def born(pid: int) -> str:
    """When a process was started, in the kernel's ticks; "" when it is gone (a zombie is)."""
    try:
        rest = read(f"/proc/{pid}/stat", 4096).rpartition(")")[2].split()
        return "" if rest[0] in "ZX" else rest[19]
    except (OSError, IndexError):
        return ""


class Target:
    """The container of one rank of one deployment on this node, and no other."""

    def __init__(self, options: Group) -> None:
        self.name = str(options["container"])
        self.labels = {str(k): str(v) for k, v in options.get("labels", {}).items()}
        self.cli = str(options.get("container_cli", "docker"))
        self.path = engine_socket(self.cli)
        self.ident = self.state = self.why = self.how = ""
        self.pid, self.birth = 0, ""
        self.lost_at: float | None = None
        self.tried: list[str] = []

    @property
    def running(self) -> bool:
        return bool(self.ident) and self.state not in ENDED and self.state != "created"

    @property
    def lost_s(self) -> float:
        """For how long neither the engine nor the process could be seen."""
        return 0.0 if self.lost_at is None else time.monotonic() - self.lost_at

    def inspect(self, which: str) -> Group | None:
        """What the engine says of it, None where there is none. Raises OSError, ValueError where it cannot be asked."""
        if self.path:
            self.how = "socket " + self.path
            try:
                status, body = self.ask("GET", f"/containers/{which}/json")
            except (PermissionError, FileNotFoundError):
                self.path = None
                return self.inspect(which)
            if status == 404:
                return None
            if status != 200:
                raise ValueError(f"the engine says {status}")
            return dict(json.loads(body))
        self.how = self.cli + " command"
        done = self.command("inspect", "--type", "container", which)
        found = json.loads(done.stdout or b"[]")
        if not found and done.returncode and b"o such" not in done.stderr:
            raise ValueError(done.stderr.decode("utf-8", "replace").strip()[:200] or f"exit {done.returncode}")
        return dict(found[0]) if found else None

    def ask(self, method: str, target: str, timeout: float = 2.0) -> tuple[int, bytes]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(timeout)
            line.connect(str(self.path))
            return exchange(line, method, target)

    def command(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run([self.cli, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=8.0)
        except subprocess.TimeoutExpired:
            raise ValueError(f"`{self.cli} {words[0]}` did not end in 8 s") from None

    def find(self) -> None:
        """Look for it by name; one of the same name with other labels is another deployment's."""
        self.take(self.name)

    def take(self, which: str) -> bool:
        """False: the engine was asked, and there is none of ours."""
        try:
            found = self.inspect(which)
        except (OSError, ValueError, TypeError) as error:
            self.why = reason(error)
            if not isinstance(error, socket.timeout) and self.lost_at is None:
                self.lost_at = time.monotonic()  # a busy engine is there; one that refuses is not
            return True
        self.why, self.lost_at = "", None
        if found is None:
            return False
        labels = (found.get("Config") or {}).get("Labels") or {}
        if any(labels.get(k) != v for k, v in self.labels.items()):
            return False
        state = found.get("State") or {}
        self.ident = str(found.get("Id") or found.get("ID") or "")
        self.state = str(state.get("Status") or "")
        pid = int(state.get("Pid") or 0)
        if pid and pid != self.pid:
            self.pid, self.birth = pid, born(pid) if self.ours(pid) else ""
        return True

    def ours(self, pid: int) -> bool:
        """True when this process is seen in the container's control group: then its pid means here what it says."""
        try:
            return len(self.ident) >= 12 and self.ident in read(f"/proc/{pid}/cgroup", 16384)
        except OSError:
            return False

    def gone(self) -> bool:
        """True once it ended. Its own process tells cheaply; without one in sight the engine is asked."""
        if self.birth:
            if born(self.pid) == self.birth:
                return False
            self.state = "exited"
            return True
        return not self.take(self.ident) or self.state in ENDED

    def kill(self, patience: float = PATIENCE) -> str:
        """End it by the engine, else by a signal, else by the command line: which way it was, "" when none did.

        patience: seconds that the engine is waited for; it goes on with what it was told."""
        self.tried = []
        ways = (("engine", self.kill_engine), ("signal", self.kill_process), ("command", self.kill_command))
        for way, work in ways:
            try:
                why = work(patience)
            except (OSError, ValueError) as error:
                why = reason(error)
            # One that is slow to answer may have done it all the same.
            late = bool(why and self.birth and born(self.pid) != self.birth)
            self.tried.append(way + ": " + (f"done, but {why}" if late else why or "done"))
            if late or not why:
                return way
        return ""

    def kill_engine(self, patience: float) -> str:
        if not self.path:
            return "no socket"
        status, body = self.ask("POST", f"/containers/{self.ident}/kill?signal=SIGKILL", patience)
        # 409: it does not run any more; 404: it is gone.
        return "" if status in (204, 200, 404, 409) else f"{status} {body[:200].decode('utf-8', 'replace')}"

    def kill_process(self, patience: float = 0.0) -> str:
        """SIGKILL to the container's first process, if it is still that very process. Needs no patience."""
        if not self.birth:
            return "its process cannot be told from others"
        handle = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1
        try:
            if born(self.pid) != self.birth:
                return ""
            if handle >= 0 and hasattr(signal, "pidfd_send_signal"):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)
        finally:
            if handle >= 0:
                with contextlib.suppress(OSError):
                    os.close(handle)
        return ""

    def kill_command(self, patience: float = 0.0) -> str:
        done = self.command("kill", self.ident)
        return "" if done.returncode == 0 else done.stderr.decode("utf-8", "replace").strip()[:200]
