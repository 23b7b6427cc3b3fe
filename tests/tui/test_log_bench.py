"""A flood of log lines does not hold the loop up: measured, on a machine that others use too."""

from __future__ import annotations

import asyncio
import time

from console.services.hub import LogBatch, LogLine
from tests.tui.conftest import deck
from tests.tui.fake_hub import FakeHub
from tests.tui.fake_values import log_lines

SECONDS = 2.0


class FloodHub(FakeHub):
    """Hands out as many lines as `rate` a second makes due, from a ring of ready ones."""

    def __init__(self, rate: int) -> None:
        super().__init__()
        self.rate = rate
        self.pool: tuple[LogLine, ...] = tuple(log_lines(10_000))
        self.begin = time.perf_counter()
        self.handed = 0

    def log(self, since_seq: int, *, limit: int = 5000) -> LogBatch:
        due = int((time.perf_counter() - self.begin) * self.rate) - self.handed
        count = max(0, min(limit, due))
        at = self.handed % len(self.pool)
        lines = (
            (self.pool + self.pool[:limit])[at : at + count]
            if at + count > len(self.pool)
            else self.pool[at : at + count]
        )
        self.handed += count
        return LogBatch(lines, since_seq + count)


async def held(seconds: float) -> list[float]:
    """For how long the loop was held between two wake-ups 5 ms apart, in seconds of this thread's own processor time:
    the lag that the console itself causes, whatever else runs on this machine."""
    out = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        begin = time.thread_time()
        await asyncio.sleep(0.005)
        out.append(time.thread_time() - begin)
    return sorted(out)


async def flood(rate: int) -> tuple[float, FloodHub, int]:
    hub = FloodHub(rate)
    async with deck(hub=hub) as d:
        d.main.choose_pane("logs")
        await d.pilot.pause()
        hub.begin, hub.handed = time.perf_counter(), 0
        busy = time.process_time()
        late = await held(SECONDS)
        share = (time.process_time() - busy) / SECONDS
        d.main.logs.view.flush()
        p50, p99 = late[len(late) // 2], late[int(len(late) * 0.99)]
        print(f"{rate} lines/s: p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, {share:.0%} CPU")
        return p99, hub, d.main.logs.view.store.end


async def test_20_000_lines_a_second_leave_the_loop_free() -> None:
    p99, hub, _ = await flood(20_000)
    assert hub.handed > 0.5 * 20_000 * SECONDS
    assert p99 < 0.050


async def test_100_000_lines_a_second_do_not_freeze_it() -> None:
    p99, hub, end = await flood(100_000)
    assert p99 < 0.050
    assert end > 0
    assert hub.handed > 0.5 * 100_000 * SECONDS
