"""The program that runs on a node: a line of JSON a second on standard output, until standard input ends.

A frame is one line, `ND1 <number> <bytes of JSON> <crc32 of JSON, hex> <JSON>`. Its groups carry their own time `t`
(the node's monotonic clock) and a reason `why` where something could not be read. The main thread touches nothing
that can hang: whatever may (mounts, the container engine, drivers behind /sys) has a thread, and shows its age.
Python 3.8, standard library only; HOST_PROC, HOST_SYS and HOST_DEV name other roots than /proc, /sys and /dev.
"""

from __future__ import annotations

import json
import os
import selectors
import sys
import threading
import time
import zlib
from typing import TYPE_CHECKING, Any

from console.probe.engine import Engine
from console.probe.guard_files import Guards
from console.probe.host import KernelLog, host_group
from console.probe.smi import APP_FIELDS, GPU_FIELDS, Smi
from console.probe.workers import Fabric, Mounts, Processes, Worker, nothing

if TYPE_CHECKING:
    Group = dict[str, Any]

MAX_FRAME = 192 << 10


class Output:
    """Standard output that never blocks: while a frame is still on its way the next ones are dropped, and counted."""

    def __init__(self) -> None:
        os.set_blocking(1, False)
        self.left = b""
        self.number = 0
        self.dropped = 0

    def frame(self, groups: Group) -> None:
        if self.left:
            self.dropped += 1
            return
        self.number += 1
        self.send(groups)

    def send(self, groups: Group) -> None:
        """While nothing is on its way: under the number of the last frame."""
        groups.update(v=1, seq=self.number, dropped=self.dropped)
        body = json.dumps(groups, separators=(",", ":")).encode("ascii")
        cut = []
        while len(body) > MAX_FRAME:
            largest = max((k for k in groups if isinstance(groups[k], dict)), key=lambda k: len(json.dumps(groups[k])))
            cut.append(largest)
            groups[largest] = {"why": "too large for a frame"}
            body = json.dumps(groups, separators=(",", ":")).encode("ascii")
            if len(cut) > 8:
                break
        self.left = b"ND1 %d %d %08x " % (self.number, len(body), zlib.crc32(body)) + body + b"\n"
        self.flush()

    def flush(self) -> None:
        try:
            self.left = self.left[os.write(1, self.left) :]
        except BlockingIOError:
            pass  # the selector says when there is room again


class Probe:
    def __init__(self, options: Group) -> None:
        self.interval = min(60.0, max(0.1, float(options.get("interval_s", 1.0))))
        self.bell, self.rope = os.pipe()
        os.set_blocking(self.bell, False)
        os.set_blocking(self.rope, False)
        self.out = Output()
        self.kernel = KernelLog()
        self.processes = Processes(int(options.get("top", 8)))
        self.procs = Worker("processes", float(options.get("procs_every_s", 5.0)), self.processes, nothing)
        self.fabric = Worker("fabric", 1.0, Fabric(), nothing)
        self.guards = Worker("guards", 2.0, Guards(), nothing)
        self.mounts = Mounts(options.get("paths") or ["/"])
        self.smis = (
            [Smi("gpu", GPU_FIELDS, 1.0), Smi("compute-apps", APP_FIELDS, 2.0)] if options.get("gpu", True) else []
        )
        self.engine: Engine | None = None
        cli = str(options.get("container_cli", "docker"))
        if cli:
            label = str(options.get("label", "nightdeck.deployment"))
            self.engine = Engine(cli, label, self.processes, self.ring)
        self.told = ""
        self.asked = False
        self.answers: list[Group] = []
        self.due = time.monotonic()
        self.tail = b""

    def ring(self) -> None:
        """From any thread: wake the loop. A full pipe is a bell that already rings."""
        try:
            os.write(self.rope, b"!")
        except BlockingIOError:
            pass

    def head(self, part: str) -> Group:
        return {"part": part, "t": time.monotonic(), "w": time.time()}

    def everything(self) -> Group:
        now = time.monotonic()
        out = self.head("all")
        out.update(host=host_group(), kernel=self.kernel.group(), fs=self.mounts.group(now))
        out.update(procs=self.procs.group(now), fabric=self.fabric.group(now))
        out["guards"] = self.guards.group(now)
        if self.smis:
            out.update(gpu=self.smis[0].group(now), apps=self.smis[1].group(now, self.smis[0]))
        if self.engine:
            out["containers"] = self.engine.group(now)
            self.told = self.gist(out["containers"])
        out["self"] = {"cpu_s": round(time.process_time(), 3), "pid": os.getpid(), "interval_s": self.interval}
        return out

    @staticmethod
    def gist(group: Group) -> str:
        rows = [(r["id"], r["state"], r["exit_code"], r["oom"], r["pid"]) for r in group.get("rows", ())]
        return repr((rows, group.get("why"), [e["n"] for e in group["events"]]))

    def changed(self) -> None:
        """A container changed: tell it now, not at the next second."""
        if self.engine:
            group = self.engine.group(time.monotonic())
            gist = self.gist(group)
            if gist != self.told and not self.out.left:
                self.told = gist
                self.out.frame(dict(self.head("containers"), containers=group))

    def census(self, number: int, label: str) -> None:
        """In a thread of its own: the engine may take its time."""
        said = self.engine.census(label) if self.engine else {"why": "no engine is watched"}
        self.answers.append(dict(self.head("census"), n=number, census=said))
        self.ring()

    def answer(self) -> None:
        if self.answers and not self.out.left:
            self.out.send(self.answers.pop(0))

    def commands(self, data: bytes) -> None:
        lines = (self.tail + data).split(b"\n")
        self.tail = lines.pop()[-65536:]
        for line in lines:
            try:
                order = json.loads(line)
                if order.get("do") == "interval":
                    self.interval = min(60.0, max(0.1, float(order["seconds"])))
                    self.asked = True
                elif order.get("do") == "label" and self.engine:
                    self.engine.watch(str(order["label"]))
                elif order.get("do") == "ask":
                    self.asked = True
                elif order.get("do") == "census":
                    what = (int(order["n"]), str(order.get("label", "")))
                    threading.Thread(target=self.census, args=what, daemon=True).start()
            except (ValueError, KeyError, AttributeError, TypeError):
                continue  # an order of a newer console; what it can do here it still does

    def run(self) -> None:
        os.set_blocking(0, False)
        for worker in (self.procs, self.fabric, self.guards):
            worker.start()
        if self.engine:
            self.engine.start()
        while True:
            now = time.monotonic()
            for smi in self.smis:
                smi.step(now)
            if self.asked or now >= self.due:
                # Even after a stop of hours (SIGSTOP, suspend) one frame comes, not one for each second missed.
                self.due = (
                    now + self.interval if self.asked or now > self.due + self.interval else self.due + self.interval
                )
                self.asked = False
                self.out.frame(self.everything())
            if not self.wait(max(0.0, self.due - time.monotonic())):
                return

    def wait(self, seconds: float) -> bool:
        """Serve whatever comes until the next frame is due. False: standard input ended."""
        with selectors.DefaultSelector() as ready:
            ready.register(0, selectors.EVENT_READ)
            ready.register(self.bell, selectors.EVENT_READ)
            for smi in self.smis:
                if smi.fd >= 0:
                    ready.register(smi.fd, selectors.EVENT_READ, smi)
            if self.out.left:
                ready.register(1, selectors.EVENT_WRITE)
            for key, _ in ready.select(seconds):
                if key.fd == 0:
                    data = os.read(0, 65536)
                    if not data:
                        return False
                    self.commands(data)
                elif key.fd == self.bell:
                    os.read(self.bell, 4096)
                    self.answer()
                    self.changed()
                elif key.fd == 1:
                    self.out.flush()
                    self.answer()
                else:
                    key.data.readable(time.monotonic())
        return True


def main() -> None:
    probe = Probe(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    try:
        probe.run()
    except (BrokenPipeError, ConnectionResetError):
        pass  # nobody reads any more
    finally:
        for smi in probe.smis:
            smi.end()
    os._exit(0)  # a thread may hang in a mount for ever; nothing is left to clean up


if __name__ == "__main__":
    main()
