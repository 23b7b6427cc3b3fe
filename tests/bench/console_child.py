"""`python -m tests.bench.console_child CLUSTER RESULT SECONDS SETTLE`: the console, and what it costs.

RESULT gets, as JSON, from SETTLE seconds after every node has spoken: the share of a core in each second, what the
loop's own thread computed in each turn of the loop, how late a beat came, and the memory at both ends. On a busy
machine only the first two are the console's doing. `joining` is what the turns of the time before that cost."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path

from console.assemble import DiskWorld
from console.base.absent import known
from console.base.garbage import Portions, kept_for_good
from console.cli.parser import build_parser
from console.services.hub import HubApi
from console.transport.turns import FewAtOnce
from console.tui.app import run_console_async

BEAT_S = 0.05


class MeteredLoop(asyncio.SelectorEventLoop):
    """Keeps the processor time of each turn, in seconds: for so long nothing else could be done."""

    def __init__(self) -> None:
        super().__init__(FewAtOnce())
        self.turns: list[float] = []

    def _run_once(self) -> None:
        began = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        self.turns.append(time.thread_time() - began)

    def taken(self) -> list[float]:
        turns, self.turns = self.turns, []
        return turns


def rss_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


class Meter:
    def __init__(self, hub: HubApi, result: Path, seconds: float, settle: float) -> None:
        self.hub = hub
        self.result = result
        self.seconds = seconds
        self.settle = settle

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeteredLoop)
        begun = time.monotonic()
        await self._all_have_spoken()
        joined = time.monotonic() - begun
        joining = loop.taken()
        await asyncio.sleep(self.settle)
        joining += loop.taken()
        first = rss_kb()
        shares: list[float] = []
        late: list[float] = []
        end = time.monotonic() + self.seconds
        at, used = time.monotonic(), time.process_time()
        while (now := time.monotonic()) < end:
            await asyncio.sleep(BEAT_S)
            late.append(time.monotonic() - now - BEAT_S)
            if time.monotonic() - at >= 1.0:
                later, spent = time.monotonic(), time.process_time()
                shares.append((spent - used) / (later - at))
                at, used = later, spent
        said = {
            "shares": shares,
            "late": late,
            "turns": loop.taken(),
            "joining": joining,
            "joined_s": joined,
            "first_rss_kb": first,
            "last_rss_kb": rss_kb(),
            "heard": self._heard(),
        }
        fresh = self.result.with_suffix(".new")
        fresh.write_text(json.dumps(said))
        fresh.rename(self.result)

    async def _all_have_spoken(self) -> None:
        changed = asyncio.Event()
        quiet = self.hub.subscribe(changed.set)
        while not all(known(v.sample) for v in self.hub.snapshot().nodes):
            changed.clear()
            await changed.wait()
        quiet()

    def _heard(self) -> int:
        """How many nodes are fresh at the end: what is cheap because it stopped listening is not cheap."""
        return sum(1 for v in self.hub.snapshot().nodes if v.state == "fresh")


async def console(cluster: str, result: Path, seconds: float, settle: float) -> int:
    args: argparse.Namespace = build_parser().parse_args(["--cluster", cluster, "status"])
    with kept_for_good():
        pass  # all is loaded
    Portions().begin()
    world = DiskWorld(args)
    hub = world.make_hub(world.cluster())
    task = asyncio.create_task(Meter(hub, result, seconds, settle).run())
    try:
        return await run_console_async(hub)
    finally:
        task.cancel()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=MeteredLoop) as runner:
        sys.exit(runner.run(console(sys.argv[1], Path(sys.argv[2]), *map(float, sys.argv[3:]))))
