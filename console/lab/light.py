"""The telemetry probe of a node, answered by the lab itself: the same frames, but no process a node.

A lab of eight nodes really runs the probe, three processes a node. A hundred nodes of that leave nothing of a small
machine for the console that is looked at. What reads and shapes values is the probe's own code, pointed at the node's
files for the moment of a frame; only its threads, its sockets and its processes are replaced by what they would ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import asyncssh

from console.lab.containers import ContainerEngine
from console.lab.gpu_tool import app_lines, gpu_line
from console.lab.world import LabNode
from console.probe import engine, guard_files, host, workers
from console.probe.smi import APP_FIELDS, GPU_FIELDS

_PROGRAM: Final = "nightdeck-probe"
_WORDS: Final = 7  # exec, python3, -u, -c, what reads the program, its bytes, its options
_CSV: Final = ["csv", "noheader", "nounits"]
_SPACE: Final = {"why": "", "total": 4096 * 960_000_000}
# How often the probe looks at what it does not look at for every frame, in seconds.
_PROCESSES_S: Final = 5.0
_GUARDS_S: Final = 2.0
_MOUNTS_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a console asked the probe for. program: the bytes of standard input that come before its orders."""

    program: int
    interval_s: float
    label: str
    paths: tuple[str, ...]


def order_of(command: str | None) -> Order | None:
    """The probe's order that a command line is; None for any other command, which is really run."""
    if command is None or _PROGRAM not in command:
        return None
    try:
        words = shlex.split(command)
        options = json.loads(words[-1])
        if len(words) != _WORDS or options["container_cli"] != "docker" or not options["gpu"]:
            return None
        paths = tuple(str(path) for path in options["paths"])
        return Order(int(words[-2]), float(options["interval_s"]), str(options["label"]), paths)
    except (ValueError, KeyError, TypeError, IndexError):
        return None


@contextlib.contextmanager
def _at(node: LabNode) -> Iterator[None]:
    """The probe's code looks at this node. Nothing may be awaited meanwhile: there is one such code for all nodes."""
    roots = {"PROC": f"{node.folder}/proc", "SYS": f"{node.folder}/sys", "DEV": f"{node.folder}/dev"}
    before = [(module, name, getattr(module, name, None)) for module in (host, workers, engine) for name in roots]
    try:
        for module, name, value in before:
            if value is not None:
                setattr(module, name, roots[name])
        yield
    finally:
        for module, name, value in before:
            if value is not None:
                setattr(module, name, value)


class LightProbe:
    """One probe on one node, for one channel. socket: the engine's, as the node's programs know it."""

    def __init__(self, node: LabNode, order: Order, socket: Path) -> None:
        self._node = node
        self._order = order
        self._interval = min(60.0, max(0.1, order.interval_s))
        self._label = order.label
        self._socket = socket
        self._processes = workers.Processes(8)
        self._fabric = workers.Fabric()
        self._engine = engine.Engine("docker", order.label, self._processes, lambda: None)
        self._kept: dict[str, tuple[float, dict[str, Any]]] = {}
        self._told = ""
        self._number = 0
        self._poked = asyncio.Event()
        self._changed = False
        self._ended = False
        self._answers: list[dict[str, Any]] = []
        self._used = 0.0

    async def run(self, channel: asyncssh.SSHServerProcess[bytes]) -> None:
        """Until the channel's input ends, as the probe itself."""
        helpers = [
            asyncio.create_task(self._listen(channel), name=f"probe input {self._node.name}"),
            asyncio.create_task(self._events(), name=f"probe events {self._node.name}"),
        ]
        try:
            with contextlib.suppress(asyncssh.Error, OSError):  # nobody reads any more
                await self._frames(channel.stdout)
            channel.exit(0)
        finally:
            for task in helpers:
                task.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    # -- what comes in ------------------------------------------------------------------------------------------

    async def _listen(self, channel: asyncssh.SSHServerProcess[bytes]) -> None:
        tail = b""
        left = self._order.program
        try:
            while data := await channel.stdin.read(1 << 16):
                skipped = min(left, len(data))
                left -= skipped
                *lines, tail = (tail + data[skipped:]).split(b"\n")
                for line in lines:
                    self._obey(line)
        except (asyncssh.Error, OSError):
            pass  # the connection is gone, and so is who asked
        self._ended = True
        self._poked.set()

    def _obey(self, line: bytes) -> None:
        try:
            order = json.loads(line)
            match order.get("do"):
                case "interval":
                    self._interval = min(60.0, max(0.1, float(order["seconds"])))
                case "label":
                    self._label = str(order["label"])
                case "census":
                    self._answers.append(self._census(int(order["n"]), str(order.get("label", ""))))
                case "ask":
                    pass
                case _:
                    return
        except (ValueError, KeyError, AttributeError, TypeError):
            return  # an order of a newer console
        self._changed |= order["do"] != "census"
        self._poked.set()

    async def _events(self) -> None:
        async for entry in self._node.engine.events.follow(None, 0):
            event = json.loads(entry.data)
            if self._label.partition("=")[0] in event.get("Actor", {}).get("Attributes", {}):
                self._engine.told(event)
                self._poked.set()

    # -- what goes out ------------------------------------------------------------------------------------------

    async def _frames(self, out: asyncssh.SSHWriter[bytes]) -> None:
        due = time.monotonic()
        while not self._ended:
            await self._node.moving.wait()
            now = time.monotonic()
            self._poked.clear()
            if now >= due or self._changed:
                due = now + self._interval if self._changed or now > due + self._interval else due + self._interval
                self._changed = False
                with _at(self._node):
                    self._number += 1
                    out.write(self._packed(self._everything(now)))
            while self._answers:
                out.write(self._packed(self._answers.pop(0)))
            with _at(self._node):
                group = self._containers(now)
            if self._gist(group) != self._told:
                self._told = self._gist(group)
                self._number += 1
                out.write(self._packed(dict(self._head("containers"), containers=group)))
            await out.drain()
            self._used += time.monotonic() - now
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._poked.wait(), max(0.0, due - time.monotonic()))

    def _packed(self, groups: dict[str, Any]) -> bytes:
        groups.update(v=1, seq=self._number, dropped=0)
        body = json.dumps(groups, separators=(",", ":")).encode("ascii")
        return b"ND1 %d %d %08x " % (self._number, len(body), zlib.crc32(body)) + body + b"\n"

    @staticmethod
    def _head(part: str) -> dict[str, Any]:
        return {"part": part, "t": time.monotonic(), "w": time.time()}

    def _everything(self, now: float) -> dict[str, Any]:
        self._node.on_command()
        machine = self._node.machine
        containers = self._containers(now)
        self._told = self._gist(containers)
        apps = app_lines(machine, machine.clock.now(), APP_FIELDS, _CSV)
        return {
            **self._head("all"),
            "host": host.host_group(),
            "kernel": {"t": now, "why": "", "rows": []},
            "fs": self._now_and_then("fs", now, _MOUNTS_S, self._mounts),
            "procs": self._now_and_then("procs", now, _PROCESSES_S, self._processes),
            "fabric": dict(self._fabric(), t=now),
            "guards": self._now_and_then("guards", now, _GUARDS_S, self._guards),
            "gpu": {"fields": GPU_FIELDS, "rows": [gpu_line(machine, GPU_FIELDS, _CSV)], "why": "", "t": now},
            "apps": {"fields": APP_FIELDS, "rows": apps, "why": "", "t": now},
            "containers": containers,
            "self": {"cpu_s": round(self._used, 3), "pid": os.getpid(), "interval_s": self._interval},
        }

    def _now_and_then(self, name: str, now: float, every: float, ask: Any) -> dict[str, Any]:
        kept = self._kept.get(name)
        if kept is None or now - kept[0] >= every:
            kept = self._kept[name] = (now, dict(ask(), t=now))
        return kept[1]

    def _mounts(self) -> dict[str, Any]:
        table = [line.split(" ") for line in host.read(host.PROC + "/mounts").splitlines()]
        remote = [fields[1] for fields in table if fields[2] in workers.NETWORK_FS]
        free = 4096 * (1_900_000_000_000 // 4096 - self._node.machine.number * 2_000_003)
        rows = {}
        for path in dict.fromkeys([*self._order.paths, *remote]):
            inside = [f for f in table if f[1] == "/" or path == f[1] or path.startswith(f[1] + "/")]
            device, _, kind = max(inside, key=lambda f: len(f[1]))[:3]
            rows[path] = {**_SPACE, "available": free, "t": time.monotonic(), "device": device, "kind": kind}
        return {"why": "", "rows": rows}

    def _guards(self) -> dict[str, Any]:
        tmp = self._node.folder / "tmp"
        if not any(tmp.glob("nightdeck-*")):
            return {"why": "", "rows": []}
        before = {name: os.environ.get(name) for name in ("TMPDIR", "HOST_PROC")}
        os.environ |= {"TMPDIR": str(tmp), "HOST_PROC": host.PROC}
        try:
            return guard_files.Guards()()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    # -- the container engine -----------------------------------------------------------------------------------

    def _containers(self, now: float) -> dict[str, Any]:
        there: ContainerEngine = self._node.engine
        events = list(self._engine.events)
        if there.down:
            return {"why": f"docker: hangs up on {self._socket} (connection reset)", "events": events}
        rows = []
        for container in there.matching({"label": [self._label]}, everything=True):
            row = engine.detailed(container.inspect())
            rows.append(dict(row, id=container.id, **self._engine.usage(row)))
        return {"why": "", "how": f"socket {self._socket}", "rows": rows, "t": now, "events": events}

    @staticmethod
    def _gist(group: dict[str, Any]) -> str:
        rows = [(r["id"], r["state"], r["exit_code"], r["oom"], r["pid"]) for r in group.get("rows", ())]
        return repr((rows, group["why"], [e["n"] for e in group["events"]]))

    def _census(self, number: int, label: str) -> dict[str, Any]:
        there = self._node.engine
        said: dict[str, Any] = {"why": f"{self._socket}: hangs up"} if there.down else {"why": "", "rows": []}
        wanted = label or self._label.split("=")[0]
        for container in [] if there.down else there.matching({"label": [wanted]}, everything=True):
            found = container.inspect()
            kept = {k: v[:400] for k, v in container.labels.items() if k.startswith("nightdeck.")}
            row = {key: found[key] for key in ("Id", "Name", "Image", "State")}
            said["rows"].append(dict(row, Config={"Labels": kept}))
        return dict(self._head("census"), n=number, census=said)
