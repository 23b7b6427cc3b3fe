"""The limits: the same work with nothing around it, over raw connections and over plain ssh."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Sequence

import asyncssh

from tests.bench.ground import CENSUS, Ground
from tests.bench.measure import Measure

SOCKET = "/run/docker.sock"


async def bare(connection: asyncssh.SSHClientConnection, argv: Sequence[str]) -> str:
    done = await connection.run(shlex.join(argv), check=True, encoding="utf-8")
    return str(done.stdout)


async def _ssh(ground: Ground, rank: int, command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *ground.bed.ssh(rank + 1, command), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"ssh {ground.names[rank]} {command}: {said.decode(errors='replace')}")


async def connect(ground: Ground) -> float:
    start = time.perf_counter()
    await ground.open()
    return time.perf_counter() - start


async def true_on_all(ground: Ground) -> float:
    async def work(rank: int) -> None:
        await bare(ground.connections[rank], ["true"])

    start = time.perf_counter()
    await ground.on_all(work)
    return time.perf_counter() - start


async def census(ground: Ground) -> float:
    async def work(rank: int) -> None:
        await bare(ground.connections[rank], CENSUS)

    start = time.perf_counter()
    await ground.on_all(work)
    return time.perf_counter() - start


async def run_on_all(ground: Ground) -> float:
    async def work(rank: int) -> None:
        await bare(ground.connections[rank], ground.run_argv(rank))

    start = time.perf_counter()
    await ground.on_all(work)
    return time.perf_counter() - start


async def run_workers_then_head(ground: Ground) -> float:
    start = time.perf_counter()
    workers = range(1, len(ground.connections))
    await asyncio.gather(*(bare(ground.connections[rank], ground.run_argv(rank)) for rank in workers))
    await bare(ground.connections[0], ground.run_argv(0))
    return time.perf_counter() - start


async def connect_and_run(ground: Ground) -> float:
    start = time.perf_counter()
    await ground.open()
    await run_on_all(ground)
    return time.perf_counter() - start


async def socket_run_on_all(ground: Ground) -> float:
    """Create and start through the container engine's socket, as a channel of the open connection."""

    async def work(rank: int) -> None:
        body = {
            "Image": "dsv41-flash:local",
            "Cmd": ground.engine(rank),
            "Env": ["STUB_ALONE=1"],
            "Labels": {"nightdeck.bench": "1"},
            "HostConfig": {"NetworkMode": "host", "IpcMode": "host"},
        }
        name = ground.container(rank)
        await _request(ground.connections[rank], "POST", f"/containers/create?name={name}", json.dumps(body).encode())
        await _request(ground.connections[rank], "POST", f"/containers/{name}/start")

    start = time.perf_counter()
    await ground.on_all(work)
    return time.perf_counter() - start


async def _request(connection: asyncssh.SSHClientConnection, method: str, path: str, body: bytes = b"") -> None:
    reader, writer = await connection.open_unix_connection(SOCKET)
    head = f"{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    if not answer.startswith((b"HTTP/1.0 2", b"HTTP/1.1 2")):
        raise RuntimeError(f"{method} {path}: {answer[:300].decode(errors='replace')}")


async def shell_run_one_by_one(ground: Ground) -> float:
    start = time.perf_counter()
    for rank in range(len(ground.bed)):
        await _ssh(ground, rank, shlex.join(ground.run_argv(rank)))
    return time.perf_counter() - start


async def shell_run_together(ground: Ground) -> float:
    start = time.perf_counter()
    await ground.on_all(lambda rank: _ssh(ground, rank, shlex.join(ground.run_argv(rank))))
    return time.perf_counter() - start


def _remove_and_count(ground: Ground, rank: int) -> str:
    return f"{shlex.join(['docker', 'rm', '-f', ground.container(rank)])} && {shlex.join(CENSUS)}"


async def remove_and_census(ground: Ground) -> float:
    async def work(rank: int) -> None:
        said = await ground.connections[rank].run(_remove_and_count(ground, rank), check=True, encoding="utf-8")
        if str(said.stdout).split() != [ground.container(rank)]:
            raise RuntimeError(f"{ground.names[rank]}: left over: {said.stdout!r}")

    start = time.perf_counter()
    await ground.on_all(work)
    return time.perf_counter() - start


async def stop_remove_and_census(ground: Ground) -> float:
    """As an engine wants to be ended: asked to, the head first."""

    async def end(rank: int) -> None:
        await bare(ground.connections[rank], ["docker", "stop", "-t", "30", ground.container(rank)])

    start = time.perf_counter()
    await end(0)
    await asyncio.gather(*(end(rank) for rank in range(1, len(ground.connections))))
    await remove_and_census(ground)
    return time.perf_counter() - start


async def connect_remove_and_census(ground: Ground) -> float:
    start = time.perf_counter()
    await ground.open()
    await remove_and_census(ground)
    return time.perf_counter() - start


async def shell_remove_one_by_one(ground: Ground) -> float:
    start = time.perf_counter()
    for rank in range(len(ground.bed)):
        await _ssh(ground, rank, _remove_and_count(ground, rank))
    return time.perf_counter() - start


async def shell_remove_together(ground: Ground) -> float:
    start = time.perf_counter()
    await ground.on_all(lambda rank: _ssh(ground, rank, _remove_and_count(ground, rank)))
    return time.perf_counter() - start


# ---- before and after


async def opened(ground: Ground) -> None:
    await ground.open()


async def closed(ground: Ground) -> None:
    await ground.close()


async def cleared(ground: Ground) -> None:
    await ground.close()
    await ground.clear()


async def running(ground: Ground) -> None:
    """Eight containers up, connections open."""
    await ground.open()
    await run_on_all(ground)


async def running_cold(ground: Ground) -> None:
    await running(ground)
    await ground.close()


BASE = (
    Measure("connect to eight hosts", connect, after=closed),
    Measure("`true` on eight open connections", true_on_all, opened, closed),
    Measure("census on eight open connections", census, opened, closed),
)
LAUNCH = (
    Measure("limit, connections open: workers, then the head", run_workers_then_head, opened, cleared, limit=True),
    Measure("docker run on all at once", run_on_all, opened, cleared),
    Measure("limit, cold: connect and run", connect_and_run, after=cleared),
    Measure("the engine's socket over SSH: create, start", socket_run_on_all, opened, cleared),
    Measure("shell: eight ssh in the background", shell_run_together, after=cleared),
    Measure("shell: one ssh after another", shell_run_one_by_one, after=cleared, most=3),
)
STOP = (
    Measure("limit, connections open: rm -f and census", remove_and_census, running, cleared, limit=True),
    Measure("stop the head, then the workers, rm and census", stop_remove_and_census, running, cleared),
    Measure("limit, cold: connect, rm -f and census", connect_remove_and_census, running_cold, cleared),
    Measure("shell: eight ssh in the background", shell_remove_together, running_cold, cleared),
    Measure("shell: one ssh after another", shell_remove_one_by_one, running_cold, cleared, most=3),
)
