"""What every measure stands on: the bed, open connections to its hosts, and the commands of one launch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import asyncssh

from tests.testbed import image
from tests.testbed.bed import Bed
from tests.testbed.host import Host

LABEL = "nightdeck.bench=1"
CENSUS = ("docker", "ps", "-a", "--no-trunc", "--filter", f"label={LABEL}", "--format", "{{.ID}} {{.Names}} {{.State}}")


@dataclass(slots=True)
class Ground:
    """One bed and the raw connections to it. `names[i]` is what ssh calls host i (from 0).

    overrides: options that nightdeck needs to launch on such small hosts, once they are known.
    """

    bed: Bed
    connections: list[asyncssh.SSHClientConnection] = field(default_factory=list)
    overrides: list[str] | None = None

    @property
    def names(self) -> list[str]:
        return [host.name for host in self.bed.hosts]

    async def connect(self, name: str) -> asyncssh.SSHClientConnection:
        return await asyncssh.connect(name, config=[str(self.bed.ssh_config)], agent_path=None)

    async def open(self) -> None:
        self.connections = list(await asyncio.gather(*(self.connect(name) for name in self.names)))

    async def close(self) -> None:
        for connection in self.connections:
            connection.close()
        await asyncio.gather(*(connection.wait_closed() for connection in self.connections))
        self.connections = []

    async def on_all(self, work: Callable[[int], Awaitable[None]]) -> None:
        await asyncio.gather(*(work(rank) for rank in range(len(self.bed))))

    def container(self, rank: int) -> str:
        return f"bench-r{rank}"

    def engine(self, rank: int) -> list[str]:
        """What the engine gets: a boot of 0 s that waits for nobody, so every figure is the launcher's own."""
        ranks = len(self.bed)
        argv = ["org/model", "--served-model-name", "night", "--port", "8000", "--nnodes", str(ranks)]
        argv += ["--node-rank", str(rank), "--master-addr", self.bed[1].address, "--tensor-parallel-size", str(ranks)]
        return [*argv, *(["--headless"] if rank else [])]

    def run_argv(self, rank: int) -> list[str]:
        flags = ["-d", "--pull", "never", "--name", self.container(rank), "--network", "host", "--ipc", "host"]
        flags += ["--gpus", "all", "--label", LABEL, "-e", "STUB_ALONE=1"]
        return ["docker", "run", *flags, image.REFERENCE, *self.engine(rank)]

    async def clear(self) -> None:
        """No container left anywhere; not part of any measure."""
        await asyncio.to_thread(self.bed.each, _remove)


def _remove(host: Host) -> None:
    if names := host.containers():
        host.docker("rm", "-f", *names)
