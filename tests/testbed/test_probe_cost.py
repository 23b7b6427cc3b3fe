"""What the probe costs a host of the bed: a small share of a core, and no process for a sample."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from console.assemble import SystemClock
from console.files.clusters import load_cluster
from console.probe import telemetry_program
from console.services.node_watch import NodeWatch
from console.telemetry.sample import Sample
from console.transport.pool import make_fleet
from tests.testbed import processes
from tests.testbed.bed import Bed

pytestmark = [pytest.mark.bed, pytest.mark.xdist_group("bed")]
SAMPLES = 6
TICKS_S = 100


def times(pid: int) -> tuple[int, int]:
    """Ticks of CPU that the process used, and that its ended children used (proc(5), fields 14 to 17)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])


def probe_of(host_init: int) -> int:
    """The probe among a host's processes, as a pid of this machine."""
    for pid in processes.descendants(host_init):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        if words.startswith(b"python3\0") and b"nightdeck-probe" in words:
            return pid
    raise AssertionError("no probe runs on this host")


async def test_the_probe_is_cheap_and_starts_nothing_for_a_sample(bed: Bed, cluster_file: Path) -> None:
    cluster = load_cluster(cluster_file)
    clock = SystemClock()
    fleet = make_fleet(cluster, clock)
    count = 0
    more = asyncio.Event()

    def heard(sample: Sample) -> None:
        nonlocal count
        count += sample.part == "all"
        more.set()

    async def until(look: Callable[[], bool]) -> None:
        async with asyncio.timeout(90):
            while not look():
                more.clear()
                await more.wait()

    node = cluster.nodes[0]
    watch = NodeWatch(
        node,
        fleet.link(node.name),
        telemetry_program(),
        clock,
        heard=heard,
        trouble_changed=lambda *_: more.set(),
        interval_s=0.5,  # twice as often as in use
    )
    task = asyncio.create_task(watch.run())
    try:
        await until(lambda: watch.whole.is_set() and count >= 2)
        pid = probe_of(bed[1].init)
        used, of_children = times(pid)
        children, begun, first = processes.children(pid), time.monotonic(), count
        await until(lambda: count >= first + SAMPLES)
        took = time.monotonic() - begun
        used, ended = times(pid)[0] - used, times(pid)[1] - of_children
        print(f"probe: {100 * used / TICKS_S / took:.2f} % of a core over {took:.0f} s and {count - first} samples")
        assert processes.children(pid) == children, "the same nvidia-smi all along, and nothing else"
        assert ended == 0, "a child came and went"
        # Measured at one sample a second: 0.25 %. On a busy machine a tick costs more, and some seconds hold few ticks.
        assert used / TICKS_S / took < 0.05
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await fleet.close()
