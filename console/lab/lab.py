"""A whole lab: its nodes, their servers, its control socket, and what keeps their files up to date."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncssh

from console.base.errors import UsageError
from console.lab import layout
from console.lab.clock import SPEED_SCREEN, LabClock
from console.lab.containers import ContainerEngine, Spec
from console.lab.control import ControlServer
from console.lab.docker_cli import DockerCli
from console.lab.execute import Executor
from console.lab.hostfs import HostFs
from console.lab.http import Reader, Response, Writer, as_json, serve_http
from console.lab.images import ImageStore
from console.lab.machine import Machine
from console.lab.programs import launcher
from console.lab.scenarios import Scenario, scenario
from console.lab.shim import Call, ShimServer, write_shims
from console.lab.sshd import NodeSshd
from console.lab.tools import NAMES, Tools
from console.lab.world import LabNode, World

MAX_NODES: Final = 128
RUN_PROBES: Final = 16  # each is three processes: beyond this a small machine has nothing left for the console
_HOSTILE_LABELS: Final = {
    "nightdeck.recipe": "\x1b[2J\x1b]0;x\x07../../etc/passwd",
    "nightdeck.rank": "99999999999999999999",
    "nightdeck.deployment": "a,b=c,nightdeck.rank=0",
    "nightdeck.title": "[bold]\u202eeltit[/]\n\r",
}


@dataclass(frozen=True, slots=True)
class LabConfig:
    """folder: everything that the lab writes. speed: lab seconds a wall second. light: the lab answers the probes
    itself instead of running them on each node (None: where there are more nodes than `RUN_PROBES`)."""

    folder: Path
    nodes: int = 8
    speed: float = SPEED_SCREEN
    scenario: str = "healthy"
    name: str = "lab"
    recipes: tuple[Path, ...] = ()
    images: tuple[str, ...] = field(default=())
    light: bool | None = None


class Lab:
    """Start it, use `cluster_file`, close it. All of it lives in the running event loop."""

    def __init__(self, config: LabConfig) -> None:
        if not 1 <= config.nodes <= MAX_NODES:
            raise UsageError(f"a lab has 1 to {MAX_NODES} nodes, not {config.nodes}")
        self.config = config
        self.folder = config.folder.absolute()
        self.clock = LabClock(config.speed)
        self.world = World(self.clock, scenario(config.scenario))
        self._runtime = Path(tempfile.mkdtemp(prefix="ndlab"))  # unix socket paths must be short
        light = config.nodes > RUN_PROBES if config.light is None else config.light
        self._executor = Executor(self._runtime, self._runtime / "s", light=light)
        self._shims = ShimServer(self._runtime / "s", self._dispatch)
        self._control = ControlServer(self._runtime / "c", self)
        self._sshd: dict[str, NodeSshd] = {}
        self._files: dict[str, HostFs] = {}
        self._commands: dict[str, tuple[DockerCli, Tools]] = {}
        self._ticker: asyncio.Task[None] | None = None

    @property
    def cluster_file(self) -> Path:
        return self.folder / "cluster.toml"

    @property
    def control_socket(self) -> Path:
        return self._runtime / "c"

    async def start(self) -> None:
        """Everything up and every file written; lab.json, which says so, comes last."""
        _raise_file_limit()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "lab.json").unlink(missing_ok=True)
        await self._shims.start()
        await self._control.start()
        images, models, homes = layout.known_recipes(self.config.recipes)
        images |= set(self.config.images)
        client = asyncssh.generate_private_key("ssh-ed25519", comment="nightdeck lab")
        allowed = asyncssh.import_authorized_keys(client.export_public_key().decode())
        peers: dict[str, Machine] = {}
        write_shims(self.folder, NAMES)
        entries = []
        for number in range(1, self.config.nodes + 1):
            machine = Machine(f"dgx{number}", number, self.clock)
            key = asyncssh.generate_private_key("ssh-ed25519", comment=machine.name)
            peers[machine.name] = peers[machine.fabric_address] = machine
            node = self._add(machine, images, models, homes, peers)
            sshd = self._sshd[node.name] = NodeSshd(self.world, node, key, allowed, self._executor)
            await sshd.start()
            await sshd.docker.start(self._executor.docker_socket(node))
            entries.append((machine, sshd.port, key))
        self._apply(at_start=True)
        layout.client_files(self.folder, self.config.name, entries, client)
        self._ticker = asyncio.create_task(self._tick(), name="lab files")
        state = {
            "pid": os.getpid(), "ready": True, "cluster": str(self.cluster_file), "control": str(self.control_socket),
            "nodes": self.config.nodes, "speed": self.clock.speed, "scenario": self.world.scenario.name,
        }  # fmt: skip
        layout.write_private(self.folder / "lab.json", json.dumps(state, indent=1).encode(), 0o644)

    def _add(
        self,
        machine: Machine,
        images: Iterable[str],
        models: Iterable[str],
        homes: Iterable[str],
        peers: dict[str, Machine],
    ) -> LabNode:
        folder = self.folder / machine.name
        shutil.rmtree(folder, ignore_errors=True)
        node = LabNode(machine.name, machine, folder)
        layout.node_home(folder, models, homes)
        node.engine = ContainerEngine(self.clock, ImageStore(sorted(images)), launcher(self.world, node))
        self.world.nodes[node.name] = node
        files = self._files[node.name] = HostFs(folder, machine)
        node.on_command = files.update
        self._commands[node.name] = (DockerCli(node.engine, node.name), Tools(machine, self.clock, peers))
        return node

    async def _dispatch(self, call: Call) -> int:
        node = self.world.nodes[call.node]
        await node.moving.wait()
        docker, tools = self._commands[call.node]
        return await (docker(call) if call.name == "docker" else tools(call))

    async def _tick(self) -> None:
        """Files move once a lab second, at most twice a wall second, and only where something can read them."""
        period = min(1.0, max(0.5, self.clock.wall(1.0)))
        while True:
            await asyncio.sleep(period)
            for node in self.world.nodes.values():
                if node.moving.is_set() and self._executor.count(node):
                    self._files[node.name].update()

    def choose(self, name: str) -> Scenario:
        """Another scenario from now on. Raises UsageError. What the old one did to nodes is undone."""
        chosen = scenario(name)
        self._undo()
        self.world.scenario = chosen
        self._apply(at_start=False)
        return chosen

    def _target(self) -> LabNode | None:
        number = self.world.scenario.target(len(self.world.nodes))
        return next((n for n in self.world.nodes.values() if n.machine.number == number), None)

    def _apply(self, *, at_start: bool) -> None:
        """Faults that need no boot to strike; those that do, when chosen while the lab runs, strike at once."""
        name, node = self.world.scenario.name, self._target()
        if node is None:
            return
        if name == "image-missing":
            for image in node.engine.images.all():
                node.engine.images.remove(image.reference)
        elif name == "docker-dead":
            node.engine.down = "dead"
        elif name == "clock-latch":
            node.machine.latched = True
        elif name == "port-in-use":
            node.listen("0.0.0.0", 8000, _foreign_server)
        elif name == "hostile":
            image = node.engine.images.all()[0]
            node.engine.create(Spec(image.reference, name="hostile", cmd=("x\x1b[31m",), labels=_HOSTILE_LABELS))
        elif name == "half-stop":
            for container in node.engine.all():
                container.stubborn = container.running
        elif name == "node-silent" and not at_start:
            node.freeze()
        elif name == "node-cut" and not at_start:
            node.cut_off()
        elif name == "memory-collapse" and not at_start:
            self.collapse(node)

    def _undo(self) -> None:
        name, node = self.world.scenario.name, self._target()
        if node is None:
            return
        if name == "image-missing":
            for image in next(iter(n for n in self.world.nodes.values() if n is not node), node).engine.images.all():
                node.engine.images.add(image.reference)
        elif name == "port-in-use":
            node.close_port("0.0.0.0", 8000)
        for one in self.world.nodes.values():  # a rank of a small boot may have been struck elsewhere
            for container in one.engine.all():
                container.stubborn = False
            one.engine.down = ""
            one.machine.latched = False
            one.machine.collapse = None
            one.machine.loads.pop("another process", None)
            one.heal()

    def collapse(self, node: LabNode) -> None:
        """Available memory to half a GiB within 30 lab seconds; after 60 the node stands still."""
        from console.lab.machine import Load

        now = node.machine.available_gib()
        node.machine.collapse = Load(gib=now, goal=now)
        node.machine.collapse.ramp(self.clock.now(), 0.5, 30)
        asyncio.get_running_loop().call_later(self.clock.wall(60), node.freeze)

    async def kill(self, name: str) -> int:
        """SIGKILL for every running container of a node; how many there were. Raises UsageError."""
        node = self.node(name)
        running = [c for c in node.engine.all() if c.running]
        for container in running:
            container.stubborn = False
            await node.engine.kill(container)
        return len(running)

    def node(self, name: str) -> LabNode:
        if name not in self.world.nodes:
            raise UsageError(f"the lab has no node {name!r}", remedy=f"dgx1 to dgx{len(self.world.nodes)}")
        return self.world.nodes[name]

    async def close(self) -> None:
        """Everything down; the folder stays, its lab.json goes."""
        (self.folder / "lab.json").unlink(missing_ok=True)
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        for node in self.world.nodes.values():
            node.moving.set()
        self._executor.sweep()
        await asyncio.gather(*(sshd.close() for sshd in self._sshd.values()))
        self._executor.sweep()
        await asyncio.gather(*(node.engine.close() for node in self.world.nodes.values()))
        await self._shims.close()
        await self._control.close()
        shutil.rmtree(self._runtime, ignore_errors=True)


async def _foreign_server(reader: Reader, writer: Writer, peer: str) -> None:
    """Another program's server on the engine's port: it answers everything, in its own words."""

    async def handle(request: object) -> Response:
        return as_json({"status": "ok", "service": "open-webui"})

    with contextlib.suppress(asyncio.CancelledError):
        await serve_http(reader, writer, handle, peer, "nginx")


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 65_536
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, 65_536), hard))
