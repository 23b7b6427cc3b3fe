"""The daemon's HTTP API on one node: what a launcher asks over the docker socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from console.lab.clock import parse_moment
from console.lab.containers import Container, DockerError, Spec
from console.lab.docker_views import API_VERSION, VERSION, ago, info
from console.lab.http import Reader, Request, Response, Writer, as_json, serve_http
from console.lab.logstore import Entry
from console.lab.world import LabNode

_PREFIX: Final = re.compile(r"\A/v1\.\d+")
_OF_CONTAINER: Final = re.compile(r"\A/containers/([^/]+)(?:/([a-z]+))?\Z")


class DockerHttp:
    """Serves a unix socket of the node's own, and channels that SSH opens to it."""

    def __init__(self, node: LabNode) -> None:
        self._node = node
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, path: Path) -> None:
        self._server = await asyncio.start_unix_server(self.serve, path)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def serve(self, reader: Reader, writer: Writer) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._node.engine.down:
            writer.close()
            return
        with contextlib.suppress(asyncio.CancelledError):
            await serve_http(reader, writer, self._handle, "@", f"Docker/{VERSION} (linux)")

    async def _handle(self, request: Request) -> Response:
        await self._node.moving.wait()
        try:
            return await self._route(request)
        except DockerError as e:
            return as_json({"message": e.message}, e.status)

    async def _route(self, request: Request) -> Response:
        engine = self._node.engine
        path = _PREFIX.sub("", request.path)
        if path == "/_ping":
            return Response(200, b"OK", "text/plain; charset=utf-8", {"Api-Version": API_VERSION, "Ostype": "linux"})
        if path == "/version":
            return as_json(
                {"Version": VERSION, "ApiVersion": API_VERSION, "MinAPIVersion": "1.24", "Os": "linux", "Arch": "arm64"}
            )
        if path == "/info":
            return as_json(info(engine, self._node.name))
        if path == "/events":
            return Response(200, self._events(request))
        if path == "/images/json":
            return as_json(
                [
                    {"Id": i.id, "RepoTags": [i.reference], "Size": i.size, "Labels": i.labels}
                    for i in engine.images.all()
                ]
            )
        if match := re.match(r"\A/images/(.+)/json\Z", path):
            image = engine.images.find(match[1])
            if image is None:
                raise DockerError(f"No such image: {engine.images.normal(match[1])}", 404)
            return as_json(image.inspect())
        if path == "/containers/json":
            return as_json([_summary(c) for c in engine.matching(_filters(request), everything=_true(request, "all"))])
        if path == "/containers/create" and request.method == "POST":
            container = engine.create(_spec(request.json(), request.query.get("name", "")))
            return as_json({"Id": container.id, "Warnings": []}, 201)
        if match := _OF_CONTAINER.match(path):
            return await self._container(request, engine.find(match[1]), match[2] or "")
        return as_json({"message": "page not found"}, 404)

    async def _container(self, request: Request, c: Container, verb: str) -> Response:
        engine = self._node.engine
        if request.method == "GET" and verb == "json":
            return as_json(c.inspect())
        if request.method == "GET" and verb == "logs":
            return Response(200, self._logs(request, c), "application/vnd.docker.multiplexed-stream")
        if request.method == "DELETE" and not verb:
            await engine.remove(c, force=_true(request, "force"))
        elif request.method != "POST":
            return as_json({"message": "page not found"}, 404)
        elif verb == "start":
            if c.running:
                return Response(304)
            engine.start(c)
        elif verb == "stop":
            if not c.running:
                return Response(304)
            await engine.stop(c, float(request.query.get("t", "10") or 10))
        elif verb == "kill":
            await engine.kill(c, request.query.get("signal", "KILL"))
        elif verb == "wait":
            if c.running:
                await c.ended.wait()
            return as_json({"StatusCode": c.exit_code})
        else:
            return as_json({"message": "page not found"}, 404)
        return Response(204)

    async def _events(self, request: Request) -> AsyncIterator[bytes]:
        since = parse_moment(request.query["since"], time.time_ns()) if request.query.get("since") else None
        filters = _filters(request)
        yield b" "  # so that the answer's head goes out before the first event
        async for entry in self._node.engine.events.follow(since, None if since is not None else 0):
            await self._node.moving.wait()
            if _wanted(json.loads(entry.data), filters):
                yield entry.data

    async def _logs(self, request: Request, c: Container) -> AsyncIterator[bytes]:
        query = request.query
        since = parse_moment(query["since"], time.time_ns()) if query.get("since", "0") not in ("", "0") else None
        tail = int(query["tail"]) if query.get("tail", "").isdigit() else None
        streams = {1} if not _true(request, "stderr") else {2} if not _true(request, "stdout") else {1, 2}
        stamped = _true(request, "timestamps")

        async def once() -> AsyncIterator[Entry]:
            for entry in c.logs.snapshot(since, None, tail):
                yield entry

        async for entry in c.logs.follow(since, tail) if _true(request, "follow") else once():
            await self._node.moving.wait()
            if entry.stream in streams:
                data = entry.stamped() if stamped else entry.data
                yield bytes([entry.stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def _true(request: Request, name: str) -> bool:
    return request.query.get(name, "").lower() in ("1", "true")


def _filters(request: Request) -> dict[str, list[str]]:
    """Docker's filters: JSON of lists, or of maps as older clients send it."""
    text = request.query.get("filters", "")
    if not text:
        return {}
    try:
        value = json.loads(text)
        return {str(k): [str(x) for x in v] for k, v in value.items()}
    except (ValueError, AttributeError, TypeError) as e:
        raise DockerError(f"invalid filter: {e}", 400) from e


def _wanted(event: dict[str, Any], filters: dict[str, list[str]]) -> bool:
    attributes = event["Actor"]["Attributes"]
    for key, values in filters.items():
        if key == "event" and event["Action"] not in values:
            return False
        if key == "type" and event["Type"] not in values:
            return False
        if key == "container" and not {event["id"], attributes.get("name")} & set(values):
            return False
        if key == "label":
            for wanted in values:
                name, sep, value = wanted.partition("=")
                if name not in attributes or (sep and attributes[name] != value):
                    return False
    return True


def _summary(c: Container) -> dict[str, Any]:
    status = {"created": "Created", "running": f"Up {ago(c.started)}"}.get(
        c.status, f"Exited ({c.exit_code}) {ago(c.finished)} ago"
    )
    return {
        "Id": c.id, "Names": ["/" + c.name], "Image": c.spec.image, "ImageID": c.image_id,
        "Command": " ".join(c.command),
        "Created": c.created // 1_000_000_000, "Ports": [], "Labels": dict(c.labels), "State": c.status,
        "Status": status,
        "HostConfig": {"NetworkMode": c.spec.host_config.get("NetworkMode", "default")}, "Mounts": [],
    }  # fmt: skip


def _words(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(str(x) for x in value or ())


def _spec(body: Any, name: str) -> Spec:
    if not isinstance(body, dict) or not body.get("Image"):
        raise DockerError("invalid JSON: no Image", 400)
    entry = body.get("Entrypoint")
    host = body.get("HostConfig") or {}
    for mount in host.get("Mounts") or []:
        if mount.get("Type") == "bind" and not Path(str(mount.get("Source"))).exists():
            raise DockerError(
                f'invalid mount config for type "bind": bind source path does not exist: {mount.get("Source")}', 400
            )
    return Spec(
        image=str(body["Image"]), name=name, cmd=_words(body.get("Cmd")),
        entrypoint=None if entry is None else _words(entry),
        labels={str(k): str(v) for k, v in (body.get("Labels") or {}).items()}, env=_words(body.get("Env")),
        host_config=host, auto_remove=bool(host.get("AutoRemove")), tty=bool(body.get("Tty")),
    )  # fmt: skip
