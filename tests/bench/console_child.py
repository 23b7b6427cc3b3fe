"""`python -m tests.bench.console_child CLUSTER RESULT SECONDS SETTLE`: the console, and what it costs.

Measured from SETTLE seconds after every node has spoken.
RESULT gets, as JSON, the share of a core in each second and, of each turn of the loop that came late, by how much and
how much of that the loop's own thread had computed: on a busy machine only the second is the console's doing."""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from console.assemble import DiskWorld
from console.base.absent import known
from console.cli.parser import build_parser
from console.services.hub import HubApi
from console.tui.app import run_console_async

BEAT_S = 0.05


class Meter:
    def __init__(self, hub: HubApi, result: Path, seconds: float, settle: float) -> None:
        self.hub = hub
        self.result = result
        self.seconds = seconds
        self.settle = settle

    async def run(self) -> None:
        changed = asyncio.Event()
        quiet = self.hub.subscribe(changed.set)
        while not all(known(v.sample) for v in self.hub.snapshot().nodes):
            changed.clear()
            await changed.wait()
        quiet()
        await asyncio.sleep(self.settle)
        shares: list[float] = []
        late: list[float] = []
        blocked: list[float] = []
        end = time.monotonic() + self.seconds
        at, used = time.monotonic(), time.process_time()
        while (now := time.monotonic()) < end:
            busy = time.thread_time()
            await asyncio.sleep(BEAT_S)
            late.append(time.monotonic() - now - BEAT_S)
            blocked.append(time.thread_time() - busy)
            if time.monotonic() - at >= 1.0:
                later, spent = time.monotonic(), time.process_time()
                shares.append((spent - used) / (later - at))
                at, used = later, spent
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        said = {"shares": shares, "late": late, "blocked": blocked, "max_rss_kb": rss}
        fresh = self.result.with_suffix(".new")
        fresh.write_text(json.dumps(said))
        fresh.rename(self.result)


async def console(cluster: str, result: Path, seconds: float, settle: float) -> int:
    args: argparse.Namespace = build_parser().parse_args(["--cluster", cluster, "status"])
    world = DiskWorld(args)
    hub = world.make_hub(world.cluster())
    task = asyncio.create_task(Meter(hub, result, seconds, settle).run())
    try:
        return await run_console_async(hub)
    finally:
        task.cancel()


if __name__ == "__main__":
    sys.exit(asyncio.run(console(sys.argv[1], Path(sys.argv[2]), *map(float, sys.argv[3:]))))
