"""A node's outside for the probe: /proc and /sys trees, an engine on a unix socket, an nvidia-smi, a console."""

from __future__ import annotations

import json
import os
import selectors
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from console.probe import telemetry_program
from console.telemetry.frames import Bad, Frame, FrameReader
from console.telemetry.launch import ProbeOptions, probe_argv

PYTHON = os.environ.get("PROBE_PYTHON", sys.executable)  # another interpreter to run the probe with, such as 3.8
MEMINFO = """\
MemTotal:       127600812 kB
MemFree:          812344 kB
MemAvailable:   24672112 kB
Buffers:           90112 kB
Cached:         22120448 kB
SwapCached:            0 kB
SwapTotal:      16777212 kB
SwapFree:       16252924 kB
Dirty:               312 kB
Writeback:             0 kB
Shmem:            445644 kB
CmaTotal:         131072 kB
CmaFree:            2048 kB
"""
NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes  packets errs drop fifo colls carrier compressed
    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
veth12ab: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0
enp1s0f0np0: 9000000000 6000000 1 2 0 0 0 0 8000000000 5000000 0 0 0 0 0 0
"""
DISKS = """\
   7       0 loop0 11 0 28 0 0 0 0 0 0 16 0 0 0 0 0 0 0
 259       0 nvme0n1 501 22 88216 90 41 17 3304 12 0 120 110 0 0 0 0 3 8
 259       1 nvme0n1p1 400 22 88000 90 41 17 3304 12 0 120 110 0 0 0 0 0 0
"""


def make_tree(root: Path) -> None:
    """A GB10 node's files, as the kernel words them."""
    proc, sys_ = root / "proc", root / "sys"
    for path, content in {
        proc / "meminfo": MEMINFO,
        proc / "vmstat": "nr_free_pages 203086\npswpin 100\npswpout 2000\npgfault 1\n",
        proc / "stat": "cpu  1000 0 500 8000 500 0 0 0 0 0\ncpu0 500 0 250 4000 250 0 0 0 0 0\n"
        "cpu1 500 0 250 4000 250 0 0 0 0 0\nbtime 1\nprocs_blocked 3\n",
        proc / "loadavg": "3.10 2.00 1.00 2/900 4242\n",
        proc
        / "buddyinfo": "Node 0, zone      DMA      1      0      0      0      0      0      0      0      0      2\n"
        "Node 0, zone   Normal   9000    400      0      0      0      0      0      0      0      3\n",
        proc / "uptime": "5000.10 9000.00\n",
        proc / "sys/kernel/random/boot_id": "495474de-7f87-4191-905f-88b198618129\n",
        proc / "pressure/memory": "some avg10=31.20 avg60=20.00 avg300=1.00 total=1\n"
        "full avg10=28.00 avg60=12.50 avg300=0.00 total=0\n",
        proc / "net/dev": NET,
        proc / "diskstats": DISKS,
        proc / "mounts": f"/dev/nvme0n1p2 / ext4 rw 0 0\nnas:/models {root}/models nfs4 rw 0 0\n",
        sys_ / "block/nvme0n1/size": "1\n",
        sys_ / "class/net/enp1s0f0np0/speed": "200000\n",
        sys_ / "class/net/enp1s0f0np0/mtu": "9000\n",
        sys_ / "class/net/enp1s0f0np0/operstate": "up\n",
        sys_ / "class/infiniband/rocep1s0f0/ports/1/state": "4: ACTIVE\n",
        sys_ / "class/infiniband/rocep1s0f0/ports/1/rate": "200 Gb/sec (2X NDR)\n",
        sys_ / "class/infiniband/rocep1s0f0/ports/1/counters/port_rcv_data": "1000\n",
        sys_ / "class/infiniband/rocep1s0f0/ports/1/counters/port_xmit_data": "2000\n",
        sys_ / "class/infiniband/rocep1s0f0/ports/1/hw_counters/out_of_sequence": "7\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / "models").mkdir()
    (root / "dev").mkdir()
    (root / "dev/kmsg").write_text("6,1,1000,-;NVRM: Xid (PCI:000f:01:00): 31, from before the start\n")
    add_process(root, 4242, "VLLM::Worker_TP5", parent=1, ticks=500, pages=1000)
    add_process(root, 4243, "python3", parent=4242, ticks=100, pages=200)


def add_process(root: Path, pid: int, name: str, *, parent: int, ticks: int, pages: int) -> None:
    """/proc/PID/stat as proc(5) has it: utime is field 14, rss field 24."""
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True, exist_ok=True)
    fields = [
        "S",
        str(parent),
        *["0"] * 9,
        str(ticks),
        "0",
        "0",
        "0",
        "20",
        "0",
        "1",
        "0",
        "77",
        "1",
        str(pages),
        *["0"] * 28,
    ]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
    (folder / "io").write_text("rchar: 9\nwchar: 9\nread_bytes: 4096\nwrite_bytes: 1024\n")


def inspected(ident: str, **state: Any) -> dict[str, Any]:
    """What /containers/ID/json answers, cut to what is used."""
    return {
        "Id": ident,
        "Name": "/nd-flash-r5",
        "RestartCount": 0,
        "Config": {"Image": "vllm:local", "Labels": {"nightdeck.deployment": "flash-b11-x", "other": "y"}},
        "State": {
            "Status": "running",
            "ExitCode": 0,
            "OOMKilled": False,
            "Pid": 4242,
            "StartedAt": "2026-09-26T02:58:03.123456789Z",
            "FinishedAt": "0001-01-01T00:00:00Z",
            "Error": "",
            **state,
        },
    }


class FakeEngine(socketserver.ThreadingUnixStreamServer):
    """Speaks the engine's API on a unix socket; `hang` makes it accept and answer nothing, as a dead dockerd does."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path) -> None:
        self.containers: dict[str, dict[str, Any]] = {}
        self.broken: set[str] = set()  # looked at, these get an error of the engine's own
        self.hang = threading.Event()
        self.ended = threading.Event()
        self.listening = threading.Condition()
        self.streams: list[Any] = []
        self.asked: list[str] = []
        super().__init__(str(path), _Handler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def wait_listener(self, seconds: float = 10.0) -> None:
        with self.listening:
            assert self.listening.wait_for(lambda: self.streams, seconds), "the probe listens to no events"

    def emit(self, action: str, ident: str, **attributes: str) -> None:
        about = {"name": "nd-flash-r5", **attributes}
        line = json.dumps(
            {"Type": "container", "Action": action, "Actor": {"ID": ident, "Attributes": about}, "time": 17}
        )
        for out in self.streams:
            out.write(f"{len(line) + 1:x}\r\n{line}\n\r\n".encode())
            out.flush()

    def close(self) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeEngine

    def do_GET(self) -> None:
        engine = self.server
        url = urlsplit(self.path)
        engine.asked.append(self.path)
        if engine.hang.is_set():
            engine.ended.wait()
        elif url.path == "/events":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with engine.listening:
                engine.streams.append(self.wfile)
                engine.listening.notify_all()
            engine.ended.wait()
        elif url.path == "/containers/json":
            labels = json.loads(parse_qs(url.query)["filters"][0])["label"]
            found = [c for c in engine.containers.values() if labels == ["nightdeck.deployment"]]
            self.answer([{"Id": c["Id"], "State": c["State"]["Status"]} for c in found])
        elif (ident := url.path.split("/")[2]) in engine.broken:
            self.answer({"message": "cannot allocate memory"}, 500)
        elif ident in engine.containers:
            self.answer(engine.containers[ident])
        else:
            self.answer({"message": "No such container"}, 404)

    def answer(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return

    def address_string(self) -> str:
        return "unix"


def program(folder: Path, name: str, script: str) -> None:
    """A program in PATH, written for this interpreter."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(0o755)


class Console:
    """The other end of a probe: sends the program, reads frames with a deadline."""

    def __init__(self, root: Path, options: ProbeOptions, **env: str) -> None:
        argv, first = probe_argv(telemetry_program(), options)
        self.reader = FrameReader()
        self.frames: list[Frame] = []
        base = {"HOST_PROC": f"{root}/proc", "HOST_SYS": f"{root}/sys", "HOST_DEV": f"{root}/dev"}
        self.child = subprocess.Popen(
            [PYTHON, *argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": f"{root}/bin:/usr/bin:/bin", **base, **env},
        )
        assert self.child.stdin and self.child.stdout
        self.stdin, self.stdout = self.child.stdin, self.child.stdout
        os.set_blocking(self.stdout.fileno(), False)
        self.send(first)

    def send(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def until(self, wanted: Callable[[dict[str, Any]], Any], seconds: float = 60.0) -> Frame:
        """The first frame from now on that is wanted."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as ready:
            ready.register(self.stdout, selectors.EVENT_READ)
            while ready.select(end - time.monotonic()):
                data = os.read(self.stdout.fileno(), 65536)
                assert data, f"the probe ended with {self.child.wait(5)}"
                fresh = self.reader.feed(data)
                assert not [b for b in fresh if isinstance(b, Bad)]
                got = [f for f in fresh if isinstance(f, Frame)]
                self.frames += got
                for frame in got:
                    if wanted(dict(frame.data)):
                        return frame
        raise AssertionError(f"no such frame in {seconds} s; last: {self.frames[-1:]}")

    def close(self) -> None:
        self.stdin.close()
        try:
            self.child.wait(5)
        finally:
            self.child.kill()
            self.stdout.close()
