"""Labelled containers: the engine asked by its socket or by its command line, and its events as they come."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from console.probe.host import PROC, SYS, TICK, engine_socket, read, reason, word
from console.probe.workers import Processes, Worker, process

if TYPE_CHECKING:
    Group = dict[str, Any]


class Refused(ValueError):
    """The engine answered with an error. status: HTTP's."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


class UnixHttp(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout or 5.0)
        self.path, self.silence = path, timeout

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(3.0)
        self.sock.connect(self.path)
        self.sock.settimeout(self.silence)

    def get(self, target: str) -> http.client.HTTPResponse:
        self.request("GET", target)
        answer = self.getresponse()
        if answer.status != 200:
            words = answer.read(300).decode("utf-8", "replace")
            answer.close()
            raise Refused(answer.status, f"{self.path} says {answer.status} {words}")
        return answer


ACTIONS = frozenset(["create", "start", "die", "died", "oom", "kill", "stop", "pause", "unpause", "destroy", "remove"])


# A container that comes says so several times, and starts most often beside others that need the node's processors.
COMING = frozenset(["create", "start"])
SETTLE_S = 0.15


class Engine:
    """Labelled containers, asked every second by socket or every three by command line; deaths are told at once."""

    def __init__(self, cli: str, label: str, processes: Processes, done: Callable[[], None]) -> None:
        self.cli, self.label, self.processes, self.done = cli, label, processes, done
        self.path = engine_socket(cli)
        self.known: dict[str, tuple[str, float, Group]] = {}
        self.events: list[Group] = []
        self.number = 0
        self.line: UnixHttp | None = None
        self.stale = self.coming = False
        self.stream: socket.socket | None = None
        self.worker = Worker(cli, 1.0, self.ask, self.done, 6.0)

    def start(self) -> None:
        self.worker.start()
        if self.path:
            threading.Thread(target=self.listen, daemon=True).start()

    def watch(self, label: str) -> None:
        self.label, self.stale = label, True
        self.worker.poked.set()
        stream = self.stream
        if stream is not None:  # its filter is the old label's: `listen` opens another
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def group(self, now: float) -> Group:
        return dict(self.worker.group(now), events=list(self.events))

    def ask(self) -> Group:
        if self.coming:
            time.sleep(SETTLE_S)
            self.coming = False
        if self.path:
            try:
                return self.ask_socket(self.path)
            except (PermissionError, FileNotFoundError, ConnectionRefusedError) as error:
                return self.ask_cli(f"{self.path}: {reason(error)}")
        return self.ask_cli("")

    def filters(self, **more: list[str]) -> str:
        return quote(json.dumps(dict(more, label=[self.label])))

    def ask_socket(self, path: str) -> Group:
        self.worker.period = 1.0
        stale, self.stale = self.stale, False
        try:
            try:
                rows = self.rows(path, stale)
            except (http.client.HTTPException, ConnectionResetError, BrokenPipeError):
                self.line = None  # the engine closes a connection that was kept: ask once more on a new one
                rows = self.rows(path, stale)
        except socket.timeout:  # noqa: UP041 - another class than TimeoutError before Python 3.10
            self.line, self.stale = None, True
            raise ValueError(f"no answer on {path} in 3 s") from None
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            self.line, self.stale = None, True
            raise ValueError(f"hangs up on {path} (connection reset)") from None
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
            self.line, self.stale = None, True
            raise
        return {"why": "", "how": "socket " + path, "rows": rows}

    def rows(self, path: str, stale: bool) -> list[Group]:
        """Each container is looked at in full when something about it changed, and every ten seconds."""
        if self.line is None:
            self.line = UnixHttp(path, 3.0)
        listed_now = json.loads(self.line.get("/containers/json?all=1&filters=" + self.filters()).read())
        now, seen, rows = time.monotonic(), {}, []
        for one in listed_now[:64]:
            ident, state = str(one["Id"]), str(one.get("State"))
            kept = self.known.get(ident)
            if stale or kept is None or kept[0] != state or now - kept[1] > 10.0:
                try:
                    kept = (state, now, detailed(json.loads(self.line.get(f"/containers/{ident}/json").read())))
                except Refused as refused:
                    self.line.close()
                    if refused.status != 404:  # an engine in trouble says nothing of the container
                        raise
                    continue  # removed between the two questions
            seen[ident] = kept
            rows.append(dict(kept[2], id=ident, **self.usage(kept[2])))
        self.known = seen
        return rows

    def census(self, label: str = "") -> Group:
        """Everything that carries a label (the watched one's key), asked now on a line of its own, as inspected."""
        if not self.path:
            return {"why": "no socket to ask"}
        try:
            line = UnixHttp(self.path, 5.0)
            try:
                only = quote(json.dumps({"label": [label or self.label.split("=")[0]]}))
                listed_now = json.loads(line.get("/containers/json?all=1&filters=" + only).read())
                rows = [inspected(line, str(one["Id"])) for one in listed_now]
            finally:
                line.close()
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError) as error:
            return {"why": f"{self.path}: {reason(error)}"}
        return {"why": "", "rows": [row for row in rows if row]}

    def ask_cli(self, because: str) -> Group:
        self.worker.period = 5.0
        if not shutil.which(self.cli):
            raise ValueError("not found in PATH" + ("; " + because if because else ""))
        wanted = ["--filter", "label=" + self.label]
        idents = self.command("ps", "-a", "-q", "--no-trunc", *wanted).split()[:64]
        details = json.loads(self.command("inspect", "--type", "container", *idents)) if idents else []
        rows = [detailed(d) for d in details]
        self.worker.period = 3.0
        how = self.cli + " command" + (" (" + because + ")" if because else "")
        return {"why": "", "how": how, "rows": [dict(r, **self.usage(r)) for r in rows]}

    def command(self, *words: str) -> str:
        try:
            done = subprocess.run([self.cli, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=5.0)
        except subprocess.TimeoutExpired:
            raise ValueError(f"`{self.cli} {words[0]}` did not end in 5 s") from None
        said = done.stderr.decode("utf-8", "replace").strip()
        # What was removed between two questions is missing among the others: only that leaves the answer whole.
        gone = done.stdout.strip().startswith(b"[{") and all("no such" in line.lower() for line in said.splitlines())
        if done.returncode and not gone:
            raise ValueError(said[:300] or f"exit {done.returncode}")
        return done.stdout.decode("utf-8", "replace")

    def listen(self) -> None:
        """The engine's stream of events: each is sent on at once, and makes the worker look."""
        while True:
            label = self.label
            try:
                stream = UnixHttp(str(self.path), None)
                stream.connect()
                self.stream = stream.sock
                answer = stream.get("/events?filters=" + self.filters(type=["container"]))
                self.stale = True
                while label == self.label:
                    line = answer.readline(1 << 20)
                    if not line:
                        break
                    self.told(json.loads(line))
                stream.close()
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
                pass  # the worker asks the same engine every second and says why it does not answer
            self.stream = None
            time.sleep(2.0 if label == self.label else 0.0)

    def told(self, event: Group) -> None:
        action = str(event.get("Action") or event.get("status") or "").split(":")[0]
        if action not in ACTIONS:
            return
        actor = event.get("Actor") or {}
        about = actor.get("Attributes") or {}
        self.number += 1
        self.events.append(
            {
                "n": self.number,
                "action": {"died": "die", "remove": "destroy"}.get(action, action),
                "id": str(actor.get("ID") or event.get("id") or "")[:64],
                "name": str(about.get("name", ""))[:128],
                "exit_code": about.get("exitCode", about.get("containerExitCode")),
                "at": (event.get("timeNano") or 0) / 1e9 or event.get("time"),
            }
        )
        del self.events[:-16]
        self.stale = True
        self.coming = action in COMING
        self.worker.poked.set()
        if not self.coming:
            self.done()

    def usage(self, row: Group) -> Group:
        """CPU seconds, bytes read and written, resident bytes: of the container's cgroup, else of its processes."""
        pid = row.get("pid")
        if not pid or row.get("state") not in ("running", "paused"):
            return {}
        try:
            found = cgroup_usage(read(f"{PROC}/{pid}/cgroup"))
        except (OSError, ValueError):
            found = {}
        if "cpu_s" not in found:
            stats = [s for s in (process(p) for p in self.processes.tree(pid)) if s]
            if stats:
                found["cpu_s"] = sum(s[4] for s in stats) / TICK
                found["mem"] = sum(s[5] for s in stats)
        if "io" not in found:
            texts = [word(f"{PROC}/{p}/io") for p in self.processes.tree(pid)]
            sizes = [int(n) for text in texts if text for n in re.findall(r"^(?:read|write)_bytes: (\d+)", text, re.M)]
            if sizes:
                found["io"] = sum(sizes)
        return found


def inspected(line: UnixHttp, ident: str) -> Group | None:
    """What a census needs of a container; None where it was removed between the two questions."""
    line.request("GET", f"/containers/{ident}/json")
    answer = line.getresponse()
    text = answer.read()
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise ValueError(f"the engine says {answer.status} {text[:300].decode('utf-8', 'replace')}")
    found = json.loads(text)
    labels = (found.get("Config") or {}).get("Labels") or {}
    kept = {str(k): str(v)[:400] for k, v in labels.items() if str(k).startswith("nightdeck.")}
    row = {key: found.get(key) for key in ("Id", "Name", "Image", "State")}
    return dict(row, Config={"Labels": kept})


def cgroup_usage(text: str) -> Group:
    """From /proc/PID/cgroup. The root cgroup, or one outside our view, is not the container's: then nothing."""
    of: dict[str, str] = {}
    for line in text.split("\n"):
        _, names, path = [*line.split(":", 2), "", ""][:3]
        if path not in ("", "/") and not path.startswith("/.."):
            of.update(dict.fromkeys(names.split(","), path))
    base = SYS + "/fs/cgroup"
    out: Group = {}
    if "cpuacct" in of:
        out["cpu_s"] = int(read(base + "/cpuacct" + of["cpuacct"] + "/cpuacct.usage")) / 1e9
        mem = word(base + "/memory" + of.get("memory", "/none") + "/memory.usage_in_bytes")
    elif "" in of:
        found = re.search(r"^usage_usec (\d+)", read(base + of[""] + "/cpu.stat"), re.M)
        if found:
            out["cpu_s"] = int(found.group(1)) / 1e6
        mem = word(base + of[""] + "/memory.current")
        io = word(base + of[""] + "/io.stat")
        if io:
            out["io"] = sum(int(n) for n in re.findall(r"\b[rw]bytes=(\d+)", io))
    else:
        return out
    if mem and mem.isdigit():
        out["mem"] = int(mem)
    return out


def detailed(found: Group) -> Group:
    state = found.get("State") or {}
    config = found.get("Config") or {}
    labels = config.get("Labels") or {}
    return {
        "id": str(found.get("Id") or found.get("ID") or ""),
        "name": str(found.get("Name") or "").lstrip("/")[:128],
        "image": str(config.get("Image") or found.get("ImageName") or "")[:300],
        "labels": {str(k)[:64]: str(v)[:256] for k, v in labels.items() if str(k).startswith("nightdeck.")},
        "state": str(state.get("Status") or "")[:32],
        "exit_code": state.get("ExitCode"),
        "oom": state.get("OOMKilled"),
        "pid": state.get("Pid"),
        "started": str(state.get("StartedAt") or "")[:64],
        "finished": str(state.get("FinishedAt") or "")[:64],
        "error": str(state.get("Error") or "")[:500],
        "restarts": found.get("RestartCount"),
    }
