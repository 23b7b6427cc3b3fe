"""A console in this process on the bed, that can be opened again, and the ways in which its connections are lost."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from console.assemble import DiskWorld
from console.boot.state import Phase
from console.cli.parser import build_parser
from console.files.archive import log_files, read_log
from console.services.hub import HubApi, Snapshot
from tests.testbed.bed import Bed
from tests.testbed.host import Host

RECIPE = "dsv41-flash-8x"


class Deck:
    """One console after another over one state folder; `hub` is the one that is open."""

    def __init__(self, cluster: Path) -> None:
        self._cluster = cluster
        self._over = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self.hub: HubApi = None  # type: ignore[assignment]  # open() makes it

    async def open(self) -> HubApi:
        """One task opens it and closes it, whoever asks: that is how a console lives."""
        self._over = asyncio.Event()
        opened: asyncio.Future[HubApi] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(opened, self._over))
        await asyncio.wait((opened, self._life), return_when=asyncio.FIRST_COMPLETED)
        if self._life.done():
            await self._life
        self.hub = opened.result()
        return self.hub

    async def _live(self, opened: asyncio.Future[HubApi], over: asyncio.Event) -> None:
        args: argparse.Namespace = build_parser().parse_args(["--cluster", str(self._cluster), "status"])
        async with DiskWorld(args).hub() as hub:
            opened.set_result(hub)
            await over.wait()

    async def close(self) -> None:
        self._over.set()
        if self._life is not None:
            await self._life
        self._life = None

    async def until(self, wanted: Callable[[Snapshot], bool], what: str, seconds: float = 60) -> Snapshot:
        changed = asyncio.Event()
        quiet = self.hub.subscribe(changed.set)
        try:
            async with asyncio.timeout(seconds):
                while not wanted(self.hub.snapshot()):
                    await changed.wait()
                    changed.clear()
            return self.hub.snapshot()
        except TimeoutError:
            boot = self.hub.snapshot().boot
            raise AssertionError(f"no {what} in {seconds:g} s; phase {boot.phase if boot else None}") from None
        finally:
            quiet()

    async def serving(self) -> None:
        await self.open()
        await self.hub.settled(timeout=60)
        await self.hub.launch(RECIPE)
        await self.until(lambda s: s.boot is not None and s.boot.phase is Phase.READY, "ready")

    def forget_logs(self) -> None:
        """As a console that never read them."""
        for file in Path(os.environ["XDG_STATE_HOME"]).glob("nightdeck/boots/*/rank*.log"):
            file.unlink()

    def followed(self) -> dict[int, list[bytes]]:
        """What the journal holds of each rank's log: what was followed, by whichever console."""
        (folder,) = (p for p in Path(os.environ["XDG_STATE_HOME"]).glob("nightdeck/boots/*") if p.is_dir())
        out = {}
        for rank, file in log_files(folder).items():
            out[rank] = b"".join(read_log(file)).split(b"\n")[:-1]
        return out


def log_file(host: Host) -> Path:
    """The file in which the container engine of a host keeps its one container's log, as seen from here."""
    (name,) = host.containers()
    return host.root / host.docker("inspect", "--format", "{{.LogPath}}", name).stdout.strip().lstrip("/")


def written(host: Host) -> list[bytes]:
    """What the container engine of a host holds of its one container's log, as it prints it."""
    out = b""
    for row in log_file(host).read_text().splitlines():
        entry = json.loads(row)
        second, _, fraction = entry["time"].rstrip("Z").partition(".")
        out += f"{second}.{fraction:0<9}Z {entry['log']}".encode()
    return out.split(b"\n")[:-1]


async def end_sessions(host: Host, rng: random.Random) -> None:
    """Kill what serves the open connections; the listener lives on."""
    for pid in host.pids("sshd")[1:]:
        os.kill(pid, signal.SIGKILL)


async def end_readers(host: Host, rng: random.Random) -> None:
    """Kill the processes that read the log, and leave the connection."""
    host.signal("docker", signal.SIGKILL)


async def lose_packets(host: Host, rng: random.Random) -> None:
    host.loss(rng.choice((40, 100)))
    await asyncio.sleep(rng.uniform(0.2, 0.8))
    host.loss(0)


async def pull_cable(host: Host, rng: random.Random) -> None:
    host.cut()
    await asyncio.sleep(rng.uniform(0.2, 0.8))
    host.heal()


async def pull_cable_for_long(host: Host, rng: random.Random) -> None:
    """Longer than keepalives wait: the connection is given up."""
    host.cut()
    await asyncio.sleep(rng.uniform(18.0, 24.0))
    host.heal()


Cut = Callable[[Host, random.Random], Awaitable[None]]
QUICK: tuple[Cut, ...] = (end_sessions, end_readers, lose_packets, pull_cable)


async def cut_some(bed: Bed, rng: random.Random, kinds: tuple[Cut, ...]) -> None:
    """One fault on one, two or all hosts at once."""
    cut = rng.choice(kinds)
    hosts = rng.sample(bed.hosts, rng.choice((1, 2, len(bed.hosts))))
    await asyncio.gather(*(cut(host, rng) for host in hosts))
