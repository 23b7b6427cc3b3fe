"""The guard that lives on a node: it ends one deployment's container before the node runs out of memory.

It needs neither the console nor SSH once it runs, and ends when its container is gone. The main thread reads
/proc/meminfo and kills; whatever may hang (the engine, files, the API) has a thread. Orders are one JSON object in
argv[1], `do` is `start`, `status` or `tell`; the answer is one line of JSON.
Python 3.8, standard library only; HOST_PROC names another root than /proc for meminfo, and puts the files under TMPDIR.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from console.probe.guard_engine import PATIENCE, Target, ask_tcp
from console.probe.guard_files import NAME, clear, get, held, home, put, status
from console.probe.host import reason

if TYPE_CHECKING:
    Group = dict[str, Any]

HISTORY_S = 10.0
FAST_S = 0.05  # between readings below twice the floor: a loading rank takes 1 GiB/s and more
MEMINFO = os.environ.get("HOST_PROC", "/proc") + "/meminfo"


class Meminfo:
    """MemAvailable in bytes through one open descriptor: no path is looked up when memory is short."""

    PATTERN = re.compile(rb"^MemAvailable:\s+(\d+) kB", re.M)

    def __init__(self) -> None:
        self.fd = os.open(MEMINFO, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> int | None:
        try:
            found = self.PATTERN.search(os.pread(self.fd, 4096, 0))
        except OSError:
            return None
        return int(found.group(1)) * 1024 if found else None


class Guard:
    """One deployment on one node. Times are seconds on the node's monotonic clock but for `at` (epoch)."""

    def __init__(self, options: Group, folder: str) -> None:
        self.folder = folder
        self.deployment = str(options["deployment"])
        self.rank = int(options["rank"])
        self.loading_floor = max(0, int(options["loading_floor_bytes"]))
        self.serving_floor = max(0, int(options["serving_floor_bytes"]))
        self.readings = max(1, int(options.get("readings", 3)))
        self.interval = min(0.25, max(0.02, float(options.get("interval_s", 0.25))))
        self.serving_after = max(1.0, float(options.get("serving_after_s", 1800.0)))
        self.beat = min(2.0, max(0.05, float(options.get("beat_s", 2.0))))
        self.wait_container = float(options.get("wait_container_s", 300.0))
        self.health = [(str(h), int(p)) for h, p in options.get("health", [])][:4]
        self.target = Target(options)
        self.stage, self.stage_why = "loading", "not told otherwise"
        self.floor = self.loading_floor
        self.available: int | None = None
        self.history: list[tuple[float, int]] = []
        self.lowest: int | None = None
        self.over = threading.Event()
        self.end = ""
        self.tripped: Group = {}
        self.calm_until = 0.0
        self.began = time.monotonic()
        self.since = time.time()
        self.priority = ""
        self.oom_score_adj = protect()
        self.locked = lock_memory()
        self.meminfo = Meminfo()

    def describe(self) -> Group:
        return {
            "deployment": self.deployment,
            "rank": self.rank,
            "pid": os.getpid(),
            "since": self.since,
            "stage": self.stage,
            "stage_why": self.stage_why,
            "floor_bytes": self.floor,
            "available_bytes": self.available,
            "lowest_bytes": self.lowest,
            "container": self.target.ident,
            "container_state": self.target.state,
            "how": self.target.how,
            "why": self.target.why if self.available is not None or not self.lowest else MEMINFO + " cannot be read",
            "oom_score_adj": self.oom_score_adj,
            "locked": self.locked,
            "priority": self.priority,
            "ended": self.end,
            "at": time.time(),
        }

    # -- main thread --------------------------------------------------------------------------------------------

    def run(self) -> None:
        threading.Thread(target=self.watch, daemon=True).start()
        self.priority = hurry()
        low, low_since, pause = 0, 0.0, 0.0
        while not self.over.wait(pause):
            now = time.monotonic()
            self.available = available = self.meminfo.read()
            if available is None:
                pause = self.interval
                continue
            floor = self.floor
            self.lowest = available if self.lowest is None else min(self.lowest, available)
            self.history.append((now, available))
            while self.history and now - self.history[0][0] > HISTORY_S:
                del self.history[0]
            low = low + 1 if available < floor else 0
            low_since = now if low == 1 else low_since
            # On a node that thrashes we are late ourselves: two readings so far apart say what more of them would.
            enough = low >= self.readings or (low >= 2 and now - low_since >= self.readings * FAST_S)
            if enough and self.target.running and now >= self.calm_until:
                self.trip(now, available, floor)
                low = 0
            pause = FAST_S if available < 2 * floor else self.interval
            pause = min(pause, self.interval)

    def trip(self, now: float, available: int, floor: int) -> None:
        """Kill first, write after: a full disk must not cost the node."""
        at = time.time()
        done = self.target.kill(self.patience(now, available))
        marker = {
            "deployment": self.deployment,
            "rank": self.rank,
            "container": self.target.ident,
            "name": self.target.name,
            "at": at,
            "stage": self.stage,
            "floor_bytes": floor,
            "available_bytes": available,
            "readings": self.readings,
            "history": [[round(t - now, 2), a] for t, a in self.history],
            "killed_by": done,
            "tried": self.target.tried,
            "took_s": round(time.monotonic() - now, 3),
            "outcome": "killed" if done else "not killed",
        }
        # What was killed needs a moment to give its memory back; the first trip is the one worth telling.
        self.calm_until = time.monotonic() + (5.0 if done else 1.0)
        if self.tripped:
            marker = dict(self.tripped, killed_by=done, tried=self.target.tried, outcome=marker["outcome"], again=True)
        self.tripped = marker
        try:
            put(self.folder + "/tripped.json", marker)
        except OSError as error:
            self.target.why = "the marker cannot be written: " + reason(error)

    def patience(self, now: float, available: int) -> float:
        """Seconds to wait for the engine: a busy one takes a second and more, and a quarter of what is left must do."""
        when, before = next(row for row in self.history if row[0] >= now - 0.5)
        if now <= when or before <= available:
            return PATIENCE
        return min(PATIENCE, max(0.1, 0.25 * available * (now - when) / (before - available)))

    # -- the thread that may hang -------------------------------------------------------------------------------

    def watch(self) -> None:
        told = 0.0
        asked = 0.0
        while not self.end:
            now = time.monotonic()
            try:
                self.end = self.look(now)
                self.listen()
                if self.stage == "loading" and self.target.running and now - asked >= 5.0:
                    asked = now
                    self.ask_stage(now)
                if self.end or now - told >= self.beat:
                    told = now
                    put(self.folder + "/state.json", self.describe())
            except Exception as error:  # noqa: BLE001 - a guard that lives on and says what is wrong beats none
                self.target.why = reason(error)
            if not self.end:
                self.over.wait(self.beat if self.target.ident else min(0.25, self.beat))
        self.over.set()

    def look(self, now: float) -> str:
        """Why the guard ends now, or ""."""
        if not self.target.ident:
            self.target.find()
            if not self.target.ident and now - self.began > self.wait_container:
                return "no container of the deployment came to be"
            return ""
        if self.target.gone():
            return "its container ended"
        if self.target.lost_s > 60.0:
            return "the engine is gone, and the container's process cannot be seen"
        return ""

    def ask_stage(self, now: float) -> None:
        """Without a console: the head's API answers once everything is allocated; else time decides."""
        if now - self.began > self.serving_after:
            self.serve(f"{self.serving_after:.0f} s have passed")
            return
        for host, port in self.health:
            if ask_tcp(host, port, "/health") == 200:
                self.serve("the API answers")
                return

    def listen(self) -> None:
        said = get(self.folder + "/control.json")
        if isinstance(said.get("loading_floor_bytes"), int):
            self.loading_floor = max(0, said["loading_floor_bytes"])
        if isinstance(said.get("serving_floor_bytes"), int):
            self.serving_floor = max(0, said["serving_floor_bytes"])
        if said.get("stage") == "serving" and self.stage == "loading":
            self.serve("told by the console")
        self.floor = self.serving_floor if self.stage == "serving" else self.loading_floor

    def serve(self, why: str) -> None:
        self.stage, self.stage_why, self.floor = "serving", why, self.serving_floor


def protect() -> int | None:
    """Ask the kernel's OOM killer to pass us by (root alone may); the value that holds now."""
    path = "/proc/self/oom_score_adj"
    try:
        with contextlib.suppress(PermissionError), open(path, "w") as out:
            out.write("-1000")
        with open(path) as source:
            return int(source.read())
    except (OSError, ValueError):
        return None


def hurry() -> str:
    """Before all others when our time comes, where that is allowed (root may): a reading takes microseconds, and a node
    that runs short of memory is busy. The calling thread alone; what it got."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return "real time"
    except (OSError, AttributeError):
        pass  # not allowed, or a control group without time of that kind: the ordinary way then
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        return "nice -20"
    except (OSError, AttributeError):
        return ""


def lock_memory() -> bool:
    """Keep our pages in memory where that is allowed: MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT of <sys/mman.h>."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).mlockall(7) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def start(options: Group) -> Group:
    """Leave a guard behind, unless one runs; what it says of itself."""
    deployment, rank = str(options["deployment"]), int(options["rank"])
    if not NAME.match(deployment):
        raise ValueError("not a deployment's name")
    top = home()
    clear(top)
    folder = f"{top}/{deployment}.r{rank}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    lock = os.open(folder + "/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return dict(get(folder + "/state.json"), running=True, already=True)
    ear, mouth = os.pipe()
    if os.fork():
        os.close(mouth)
        with os.fdopen(ear, "rb") as heard:
            said = heard.read(65536)
        os.wait()
        return json.loads(said) if said else {"running": False, "why": "the guard ended at once"}
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        guard = detached(options, folder, lock, mouth)
        guard.run()
        put(folder + "/state.json", guard.describe())
    finally:
        os._exit(0)


def detached(options: Group, folder: str, lock: int, mouth: int) -> Guard:
    """In the child: nothing of the channel is held, so that it closes; then say how it went."""
    os.chdir("/")
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in (lock, mouth):
            with contextlib.suppress(OSError):
                os.close(int(name))
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as out:
        out.write("nightdeck-guard")
    threading.stack_size(256 << 10)
    try:
        guard = Guard(options, folder)
        answer = dict(guard.describe(), running=True)
        put(folder + "/state.json", answer)
    except Exception as error:
        os.write(mouth, json.dumps({"running": False, "why": reason(error)}).encode())
        raise
    os.write(mouth, json.dumps(answer).encode())
    os.close(mouth)
    return guard


def tell(options: Group) -> Group:
    """A word for a running guard: its stage, or other floors."""
    deployment, rank = str(options["deployment"]), int(options["rank"])
    folder = f"{home()}/{deployment}.r{rank}"
    if not NAME.match(deployment) or not held(folder):
        return {"running": False, "why": "no guard runs for this deployment here"}
    keys = ("stage", "loading_floor_bytes", "serving_floor_bytes")
    put(folder + "/control.json", dict(get(folder + "/control.json"), **{k: options[k] for k in keys if k in options}))
    return {"running": True}


def main() -> None:
    options = json.loads(sys.argv[1])
    try:
        answer: object = {"start": start, "status": status, "tell": tell}[options["do"]](options)
    except (OSError, ValueError, KeyError, TypeError) as error:
        answer = {"running": False, "why": reason(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
