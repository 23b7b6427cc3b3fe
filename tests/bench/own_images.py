"""An image of 130 MB to seven of eight hosts: the chain, one source to all, and the shell's loop."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
import time
from pathlib import Path

from tests.bench.ground import Ground
from tests.bench.measure import Measure, Unmeasurable
from tests.bench.own import nightdeck
from tests.testbed import image
from tests.testbed.host import Host

REFERENCE = "bench-image:local"
MB = 130


def _archive(folder: Path) -> Path:
    """Made once a bed: bytes that do not compress, in pieces, as weights and libraries are."""
    target = folder / "bench-image.tar"
    if not target.exists():
        layer = folder / "bench-layer.tar"
        with tarfile.open(layer, "w") as tar:
            for n in range(MB // 10):
                entry = tarfile.TarInfo(f"part{n}")
                entry.size = 10 << 20
                tar.addfile(entry, io.BytesIO(os.urandom(10 << 20)))
        image.pack(target, layer, REFERENCE, {"Entrypoint": ["vllm", "serve"]})
        layer.unlink()
    return target


async def on_one(ground: Ground) -> None:
    """The first host has the image, the others do not."""

    def prepare(host: Host) -> None:
        if host.index == 1:
            if not host.docker("images", "-q", REFERENCE).stdout.strip():
                host.load_image(_archive(ground.bed.folder))
        else:
            host.docker("rmi", "-f", REFERENCE, check=False)

    await asyncio.to_thread(_archive, ground.bed.folder)
    await asyncio.to_thread(ground.bed.each, prepare)


async def _everywhere(ground: Ground) -> None:
    said = await asyncio.to_thread(ground.bed.each, lambda host: host.docker("images", "-q", REFERENCE).stdout.strip())
    if not all(said):
        raise Unmeasurable(f"{said.count('')} hosts did not get the image")


async def _sync(ground: Ground, *flags: str) -> float:
    seconds, code, out, said = await nightdeck(ground, "image", "sync", REFERENCE, *flags)
    if code != 0:
        raise Unmeasurable(f"`nightdeck image sync` ended with {code}: {said.strip()[-120:]}")
    copied = [row for row in json.loads(out)["nodes"] if row["result"] == "copied"]
    if len(copied) != len(ground.bed) - 1:
        raise Unmeasurable(f"{len(copied)} copies")
    return seconds


async def chain(ground: Ground) -> float:
    return await _sync(ground)


async def through_console(ground: Ground) -> float:
    return await _sync(ground, "--through-console")


async def _copy(ground: Ground, rank: int) -> None:
    """docker save on the first host, through a pipe here, into docker load on another."""
    source, target = ground.bed.ssh(1, "docker", "save", REFERENCE), ground.bed.ssh(rank + 1, "docker", "load")
    target = [word for word in target if word != "-n"]
    read, write = os.pipe()
    try:
        sending = await asyncio.create_subprocess_exec(*source, stdout=write)
        loading = await asyncio.create_subprocess_exec(*target, stdin=read, stdout=asyncio.subprocess.DEVNULL)
    finally:
        os.close(read)
        os.close(write)
    if await sending.wait() or await loading.wait():
        raise Unmeasurable("docker save | ssh docker load failed")


async def shell_loop(ground: Ground) -> float:
    start = time.perf_counter()
    for rank in range(1, len(ground.bed)):
        await _copy(ground, rank)
    seconds = time.perf_counter() - start
    await _everywhere(ground)
    return seconds


async def one_to_all(ground: Ground) -> float:
    start = time.perf_counter()
    await asyncio.gather(*(_copy(ground, rank) for rank in range(1, len(ground.bed))))
    seconds = time.perf_counter() - start
    await _everywhere(ground)
    return seconds


async def cleared(ground: Ground) -> None:
    """The image stays on the first host: it is the same in all rounds."""


IMAGES = (
    Measure("shell: docker save | docker load, one after another", shell_loop, on_one, cleared, most=2, limit=True),
    Measure("shell: the same, one source to all at once", one_to_all, on_one, cleared, most=2),
    Measure("nightdeck image sync, node to node", chain, on_one, cleared, most=3),
    Measure("nightdeck image sync --through-console", through_console, on_one, cleared, most=3),
)
