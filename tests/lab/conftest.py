"""Labs in the process, fast enough for a boot to take a second, and clients that read only what the lab wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from console.lab.lab import Lab, LabConfig

FAST = 400.0
MODEL = "deepseek-ai/DeepSeek-V4.1-Flash"


class Bench:
    """A lab and one open connection a node."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.connections: dict[str, asyncssh.SSHClientConnection] = {}

    async def connect(self, node: str, **options: Any) -> asyncssh.SSHClientConnection:
        folder = self.lab.folder
        return await asyncssh.connect(
            node, config=[str(folder / "ssh_config")], known_hosts=str(folder / "known_hosts"), **options
        )

    async def on(self, node: str) -> asyncssh.SSHClientConnection:
        if node not in self.connections:
            self.connections[node] = await self.connect(node)
        return self.connections[node]

    async def run(self, node: str, command: str, **options: Any) -> asyncssh.SSHCompletedProcess:
        return await (await self.on(node)).run(command, **options)

    async def launch(
        self, *, world: int = 8, extra: str = "", flags: str = "", label: str = "t1", ranks: Sequence[int] = ()
    ) -> list[asyncssh.SSHCompletedProcess]:
        """`docker run` of every rank (or of `ranks`), workers and head at once, as a launcher would."""

        async def rank(number: int) -> asyncssh.SSHCompletedProcess:
            role = "--host 0.0.0.0 --port 8000" if number == 0 else "--headless"
            return await self.run(
                f"dgx{number + 1}",
                f"docker run -d --name {label}-r{number} --label nightdeck.rank={number} "
                f"--label nightdeck.deployment={label} "
                f"--pull never --gpus all --network host --ipc host {flags} dsv41-flash:local {MODEL} "
                f"--served-model-name deepseek-v4-flash --gpu-memory-utilization 0.91 --max-model-len 524288 "
                f"--tensor-parallel-size {world} --nnodes {world} --node-rank {number} --master-addr 10.99.0.1 "
                f"--master-port 29501 --speculative-config '{{\"num_speculative_tokens\":5}}' {role} {extra}",
            )

        return list(await asyncio.gather(*(rank(n) for n in ranks or range(world))))

    async def until(self, node: str, container: str, wanted: bytes, since: str = "") -> list[bytes]:
        """Follow a container's log until a line has `wanted`; the lines so far."""
        option = f"--since {since}" if since else ""
        process = await (await self.on(node)).create_process(
            f"docker logs -f -t {option} {container} 2>&1", encoding=None
        )
        lines: list[bytes] = []
        async with process, asyncio.timeout(30):
            async for line in process.stdout:
                lines.append(line)
                if wanted in line:
                    return lines
        raise AssertionError(f"{container} ended without {wanted!r}: " + b"".join(lines[-12:]).decode(errors="replace"))

    async def ready(self) -> None:
        await self.until("dgx1", "t1-r0", b"Application startup complete.")

    async def ask(self, path: str, body: bytes = b"", node: str = "dgx1", host: str = "127.0.0.1") -> bytes:
        reader, writer = await (await self.on(node)).open_connection(host, 8000, encoding=None)
        method = b"POST" if body else b"GET"
        writer.write(
            method + b" " + path.encode() + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body
        )
        data: bytes = await reader.read()
        writer.close()
        return data


Make = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Bench] = []

    async def make(scenario: str = "healthy", nodes: int = 8, speed: float = FAST) -> Bench:
        lab = Lab(LabConfig(tmp_path / "lab", nodes=nodes, speed=speed, scenario=scenario))
        await lab.start()
        made.append(Bench(lab))
        return made[-1]

    yield make
    for one in made:
        for connection in one.connections.values():
            connection.abort()
        await one.lab.close()
