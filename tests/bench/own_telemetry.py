"""`python -m tests.bench.own_telemetry`: what watching costs, beside asking each node for /proc/meminfo by ssh.

Eight lab nodes over real SSH. The hub's figure is this process's own CPU time: it holds the connections, the parsing,
histories, alarms and snapshots, without a screen. The probe's is what the probes themselves say they used.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import tempfile
import time


async def hub_cost(seconds: float) -> tuple[float, float, float, int]:
    """CPU share of one core of the hub and of the mean probe; largest gap of the loop in ms; samples."""
    from console.assemble import DiskWorld
    from console.cli.parser import build_parser

    world = DiskWorld(build_parser().parse_args(["--cluster", "lab", "--speed", "1", "status"]))
    async with world.hub() as hub:
        await hub.settled(timeout=60)
        gaps: list[float] = []

        async def heartbeat() -> None:
            while True:
                before = time.perf_counter()
                await asyncio.sleep(0.02)
                gaps.append(time.perf_counter() - before - 0.02)

        beat = asyncio.create_task(heartbeat())
        first = _probes(hub.snapshot())
        cpu, begun = time.process_time(), time.monotonic()
        end = begun + seconds
        while time.monotonic() < end:
            await asyncio.sleep(0.25)  # a face draws at most four times a second
            hub.snapshot()
        took = time.monotonic() - begun
        used = time.process_time() - cpu
        last = _probes(hub.snapshot())
        beat.cancel()
    probes = [(last[n][0] - first[n][0]) / took for n in last if n in first]
    samples = sum(last[n][1] - first[n][1] for n in last if n in first)
    return used / took, sum(probes) / max(1, len(probes)), 1000 * max(gaps, default=0.0), samples


def _probes(snap: object) -> dict[str, tuple[float, int]]:
    out: dict[str, tuple[float, int]] = {}
    for view in snap.nodes:  # type: ignore[attr-defined]
        sample = view.sample
        if sample and isinstance(sample.probe_cpu_s, float):
            out[view.node.name] = (sample.probe_cpu_s, sample.seq)
    return out


async def ssh_cost(seconds: float) -> tuple[float, int]:
    """CPU share of one core of `ssh NODE cat /proc/meminfo` once a second for eight nodes, and how many answered."""
    from console.files.clusters import load_cluster
    from console.lab.embedded import lab

    async with lab(nodes=8, speed=1.0, scenario="healthy", recipes=()) as handle:
        cluster = load_cluster(handle.cluster_file)
        config = ["-F", cluster.ssh_config] if cluster.ssh_config else []
        before, begun, answered = _children(), time.monotonic(), 0

        async def one(host: str) -> int:
            process = await asyncio.create_subprocess_exec(
                "ssh",
                *config,
                "-oBatchMode=yes",
                host,
                "cat /proc/meminfo",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            out, _ = await process.communicate()
            return int(b"MemAvailable" in out)

        while time.monotonic() - begun < seconds:
            start = time.monotonic()
            answered += sum(await asyncio.gather(*(one(n.host) for n in cluster.nodes)))
            await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - start)))
        took = time.monotonic() - begun
        return (_children() - before) / took, answered


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def everything(seconds: float) -> None:
    hub, probe, gap, samples = await hub_cost(seconds)
    print(f"hub, 8 nodes at 1 Hz, alarms and histories   {100 * hub:5.1f} % of one core   {samples} samples")
    print(f"largest gap of its loop                      {gap:5.0f} ms")
    print(f"probe on a node                              {100 * probe:5.1f} % of one core")
    ssh, answered = await ssh_cost(seconds)
    print(f"`ssh NODE cat /proc/meminfo`, 8 nodes, 1 Hz   {100 * ssh:5.1f} % of one core   {answered} answers")


def main() -> None:
    parser = argparse.ArgumentParser(description="What watching eight nodes costs.")
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"NIGHTDECK_STATE_DIR": f"{home}/state", "NIGHTDECK_CONFIG_DIR": f"{home}/config"}
        asyncio.run(everything(seconds))


if __name__ == "__main__":
    main()
