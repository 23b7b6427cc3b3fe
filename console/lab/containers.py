"""A node's container engine: what exists, what runs, and docker's own words when something cannot be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from console.lab.clock import LabClock, rfc3339_nano
from console.lab.images import ImageStore
from console.lab.logstore import STDERR, LogStore

_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+\Z")
_NEVER: Final = "0001-01-01T00:00:00Z"
SIGNALS: Final = {"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "TERM": 15}


class DockerError(Exception):
    """What the daemon answers. status: of its HTTP API."""

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class Program(Protocol):
    """What runs in a container."""

    async def run(self) -> int:
        """To its exit code. Cancelled when it is killed."""
        ...

    def terminate(self) -> None:
        """SIGTERM: end soon, in its own way."""
        ...


@dataclass(frozen=True, slots=True)
class Spec:
    """What `docker run` or the API's create asks for. cmd: the words after the image."""

    image: str
    name: str = ""
    cmd: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    env: tuple[str, ...] = ()
    host_config: Mapping[str, Any] = field(default_factory=dict)
    auto_remove: bool = False
    tty: bool = False


@dataclass(eq=False, slots=True)
class Container:
    """One container. Times are nanoseconds since the epoch, 0: never."""

    id: str
    name: str
    spec: Spec
    image_id: str
    command: tuple[str, ...]
    env: tuple[str, ...]
    labels: dict[str, str]
    pid: int
    created: int
    logs: LogStore = field(default_factory=LogStore)
    status: str = "created"
    started: int = 0
    finished: int = 0
    exit_code: int = 0
    error: str = ""
    oom_killed: bool = False
    stubborn: bool = False
    program: Program | None = None
    task: asyncio.Task[None] | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> bool:
        return self.status == "running"

    def environment(self) -> dict[str, str]:
        return dict(e.partition("=")[::2] for e in self.env)

    def inspect(self) -> dict[str, Any]:
        """The part of `docker inspect` that people and programs read."""
        spec = self.spec
        return {
            "Id": self.id,
            "Created": rfc3339_nano(self.created),
            "Path": self.command[0] if self.command else "",
            "Args": list(self.command[1:]),
            "State": {
                "Status": self.status, "Running": self.running, "Paused": False, "Restarting": False,
                "OOMKilled": self.oom_killed, "Dead": False, "Pid": self.pid if self.running else 0,
                "ExitCode": self.exit_code, "Error": self.error,
                "StartedAt": rfc3339_nano(self.started) if self.started else _NEVER,
                "FinishedAt": rfc3339_nano(self.finished) if self.finished else _NEVER,
            },
            "Image": self.image_id,
            "Name": "/" + self.name,
            "RestartCount": 0,
            "Driver": "overlay2",
            "Platform": "linux",
            "HostConfig": {"NetworkMode": "bridge", "IpcMode": "private", "AutoRemove": spec.auto_remove,
                           "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}, **spec.host_config},
            "Mounts": [],
            "Config": {"Hostname": self.id[:12], "Tty": spec.tty, "Env": list(self.env), "Cmd": list(spec.cmd) or None,
                       "Image": spec.image, "Entrypoint": None if spec.entrypoint is None else list(spec.entrypoint),
                       "Labels": dict(self.labels)},
            "NetworkSettings": {"Networks": {str(spec.host_config.get("NetworkMode", "bridge")): {}}},
        }  # fmt: skip


Launcher = Callable[[Container], Program]


class ContainerEngine:
    """One node's daemon. It lives in the lab's process: no SSH connection and no console owns a container."""

    def __init__(self, clock: LabClock, images: ImageStore, launcher: Launcher) -> None:
        self.clock = clock
        self.images = images
        self.down = ""  # why the daemon does not answer, in the client's words; empty: it does
        self.events: LogStore = LogStore()
        self._launcher = launcher
        self._containers: dict[str, Container] = {}
        self._pid = 20_000

    def all(self) -> list[Container]:
        """Newest first, as docker lists them."""
        return sorted(self._containers.values(), key=lambda c: -c.created)

    def find(self, reference: str) -> Container:
        """By name, id or the beginning of an id."""
        wanted = reference.removeprefix("/")
        for c in self._containers.values():
            if wanted in (c.name, c.id):
                return c
        hits = [c for c in self._containers.values() if wanted and c.id.startswith(wanted)]
        if len(hits) == 1:
            return hits[0]
        raise DockerError(f"No such container: {reference}", 404)

    def create(self, spec: Spec) -> Container:
        """Raises DockerError: no such image, a name that is taken or not allowed, a mount's source that is missing."""
        image = self.images.find(spec.image)
        if image is None:
            raise DockerError(f"No such image: {self.images.normal(spec.image)}", 404)
        cid = secrets.token_hex(32)
        name = spec.name or f"quiet_{cid[:8]}"
        if not _NAME.match(name):
            raise DockerError(f"Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed", 400)
        for other in self._containers.values():
            if other.name == name:
                raise DockerError(
                    f'Conflict. The container name "/{name}" is already in use by container "{other.id}". '
                    "You have to remove (or rename) that container to be able to reuse that name.",
                    409,
                )
        entry = spec.entrypoint if spec.entrypoint is not None else image.entrypoint
        self._pid += 7
        env = image.env + spec.env
        container = Container(
            id=cid, name=name, spec=spec, image_id=image.id, command=tuple(entry) + tuple(spec.cmd), env=env,
            labels={**image.labels, **spec.labels}, pid=self._pid, created=time.time_ns(),
        )  # fmt: skip
        self._containers[cid] = container
        self._event(container, "create")
        return container

    def start(self, container: Container) -> None:
        if container.running:
            return
        container.program = self._launcher(container)
        container.status, container.started, container.finished = "running", time.time_ns(), 0
        container.ended.clear()
        container.logs.reopen()
        container.task = asyncio.create_task(self._run(container), name=f"container {container.name}")
        self._event(container, "start")

    async def _run(self, container: Container) -> None:
        assert container.program is not None
        code = 137  # a program that is cancelled was killed
        try:
            code = await container.program.run()
            while container.stubborn:  # hung in the kernel: it does not go by itself either
                await self.clock.sleep(5)
        except asyncio.CancelledError:
            pass  # `kill` cancels; the task ends here and nowhere else
        except Exception as e:  # noqa: BLE001 a fault of the lab itself must be visible in the container's log
            container.logs.text(f"lab: {type(e).__name__}: {e}", STDERR)
            code = 70
        container.exit_code, container.status, container.finished = code, "exited", time.time_ns()
        container.logs.close()
        container.ended.set()
        self._event(container, "die")
        if container.spec.auto_remove:
            self._containers.pop(container.id, None)
            self._event(container, "destroy")

    async def stop(self, container: Container, grace_s: float = 10.0) -> None:
        """SIGTERM, then SIGKILL after `grace_s` lab seconds."""
        if not container.running or container.program is None:
            return
        if not container.stubborn:
            container.program.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(container.ended.wait(), self.clock.wall(grace_s))
        if container.running:
            await self.kill(container, "KILL", verb="stop")

    async def kill(self, container: Container, signal: str = "KILL", *, verb: str = "kill") -> None:
        name = {str(v): k for k, v in SIGNALS.items()}.get(signal, signal.upper().removeprefix("SIG"))
        if name not in SIGNALS:
            raise DockerError(f"Invalid signal: {signal}", 400)
        if not container.running or container.program is None:
            raise DockerError(f"cannot kill container: {container.name}: container {container.id} is not running", 409)
        if container.stubborn:
            await self.clock.sleep(10)  # dockerd waits so long for the exit event before it says so
            raise DockerError(
                f"cannot {verb} container: {container.name}: tried to kill container, but did not receive an exit event"
            )
        if name == "KILL":
            if container.task is not None:
                container.task.cancel()
            await container.ended.wait()
        elif name in ("TERM", "INT", "QUIT"):
            container.program.terminate()

    async def remove(self, container: Container, *, force: bool = False) -> None:
        if container.running:
            if not force:
                raise DockerError(
                    f'cannot remove container "{container.name}": container is running: '
                    "stop the container before removing or force remove",
                    409,
                )
            if container.stubborn:
                await self.clock.sleep(10)
                raise DockerError(
                    f'cannot remove container "{container.name}": could not kill container: '
                    "tried to kill container, but did not receive an exit event"
                )
            await self.kill(container)
        if self._containers.pop(container.id, None) is not None:
            self._event(container, "destroy")

    def matching(self, filters: Mapping[str, list[str]], *, everything: bool) -> list[Container]:
        """`docker ps` filters: values of one key are alternatives, except labels, which all must hold."""
        everything = everything or "status" in filters or "exited" in filters
        return [c for c in self.all() if (everything or c.running) and _matches(c, filters)]

    def _event(self, c: Container, action: str) -> None:
        now = time.time_ns()
        attributes = {"image": c.spec.image, "name": c.name, **c.labels}
        if action == "die":
            attributes["exitCode"] = str(c.exit_code)
        event = {
            "status": action, "id": c.id, "from": c.spec.image, "Type": "container", "Action": action,
            "Actor": {"ID": c.id, "Attributes": attributes}, "scope": "local", "time": now // 10**9, "timeNano": now,
        }  # fmt: skip
        self.events.add(json.dumps(event).encode() + b"\n")

    async def close(self) -> None:
        tasks = [c.task for c in self._containers.values() if c.task is not None and not c.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.events.close()


def _matches(c: Container, filters: Mapping[str, list[str]]) -> bool:
    for key, values in filters.items():
        if key == "label":
            for wanted in values:
                name, sep, value = wanted.partition("=")
                if name not in c.labels or (sep and c.labels[name] != value):
                    return False
        elif key == "name":
            if not any(re.search(v, c.name) or re.search(v, "/" + c.name) for v in values):
                return False
        elif key == "id":
            if not any(c.id.startswith(v) for v in values):
                return False
        elif key == "status":
            if c.status not in values:
                return False
        elif key == "exited":
            if c.running or str(c.exit_code) not in values:
                return False
        elif key == "ancestor":
            if not any(v in (c.spec.image, c.image_id) for v in values):
                return False
        else:
            raise DockerError(f"invalid filter '{key}'", 400)
    return True
