"""`docker` on a lab node: the subcommands that a launcher and a person at 3 a.m. use."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from console.lab import docker_run
from console.lab.clock import parse_moment
from console.lab.containers import Container, ContainerEngine, DockerError
from console.lab.docker_options import Options
from console.lab.docker_run import BadFlag
from console.lab.docker_views import API_VERSION, VERSION, image_row, info, ps_row, ps_table, table
from console.lab.gotemplate import TemplateError, render
from console.lab.images import loaded, saved
from console.lab.logstore import STDERR, Entry
from console.lab.shim import Call

_DOWN: Final = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"


class DockerCli:
    """One node's `docker`."""

    def __init__(self, engine: ContainerEngine, node: str) -> None:
        self._engine = engine
        self._node = node
        self._commands: dict[str, Callable[[Call, list[str]], Awaitable[int]]] = {
            "run": self._run, "create": self._create, "start": self._start, "ps": self._ps, "inspect": self._inspect,
            "logs": self._logs, "stop": self._stop, "kill": self._kill, "rm": self._rm, "wait": self._wait,
            "images": self._images, "image": self._image, "container": self._container, "info": self._info,
            "version": self._version, "save": self._save, "load": self._load, "events": self._events,
            "pull": self._pull, "rmi": self._rmi,
        }  # fmt: skip

    async def __call__(self, call: Call) -> int:
        args = list(call.args)
        while args and args[0].startswith("-"):  # global flags: -H, --host, --context, --config take a word
            flag = args.pop(0)
            if flag in ("-v", "--version"):
                await call.out(f"Docker version {VERSION}, build 1e9d3b2\n")
                return 0
            if flag in ("-H", "--host", "-c", "--context", "--config", "-l", "--log-level") and args:
                args.pop(0)
        if not args:
            await call.out("Usage:  docker [OPTIONS] COMMAND\n")
            return 0
        command = self._commands.get(args[0])
        if command is None:
            await call.err(f"docker: unknown command: docker {args[0]}\n\nRun 'docker --help' for more information\n")
            return 1
        if self._engine.down and args[0] != "version":
            await call.err(("docker: " if args[0] == "run" else "") + _DOWN)
            return 125 if args[0] == "run" else 1
        try:
            return await command(call, args[1:])
        except BadFlag as e:
            prefix = "docker: " if args[0] == "run" else ""
            await call.err(f"{prefix}{e}\n\nRun 'docker {args[0]} --help' for more information\n")
            return 125
        except TemplateError as e:
            await call.err(f"{e}\n")
            return 64 if str(e).startswith("template parsing") else 1
        except DockerError as e:
            await call.err(f"Error response from daemon: {e.message}\n")
            return 1

    async def _made(self, call: Call, args: list[str]) -> tuple[docker_run.RunCommand, Container] | int:
        command = docker_run.parse(args)
        try:
            spec = docker_run.spec(command)
            if self._engine.images.find(spec.image) is None and command.last("pull", "missing") != "never":
                await call.err(f"Unable to find image '{self._engine.images.normal(spec.image)}' locally\n")
                name = spec.image.split(":")[0]
                raise DockerError(
                    f"pull access denied for {name}, repository does not exist or may require 'docker login': "
                    "denied: requested access to the resource is denied",
                    404,
                )
            return command, self._engine.create(spec)
        except DockerError as e:
            await call.err(f"docker: Error response from daemon: {e.message}{docker_run.HELP}")
            return 125

    async def _run(self, call: Call, args: list[str]) -> int:
        made = await self._made(call, args)
        if isinstance(made, int):
            return made
        command, container = made
        self._engine.start(container)
        if command.on("detach"):
            await call.out(container.id + "\n")
            return 0
        async for entry in container.logs.follow():
            await _print(call, entry, stamped=False)
        return container.exit_code

    async def _create(self, call: Call, args: list[str]) -> int:
        made = await self._made(call, args)
        if isinstance(made, int):
            return made
        await call.out(made[1].id + "\n")
        return 0

    async def _each(self, call: Call, names: list[str], act: Callable[[Container], Awaitable[None]]) -> int:
        """One action on several containers at once; what fails is said and the others go on, as docker does it."""

        async def one(name: str) -> str | DockerError:
            try:
                await act(self._engine.find(name))
            except DockerError as e:
                return e
            return name

        status = 0
        for result in await asyncio.gather(*(one(n) for n in names)):
            if isinstance(result, DockerError):
                status = 1
                await call.err(f"Error response from daemon: {result.message}\n")
            else:
                await call.out(result + "\n")
        return status

    async def _start(self, call: Call, args: list[str]) -> int:
        async def act(c: Container) -> None:
            self._engine.start(c)

        return await self._each(call, Options(args).rest, act)

    async def _stop(self, call: Call, args: list[str]) -> int:
        o = Options(args, "time timeout signal", "", {"t": "time", "s": "signal"})
        grace = float(o.last("time") or o.last("timeout") or 10)
        return await self._each(call, o.rest, lambda c: self._engine.stop(c, grace if grace >= 0 else 1e9))

    async def _kill(self, call: Call, args: list[str]) -> int:
        o = Options(args, "signal", "", {"s": "signal"})
        return await self._each(call, o.rest, lambda c: self._engine.kill(c, o.last("signal", "KILL")))

    async def _rm(self, call: Call, args: list[str]) -> int:
        o = Options(args, "", "force volumes link", {"f": "force", "v": "volumes"})
        if "force" in o.on:  # docker: a container that is not there is no fault of `rm -f`, but it says so
            status = 0
            for name in list(o.rest):
                try:
                    self._engine.find(name)
                except DockerError as e:
                    await call.err(f"Error response from daemon: {e.message}\n")
                    o.rest.remove(name)
            return await self._each(call, o.rest, lambda c: self._engine.remove(c, force=True)) or status
        return await self._each(call, o.rest, self._engine.remove)

    async def _wait(self, call: Call, args: list[str]) -> int:
        for name in Options(args).rest:
            container = self._engine.find(name)
            if container.status == "running":
                await container.ended.wait()
            await call.out(f"{container.exit_code}\n")
        return 0

    async def _ps(self, call: Call, args: list[str]) -> int:
        o = Options(
            args,
            "filter format last",
            "all quiet no-trunc latest size",
            {"a": "all", "q": "quiet", "f": "filter", "l": "latest", "n": "last"},
        )
        found = self._engine.matching(o.filters(), everything=bool(o.on & {"all", "latest"}))
        whole = "no-trunc" in o.on
        if "latest" in o.on:
            found = found[:1]
        if "quiet" in o.on:
            await call.out("".join((c.id if whole else c.id[:12]) + "\n" for c in found))
            return 0
        await call.out(ps_table([ps_row(c, whole) for c in found], o.last("format")))
        return 0

    async def _inspect(self, call: Call, args: list[str]) -> int:
        o = Options(args, "format type", "size", {"f": "format", "s": "size"})
        values: list[dict[str, Any]] = []
        missing: list[str] = []
        for name in o.rest:
            try:
                values.append(self._engine.find(name).inspect() if o.last("type") != "image" else self._image_of(name))
            except DockerError:
                image = self._engine.images.find(name) if not o.last("type") else None
                if image is None:
                    missing.append(name)
                else:
                    values.append(image.inspect())
        return await self._show(call, o, values, [f"Error: No such {o.last('type', 'object')}: {m}" for m in missing])

    def _image_of(self, name: str) -> dict[str, Any]:
        image = self._engine.images.find(name)
        if image is None:
            raise DockerError(f"No such image: {self._engine.images.normal(name)}", 404)
        return image.inspect()

    async def _show(self, call: Call, o: Options, values: list[dict[str, Any]], errors: list[str]) -> int:
        template = o.last("format")
        if template and template != "json":
            await call.out("".join(render(template, v) + "\n" for v in values))
        elif template == "json":
            await call.out("".join(json.dumps(v) + "\n" for v in values))
        else:
            await call.out(json.dumps(values, indent=4) + "\n")
        for error in errors:
            await call.err(error + "\n")
        return 1 if errors else 0

    async def _logs(self, call: Call, args: list[str]) -> int:
        o = Options(
            args, "since until tail", "follow timestamps details", {"f": "follow", "t": "timestamps", "n": "tail"}
        )
        if len(o.rest) != 1:
            raise BadFlag("'docker logs' requires 1 argument")
        container = self._engine.find(o.rest[0])
        now = time.time_ns()
        since = parse_moment(o.last("since"), now) if o.last("since") else None
        until = parse_moment(o.last("until"), now) if o.last("until") else None
        tail = int(o.last("tail")) if o.last("tail").isdigit() else None
        stamped = "timestamps" in o.on

        async def once() -> AsyncIterator[Entry]:
            for entry in container.logs.snapshot(since, until, tail):
                yield entry

        async for entry in container.logs.follow(since, tail) if "follow" in o.on else once():
            await _print(call, entry, stamped=stamped)
        return 0

    async def _events(self, call: Call, args: list[str]) -> int:
        o = Options(args, "filter format since until", "", {"f": "filter"})
        since = parse_moment(o.last("since"), time.time_ns()) if o.last("since") else None
        async for entry in self._engine.events.follow(since, None if since is not None else 0):
            template = o.last("format")
            plain = template in ("", "json", "{{json .}}")
            await call.out(entry.data if plain else render(template, json.loads(entry.data)) + "\n")
        return 0

    async def _images(self, call: Call, args: list[str]) -> int:
        o = Options(args, "filter format", "all quiet no-trunc digests", {"a": "all", "q": "quiet", "f": "filter"})
        whole = "no-trunc" in o.on
        rows = [
            image_row(i, whole) for i in self._engine.images.all() if not o.rest or i.reference.startswith(o.rest[0])
        ]
        if "quiet" in o.on:
            await call.out("".join(r["ID"] + "\n" for r in rows))
        elif o.last("format"):
            template = "{{json .}}" if o.last("format") == "json" else o.last("format")
            await call.out("".join(render(template, r) + "\n" for r in rows))
        else:
            await call.out(
                table(
                    ["Repository", "Tag", "ID", "CreatedSince", "Size"],
                    rows,
                    {"ID": "IMAGE ID", "CreatedSince": "CREATED"},
                )
            )
        return 0

    async def _image(self, call: Call, args: list[str]) -> int:
        sub, rest = (args[0], args[1:]) if args else ("ls", [])
        if sub == "inspect":
            o = Options(rest, "format", "", {"f": "format"})
            found = {self._engine.images.normal(n): self._engine.images.find(n) for n in o.rest}
            return await self._show(
                call, o, [i.inspect() for i in found.values() if i],
                [f"Error response from daemon: No such image: {n}" for n, i in found.items() if not i],
            )  # fmt: skip
        commands = {
            "ls": self._images,
            "list": self._images,
            "save": self._save,
            "load": self._load,
            "rm": self._rmi,
            "pull": self._pull,
        }
        if sub not in commands:
            raise BadFlag(f"unknown command: docker image {sub}")
        return await commands[sub](call, rest)

    async def _container(self, call: Call, args: list[str]) -> int:
        sub = {"ls": "ps", "list": "ps"}.get(args[0], args[0]) if args else "ps"
        if sub not in self._commands or sub in ("image", "images", "container", "info", "version"):
            raise BadFlag(f"unknown command: docker container {sub}")
        return await self._commands[sub](call, args[1:])

    async def _info(self, call: Call, args: list[str]) -> int:
        o = Options(args, "format", "", {"f": "format"})
        value = info(self._engine, self._node)
        template = o.last("format")
        text = (
            render("{{json .}}" if template == "json" else template, value)
            if template
            else "\n".join(f" {k}: {v}" for k, v in value.items())
        )
        await call.out(text + "\n")
        return 0

    async def _version(self, call: Call, args: list[str]) -> int:
        o = Options(args, "format", "", {"f": "format"})
        value: dict[str, Any] = {
            "Client": {"Version": VERSION, "ApiVersion": API_VERSION, "Os": "linux", "Arch": "arm64"}
        }
        if not self._engine.down:
            value["Server"] = {"Version": VERSION, "ApiVersion": API_VERSION, "Os": "linux", "Arch": "arm64"}
        template = o.last("format") or "Client: {{.Client.Version}}"
        await call.out(render("{{json .}}" if template == "json" else template, value) + "\n")
        if self._engine.down:
            await call.err(_DOWN)
            return 1
        return 0

    async def _save(self, call: Call, args: list[str]) -> int:
        o = Options(args, "output platform", "", {"o": "output"})
        images = [self._engine.images.find(n) for n in o.rest]
        for name, image in zip(o.rest, images, strict=True):
            if image is None:
                raise DockerError(f"reference does not exist: {name}", 404)
        data = await asyncio.to_thread(saved, [i for i in images if i])
        for start in range(0, len(data), 1 << 16):
            await call.out(data[start : start + (1 << 16)])
        return 0

    async def _load(self, call: Call, args: list[str]) -> int:
        Options(args, "input platform", "quiet", {"i": "input", "q": "quiet"})
        data = bytearray()
        while block := await call.read():
            data += block
        try:
            references = await asyncio.to_thread(loaded, bytes(data))
        except ValueError as e:
            await call.err(f"{e}\n")
            return 1
        for reference in references:
            self._engine.images.add(reference)
            await call.out(f"Loaded image: {reference}\n")
        return 0

    async def _pull(self, call: Call, args: list[str]) -> int:
        for name in Options(args, "platform", "quiet all-tags", {"q": "quiet", "a": "all-tags"}).rest:
            if self._engine.images.find(name) is None:
                known = name.split(":")[0]
                raise DockerError(
                    f"pull access denied for {known}, repository does not exist or may require 'docker login'", 404
                )
            await call.out(f"Status: Image is up to date for {self._engine.images.normal(name)}\n")
        return 0

    async def _rmi(self, call: Call, args: list[str]) -> int:
        status = 0
        for name in Options(args, "", "force no-prune", {"f": "force"}).rest:
            if self._engine.images.remove(name):
                await call.out(f"Untagged: {self._engine.images.normal(name)}\n")
            else:
                status = 1
                await call.err(f"Error response from daemon: No such image: {self._engine.images.normal(name)}\n")
        return status


async def _print(call: Call, entry: Entry, *, stamped: bool) -> None:
    data = entry.stamped() if stamped else entry.data
    await (call.err(data) if entry.stream == STDERR else call.out(data))
