"""A night of twelve hours through the hub, the histories, the alarms and the journal: memory stands still."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from console.boot.events import BootOpened, ContainerSeen, RankRef, StatsSeen
from console.cluster.model import Cluster, Node
from console.enginelog.records import Record
from console.files.journal import Journal
from console.services.ledger import Ledger
from console.services.watching import Watching
from console.telemetry.frames import Frame
from tests.services.fakes import FakeFleet, FakeLink, ManualClock
from tests.telemetry.test_sampler import frame

HOURS = 12
GIB_KB = 1 << 20


@dataclass
class Shelf:
    def load(self) -> tuple[tuple[()], tuple[()]]:
        return (), ()


class Night:
    """A hub whose probes and logs are this test: frames and lines at the times of a clock that it moves."""

    def __init__(self, root: Path, nodes: int, *, log_lines: int) -> None:
        self.clock = ManualClock()
        self.start = self.clock.now
        names = [f"dgx{n + 1}" for n in range(nodes)]
        self.hub = Watching(
            cluster=Cluster("c", "f", tuple(Node(n, n) for n in names)),
            fleet=FakeFleet([FakeLink(n) for n in names]),
            shelf=Shelf(),  # type: ignore[arg-type]
            ledger=Ledger(Journal(root / "boots")),
            clock=self.clock,
            log_lines=log_lines,
        )
        self.names = names
        self.seq = 0
        self.line = 0
        ranks = tuple(RankRef(r, n, f"c{r}") for r, n in enumerate(names))
        now = self.clock.wall()
        opening = BootOpened(now, "d", 1, "flash", "t", "", names[0], ranks, now, 3600.0, 8000, "m")
        self.follower = self.hub._open(opening)
        self.hub._choose()
        for rank in ranks:
            self.follower.apply(ContainerSeen(now, rank.rank, "running", node=rank.node, container=rank.container))

    def second(self, step: float, lines: int) -> None:
        self.clock.now += step
        self.seq += 1
        t = self.clock.now - self.start
        for number, name in enumerate(self.names):
            left = 20 * GIB_KB + (self.seq * 7919 + number) % 100_000
            meminfo = f"MemTotal: 127600812 kB\nMemAvailable: {left} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB"
            one = frame(self.seq, t, host__meminfo=meminfo, host__t=t, fabric__t=t)
            self.hub._watches[name]._take(Frame(one.seq, one.data))
            if lines:
                self._lines(number, name, lines)
        self.follower.apply(StatsSeen(self.clock.now, {"generation_tokens_per_s": float(self.seq % 97)}))
        self.hub.vigil.tick(self.hub.snapshot().nodes, self.hub.snapshot().boots)
        self.hub.vigil.alarms.happen("xid", name, f"{name}: NVRM: Xid 31 number {self.seq}", node=name)

    def _lines(self, rank: int, node: str, count: int) -> None:
        text = [b"2026-11-30T03:00:00.%09dZ INFO request %d" % (self.line + i, self.line + i) for i in range(count)]
        self.line += count
        self.follower._records(rank, node, text)


@pytest.fixture
async def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("console.services.follower.REPLAY_LINES", 1_000)
    made: list[Night] = []

    def build(nodes: int, **options: Any) -> Night:
        made.append(Night(tmp_path, nodes, **options))
        return made[-1]

    yield build
    for night in made:
        await night.hub.close()


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def test_memory_stands_still_over_twelve_hours(make: Any) -> None:
    """A frame in three minutes, some lines with each: what is kept by time, by number and by count all turns over."""
    night = make(2, log_lines=1_000)
    blocks = []
    for _hour in range(HOURS):
        for _ in range(20):
            night.second(180.0, 20)
        night.hub._ledger.flush(["d"])
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    # The first hours fill rings; after them there is nothing left to grow.
    assert blocks[-1] - blocks[5] < 2_000, [b - blocks[0] for b in blocks]


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_memory_of_eight_nodes_stands_still_over_twelve_hours(make: Any, traced: None) -> None:
    night = make(8, log_lines=5_000)
    sizes = []
    for _hour in range(HOURS):
        for _ in range(60):
            night.second(60.0, 20)
        night.hub._ledger.flush(["d"])
        sizes.append(held())
    assert sizes[-1] - sizes[4] < 2 << 20, [s >> 10 for s in sizes]


def test_records_kept_for_a_face_are_bounded_by_their_number() -> None:
    from console.services.log_store import RecentRecords

    kept = RecentRecords(100)
    records = [Record(0, i, None, None, "INFO", None, None, None, "x", False, "engine") for i in range(30)]
    for n in range(50):
        kept.add(n % 8, "dgx1", records[: 1 + n % 30])
        assert len(kept) < 100 + 30
    assert sum(len(batch) for _, _, batch in kept) == len(kept) >= 100
