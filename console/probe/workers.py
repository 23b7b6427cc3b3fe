"""What may hang is read by a thread of its own: fabric, processes, the space behind mounts."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from console.probe.host import PAGE, PROC, SYS, TICK, VIRTUAL_NET, listed, read, reason, word

if TYPE_CHECKING:
    Group = dict[str, Any]


def nothing() -> None:
    """Nobody waits for this worker."""


class Worker(threading.Thread):
    """Runs a task again and again and keeps its last result; a task that hangs shows as an age and a reason."""

    def __init__(
        self, what: str, period: float, task: Callable[[], Group], done: Callable[[], None], limit: float = 4.0
    ):
        super().__init__(daemon=True)
        self.what, self.period, self.task, self.done, self.limit = what, period, task, done, limit
        self.latest: Group = {}
        self.since: float | None = None
        self.poked = threading.Event()
        self.ended = False

    def run(self) -> None:
        while not self.ended:
            self.poked.clear()
            self.since = time.monotonic()
            try:
                self.latest = dict(self.task(), t=self.since)
            except Exception as error:  # noqa: BLE001 - a thread that dies would look like a value that stands still
                self.latest = dict(self.latest, why=self.what + ": " + reason(error))
            self.since = None
            self.done()
            self.poked.wait(self.period)

    def group(self, now: float) -> Group:
        since, latest = self.since, self.latest
        if since is not None and now - since > self.limit:
            return dict(latest, why=f"{self.what}: no answer for {now - since:.0f} s")
        return latest or {"why": self.what + ": not read yet"}


DATA_COUNTERS = ("port_rcv_data", "port_xmit_data")
ERROR_COUNTERS = (
    *("counters/" + n for n in ("port_rcv_errors", "port_xmit_discards", "symbol_error", "link_downed")),
    *(
        "counters/" + n
        for n in ("link_error_recovery", "local_link_integrity_errors", "port_rcv_remote_physical_errors")
    ),
    *("hw_counters/" + n for n in ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err")),
    *("hw_counters/" + n for n in ("roce_adp_retrans", "rx_icrc_encapsulated", "req_transport_retries_exceeded")),
)


class Fabric:
    """Interfaces and RDMA ports. Attributes and error counters change seldom and are read every fifth time."""

    def __init__(self) -> None:
        self.count = 0
        self.link: dict[str, dict[str, str | None]] = {}
        self.slow: dict[str, dict[str, str | None]] = {}

    def __call__(self) -> Group:
        ports: dict[str, dict[str, str | None]] = {}
        base = SYS + "/class/infiniband/"
        fifth = self.count % 5 == 0
        self.count += 1
        for device in listed(base):
            for port in listed(base + device + "/ports"):
                path = base + device + "/ports/" + port + "/"
                name = device + ":" + port
                if fifth:
                    self.slow[name] = {n: word(path + n) for n in ("state", "rate", *ERROR_COUNTERS)}
                ports[name] = dict(self.slow.get(name, {}), **{n: word(path + "counters/" + n) for n in DATA_COUNTERS})
        if fifth:
            nets = [n for n in listed(SYS + "/class/net") if not VIRTUAL_NET.match(n + ":")][:64]
            self.link = {
                n: {a: word(SYS + "/class/net/" + n + "/" + a) for a in ("speed", "mtu", "operstate")} for n in nets
            }
        return {"why": "", "ports": ports, "link": self.link}


class Processes:
    """The largest and the busiest processes, from one look at /proc/*/stat; also who is whose parent."""

    SLICE_S = 0.2

    def __init__(self, top: int) -> None:
        self.top = top
        self.before: dict[int, int] = {}
        self.at = 0.0
        self.children: dict[int, list[int]] = {}

    def __call__(self) -> Group:
        start = time.monotonic()
        ticks: dict[int, int] = {}
        children: dict[int, list[int]] = {}
        rows: list[tuple[int, str, str, int, float | None]] = []
        why = ""
        for entry in os.listdir(PROC):
            if not entry.isdigit():
                continue
            if time.monotonic() - start > self.SLICE_S:
                why = "too many processes for one look"
                break
            stat = process(int(entry))
            if stat is None:
                continue
            pid, (name, state, parent, spent, _, rss) = int(entry), stat
            children.setdefault(parent, []).append(pid)
            if rss:
                ticks[pid] = spent
                used = spent - self.before[pid] if pid in self.before else None
                share = None if used is None or used < 0 else 100.0 * used / TICK / max(0.001, start - self.at)
                rows.append((pid, name, state, rss, share))
        self.before, self.at, self.children = ticks, start, children
        large = sorted(rows, key=lambda r: -r[3])[: self.top]
        busy = sorted((r for r in rows if r[4] is not None), key=lambda r: -(r[4] or 0.0))[: self.top]
        return {"why": why, "rows": [list(r) for r in dict.fromkeys(large + busy)], "count": len(rows)}

    def tree(self, pid: int) -> list[int]:
        found = [pid]
        for one in found:
            found.extend(self.children.get(one, ()))
            if len(found) > 512:
                break
        return found


def process(pid: int) -> tuple[str, str, int, int, int, int] | None:
    """Name, state, parent, ticks of its own, ticks with those of children that ended, resident bytes."""
    try:
        text = read(f"{PROC}/{pid}/stat", 4096)
        rest = text[text.rindex(")") + 2 :].split()
        own = int(rest[11]) + int(rest[12])
        ended = own + int(rest[13]) + int(rest[14])
        return (
            text[text.index("(") + 1 : text.rindex(")")][:32],
            rest[0],
            int(rest[1]),
            own,
            ended,
            int(rest[21]) * PAGE,
        )
    except (OSError, ValueError, IndexError):
        return None  # it ended meanwhile


NETWORK_FS = ("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "fuse.sshfs", "9p", "beegfs", "glusterfs")


class Mounts:
    """Space behind paths, each asked by its own thread: a mount that hangs takes nothing else with it."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = [os.path.expanduser(p) for p in paths]
        self.workers: dict[str, Worker] = {}
        self.table: list[tuple[str, str, str]] = []
        self.looked = -1e9

    def look(self, now: float) -> None:
        self.looked = now
        try:
            fields = [line.split(" ") for line in read(PROC + "/mounts").split("\n")]
        except OSError:
            fields = []
        self.table = [(f[1].replace("\\040", " "), f[0], f[2]) for f in fields if len(f) > 3]
        remote = [path for path, _, kind in self.table if kind in NETWORK_FS]
        wanted = list(dict.fromkeys(self.paths + remote))[:16]
        for path in [p for p in self.workers if p not in wanted]:
            self.workers.pop(path).ended = True
        for path in wanted:
            if path not in self.workers:
                self.workers[path] = Worker(path, 10.0, functools.partial(self.space, path), nothing, 3.0)
                self.workers[path].start()

    @staticmethod
    def space(path: str) -> Group:
        found = os.statvfs(path)
        return {"why": "", "total": found.f_blocks * found.f_frsize, "available": found.f_bavail * found.f_frsize}

    def group(self, now: float) -> Group:
        if now - self.looked > 30.0:
            self.look(now)
        rows = {}
        for path, worker in self.workers.items():
            inside = [m for m in self.table if m[0] == "/" or path == m[0] or path.startswith(m[0] + "/")]
            _, device, kind = max(inside, key=lambda m: len(m[0]), default=("", "", ""))
            rows[path] = dict(worker.group(now), device=device, kind=kind)
        return {"t": now, "why": "", "rows": rows}
