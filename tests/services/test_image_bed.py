"""Images between real container engines, over real SSH and links: a fault in the middle costs only its node."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import signal
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from console.assemble import SystemClock
from console.base.absent import Absent
from console.cluster.model import Cluster
from console.files.clusters import load_cluster
from console.plan.help_flags import unknown
from console.plan.preflight_load import Loaded, load_findings
from console.services.engine_help import HELP_WORDS, known_flags
from console.services.gpu_load import load_gpus
from console.services.image_sync import NodeImage, sync_image
from console.transport.base import Fleet
from console.transport.pool import make_fleet
from tests.testbed import image
from tests.testbed.bed import Bed
from tests.testbed.host import Host

pytestmark = [pytest.mark.bed, pytest.mark.xdist_group("bed")]
REFERENCE = "big:local"


def layer(name: str, mb: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = mb << 20
        tar.addfile(entry, io.BytesIO(os.urandom(mb << 20)))
    return out.getvalue()


def pack(target: Path, reference: str, layers: Sequence[bytes], *, user: str = "") -> Path:
    """An archive as docker writes it since version 25: layers under the digest of their content."""
    digests = [hashlib.sha256(data).hexdigest() for data in layers]
    config = json.dumps(
        {
            "architecture": "arm64" if os.uname().machine == "aarch64" else "amd64",
            "os": "linux",
            "created": "2026-09-18T00:00:00Z",
            "config": {"Entrypoint": ["vllm", "serve"], "User": user},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{d}" for d in digests]},
            "history": [{"created": "2026-09-18T00:00:00Z"} for _ in digests],
        }
    ).encode()
    image = hashlib.sha256(config).hexdigest()
    parts = {f"blobs/sha256/{d}": data for d, data in zip(digests, layers, strict=True)}
    manifest = [{"Config": f"blobs/sha256/{image}", "RepoTags": [reference], "Layers": list(parts)}]
    parts[f"blobs/sha256/{image}"] = config
    parts["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return target


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(tmp_path_factory.mktemp("image") / "big.tar", REFERENCE, [layer("a", 24), layer("b", 8)])


@contextmanager
def instead(host: Host, script: str) -> Iterator[None]:
    """The host's `docker` does this first."""
    text = f'#!/bin/sh\n{script}\nexec /usr/bin/docker "$@"\n'
    host.exec("sh", "-c", "cat >/usr/local/bin/docker; chmod 755 /usr/local/bin/docker", text=text)
    try:
        yield
    finally:
        host.exec("rm", "/usr/local/bin/docker")


class World:
    """Four hosts without the image, but for those that were given it."""

    def __init__(self, bed: Bed, cluster: Cluster, fleet: Fleet) -> None:
        self.bed, self.cluster, self.fleet = bed, cluster, fleet
        self.told: list[NodeImage] = []

    async def give(self, archive: Path, *indices: int) -> None:
        for index in indices:
            await asyncio.to_thread(self.bed[index].load_image, archive)

    async def sync(self, *, when: Callable[[NodeImage], None] = lambda _row: None, **rest: object) -> dict[str, str]:
        def told(row: NodeImage) -> None:
            self.told.append(row)
            when(row)

        names = [host.name for host in self.bed.hosts]
        clock = SystemClock()
        done = await sync_image(self.fleet, self.cluster, REFERENCE, names, clock=clock, told=told, **rest)  # type: ignore[arg-type]
        self.done = done
        return {name.removeprefix("spark"): row.state for name, row in done.items()}

    def has(self, index: int) -> bool:
        return bool(self.bed[index].docker("images", "-q", REFERENCE).stdout.strip())


@pytest.fixture
async def world(hosts: Bed, tmp_path: Path) -> AsyncIterator[World]:
    hosts.calm()

    def empty(host: Host) -> None:
        ids = host.docker("images", "-aq").stdout.split()
        if ids:
            host.docker("rmi", "-f", *ids)

    hosts.each(empty)
    cluster = load_cluster(hosts.cluster_toml(tmp_path / "cluster.toml"))
    fleet = make_fleet(cluster, SystemClock())
    yield World(hosts, cluster, fleet)
    await fleet.close()
    hosts.calm()


@pytest.mark.slow
async def test_absent_on_three_exactly_three_are_copied_and_nothing_twice(world: World, archive: Path) -> None:
    await world.give(archive, 1)
    assert await world.sync() == {"1": "has_it", "2": "copied", "3": "copied", "4": "copied"}
    assert all(world.has(i) for i in range(1, 5)) and {r.via for n, r in world.done.items() if n > "spark1"} == {
        "spark1"
    }
    world.told.clear()
    assert set((await world.sync()).values()) == {"has_it"}
    assert all(row.moved_bytes == 0 for row in world.told)


async def test_equal_layers_under_another_id_are_left_alone_and_other_layers_are_not(
    world: World, archive: Path, tmp_path: Path
) -> None:
    """The engines of the bed keep images alike, so the other Id is made by a field that no container sees."""
    await world.give(archive, 1, 2)
    with tarfile.open(archive) as tar:
        data = {m.name: f.read() for m in tar if (f := tar.extractfile(m))}
    manifest = json.loads(data["manifest.json"])[0]
    config = json.loads(data[manifest["Config"]])
    config["author"] = "another builder"
    text = json.dumps(config).encode()
    other = f"blobs/sha256/{hashlib.sha256(text).hexdigest()}"
    del data[manifest["Config"]]
    data |= {other: text, "manifest.json": json.dumps([{**manifest, "Config": other}]).encode()}
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        for name, content in data.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    await world.give(tmp_path / "other.tar", 3)
    await world.give(pack(tmp_path / "built-later.tar", REFERENCE, [layer("c", 2)]), 4)
    ids = [h.docker("images", "-q", "--no-trunc", REFERENCE).stdout.strip() for h in world.bed.hosts]
    assert ids[0] == ids[1] and len(set(ids)) == 3
    assert await world.sync() == {"1": "has_it", "2": "has_it", "3": "same_content", "4": "copied"}
    assert {row.node for row in world.told if row.moved_bytes} == {"spark4"}
    assert world.bed[3].docker("images", "-q", "--no-trunc", REFERENCE).stdout.strip() == ids[2]


async def test_without_room_nothing_is_sent(world: World, archive: Path) -> None:
    """A disk of 40 MB, as the node's own df sees it, for an image of 32 MB: it would not fit twice."""
    await world.give(archive, 1)
    world.bed[3].fill("/srv/small", "40m", free=40 << 20)
    with instead(world.bed[3], 'case "$1" in info) echo /srv/small; exit 0;; esac'):
        states = await world.sync()
    assert states == {"1": "has_it", "2": "copied", "3": "no_room", "4": "copied"}
    assert "free where images lie" in world.done["spark3"].detail and world.done["spark3"].moved_bytes == 0
    assert not world.has(3)


@pytest.mark.slow
async def test_a_disk_that_fills_costs_only_its_node(world: World, archive: Path) -> None:
    await world.give(archive, 1)
    world.bed[2].fill("/var/lib/docker/tmp", "12m", free=10 << 20)  # where an engine unpacks what is loaded
    states = await world.sync()
    assert states == {"1": "has_it", "2": "failed", "3": "copied", "4": "copied"}
    assert "no space left on device" in world.done["spark2"].detail
    assert not world.has(2) and world.has(4)


@pytest.mark.slow
async def test_layers_that_a_node_has_do_not_travel(world: World, tmp_path: Path) -> None:
    base, top = layer("base", 24), layer("top", 2)
    whole = pack(tmp_path / "whole.tar", REFERENCE, [base, top])
    await world.give(whole, 1)
    await world.give(pack(tmp_path / "base.tar", "base:1", [base]), 2, 3, 4)
    # The bed's engine may be older than 25 and write archives another way; what it reads is the same.
    world.bed[1].hf_cache.joinpath("archive.tar").write_bytes(whole.read_bytes())
    with instead(world.bed[1], 'case "$1" in save) exec cat /srv/hf-cache/archive.tar;; esac'):
        states = await world.sync()
    world.bed[1].hf_cache.joinpath("archive.tar").unlink()
    assert states == {"1": "has_it", "2": "copied", "3": "copied", "4": "copied"}
    for name in ("spark2", "spark3", "spark4"):
        assert world.done[name].moved_bytes < 3 << 20 and "1 of 2 layers were there" in world.done[name].detail


@pytest.mark.slow
async def test_an_engine_that_wants_all_layers_gets_them_in_the_next_pass(world: World, tmp_path: Path) -> None:
    base, top = layer("base", 8), layer("top", 2)
    whole = pack(tmp_path / "whole.tar", REFERENCE, [base, top])
    await world.give(whole, 1)
    await world.give(pack(tmp_path / "base.tar", "base:1", [base]), 2, 3, 4)
    world.bed[1].hf_cache.joinpath("archive.tar").write_bytes(whole.read_bytes())
    once_only = '[ "$1" != load ] || [ -f /tmp/once ] || { touch /tmp/once; cat >/dev/null; echo no blob >&2; exit 1; }'
    with (
        instead(world.bed[1], 'case "$1" in save) exec cat /srv/hf-cache/archive.tar;; esac'),
        instead(world.bed[2], once_only),
    ):
        states = await world.sync()
    world.bed[1].hf_cache.joinpath("archive.tar").unlink()
    world.bed[2].exec("rm", "/tmp/once")
    assert states == {"1": "has_it", "2": "copied", "3": "copied", "4": "copied"}
    assert world.done["spark2"].moved_bytes > 9 << 20 and "were there" not in world.done["spark2"].detail
    assert world.done["spark3"].moved_bytes < 3 << 20


async def test_an_image_is_asked_for_its_flags_and_its_gpus_are_loaded(world: World) -> None:
    """As `preflight --deep` does it; the engine is the stub, and so are its python3 and nvidia-smi."""
    await world.give(image.archive().path, 1, 2)
    world.bed[2].exec("sh", "-c", "printf 'clocks_sm=507\\npower_draw=14.0\\n' >/run/gpu.env")
    try:
        flags, loads = await asyncio.gather(
            known_flags(world.fleet.link("spark1"), "docker", image.REFERENCE, None, HELP_WORDS["vllm"]),
            load_gpus(world.fleet, world.cluster, image.REFERENCE, "all", ["spark1", "spark2", "spark3"]),
        )
    finally:
        world.bed[2].exec("rm", "/run/gpu.env")
    assert not isinstance(flags, Absent) and {"--gpu-memory-utilization", "--node-rank"} <= flags
    assert unknown(flags, ["--gpu-memory-utilisation", "0.8", "--headless"]) == ["--gpu-memory-utilisation"]
    assert loads["spark1"] == Loaded(82.41, 2405.0, 41.27, "NVIDIA GB10")
    found = {(f.code, f.node): f.message for f in load_findings(loads)}
    assert set(found) == {("gpu-clock-low", "spark2"), ("gpu-not-loaded", "spark3")}
    assert "under load 507 MHz, 14 W" in found["gpu-clock-low", "spark2"]
    assert "image" in found["gpu-not-loaded", "spark3"].lower()
    assert not any(host.containers() for host in world.bed.hosts)


def kill(host: Host, *names: str) -> None:
    for name in names:
        for pid in host.pids(name):
            if b"save" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


def once(world: World, node: str, work: Callable[[], None], *, after: int = 1 << 20) -> Callable[[NodeImage], None]:
    """Do it when so many bytes have come to a node."""
    done: list[bool] = []

    def when(row: NodeImage) -> None:
        if not done and row.node == node and row.state == "copying" and row.moved_bytes >= after:
            done.append(True)
            work()

    return when


@pytest.mark.slow
async def test_a_sender_killed_midway_is_replaced_by_another(world: World, archive: Path) -> None:
    await world.give(archive, 1, 2)
    world.bed[1].rate(60_000)
    states = await world.sync(when=once(world, "spark3", lambda: kill(world.bed[1], "docker")))
    assert states == {"1": "has_it", "2": "has_it", "3": "copied", "4": "copied"}
    assert world.done["spark3"].via == "spark2" and world.has(3) and world.has(4)


@pytest.mark.slow
async def test_the_only_sender_killed_midway_leaves_nothing_half(world: World, archive: Path) -> None:
    await world.give(archive, 1)
    world.bed[1].rate(60_000)
    with instead(world.bed[1], 'case "$1" in save) /usr/bin/docker "$@" | head -c 9000000; exit 137;; esac'):
        states = await world.sync()
    assert states == {"1": "has_it", "2": "failed", "3": "failed", "4": "failed"}
    assert not any(world.has(i) for i in (2, 3, 4))


@pytest.mark.slow
async def test_a_link_cut_midway_costs_only_its_node(world: World, archive: Path) -> None:
    await world.give(archive, 1)
    world.bed[1].rate(60_000)
    states = await world.sync(when=once(world, "spark3", world.bed[3].cut))
    world.bed[3].heal()
    assert {n: s for n, s in states.items() if n != "3"} == {"1": "has_it", "2": "copied", "4": "copied"}
    assert states["3"] in ("failed", "unknown") and not world.has(3)
    assert world.has(2) and world.has(4)
