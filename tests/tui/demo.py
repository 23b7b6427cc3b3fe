"""The console on the fake hub, for eyes: `python -m tests.tui.demo SCENARIO [LINES_PER_SECOND]`."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from console.tui.app import NightdeckApp
from tests.tui.fake_hub import SCENARIOS, FakeHub
from tests.tui.fake_values import T0, log_lines, views


class Demo(NightdeckApp):
    """Lets time pass, lines come and samples change."""

    def __init__(self, hub: FakeHub, rate: int) -> None:
        super().__init__(
            hub, theme=os.environ.get("DEMO_THEME", "nightdeck"), ascii=bool(os.environ.get("DEMO_ASCII")), guard=True
        )
        self.fake = hub
        self.rate = rate

    async def on_mount(self) -> None:
        self.jobs.start("feed", self.feed())

    async def feed(self) -> None:
        begin = time.monotonic()
        ticks = 0
        while True:
            await asyncio.sleep(0.05)
            ticks += 1
            if self.rate and self.fake.snapshot().boot is not None:
                due = int((time.monotonic() - begin) * self.rate) + 400
                self.fake.add(log_lines(max(0, due - self.fake.next_seq), start=self.fake.next_seq, at=self.fake.now()))
            if ticks % 20 == 0 and os.environ.get("DEMO_MOVE"):
                self.fake.update(nodes=views(8, used=0.75 + (ticks // 20 % 10) / 100))


def main() -> None:
    scenario = sys.argv[1] if len(sys.argv) > 1 else "booting"
    if scenario not in SCENARIOS:
        raise SystemExit(f"scenarios: {' '.join(SCENARIOS)}")
    hub = FakeHub(scenario)
    begin = time.time()
    hub.clock = lambda: T0 + time.time() - begin
    raise SystemExit(Demo(hub, int(sys.argv[2]) if len(sys.argv) > 2 else 20).run() or 0)


if __name__ == "__main__":
    main()
