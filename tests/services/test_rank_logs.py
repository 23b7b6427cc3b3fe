"""The readings of ranks' logs: whatever ends one, the next goes on from where it stood, and follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from console.cluster.model import Cluster, Node
from console.files.journal import Journal
from console.services.ledger import Ledger
from console.services.rank_logs import GOES_ON_AFTER_S, RankLogs
from console.services.tasks import Owner
from console.transport.base import Completed, Stream
from tests.services.fakes import FakeFleet, FakeLink, FakeStream, ManualClock

LINES = [b"2026-11-30T03:00:0%d.000000000Z line %d" % (n, n) for n in range(4)]


class Open(FakeStream):
    """What the engine has of the log, and no end."""

    async def blocks(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        await asyncio.Event().wait()


class Engine(FakeLink):
    """A container's log as far as it is written; `runs`: a reader that follows waits for more of it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.lines = LINES[:1]
        self.runs = True
        self.hangs = False
        self.begun = asyncio.Event()

    @asynccontextmanager
    async def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AsyncIterator[Stream]:
        self.asked.append(list(argv))
        follow = "--follow" in argv[2]
        self.begun.set()
        kind = Open if self.hangs or (follow and self.runs) else FakeStream
        yield kind([b"".join(line + b"\n" for line in self.lines)], Completed(0, b"", b""))  # type: ignore[misc]

    async def next_reader(self) -> str:
        async with asyncio.timeout(30):
            await self.begun.wait()
        self.begun.clear()
        return self.asked[-1][2]


class Bench:
    def __init__(self, root: Path) -> None:
        self.engine = Engine("dgx1")
        self.clock = ManualClock()
        self.failed: list[BaseException] = []
        self.owner = Owner(lambda _name, error: self.failed.append(error))
        self.ledger = Ledger(Journal(root / "boots"))
        self.heard: list[bytes] = []
        self.more = asyncio.Event()
        keeper = self.ledger.keeper("d1", 1, "flash", now=1.0)
        cluster = Cluster("c", "", (Node("dgx1", "dgx1"),))
        self.logs = RankLogs(
            FakeFleet([self.engine]), cluster, self.clock, self.owner, keeper, follow=True, lines=self._lines
        )  # fmt: skip

    def _lines(self, rank: int, node: str, lines: Sequence[bytes], keep: bool) -> None:
        self.heard += lines
        self.more.set()

    async def until(self, lines: Sequence[bytes]) -> None:
        async with asyncio.timeout(30):
            while len(self.heard) < len(lines):
                self.more.clear()
                await self.more.wait()
        assert self.heard == list(lines)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.owner.close()
    await asyncio.to_thread(made.ledger.close)
    assert made.failed == []


@pytest.mark.parametrize("begun", [False, True])
async def test_a_read_to_the_end_that_is_cut_off_leaves_the_log_followed(bench: Bench, begun: bool) -> None:
    engine, logs = bench.engine, bench.logs
    logs.open(0, "dgx1", "c")
    assert "--follow" in await engine.next_reader()
    await bench.until(LINES[:1])
    engine.lines, engine.hangs = LINES[:2], True
    rest = asyncio.create_task(logs.read_rest(0, "id", 60.0))
    if begun:
        assert "--follow" not in await engine.next_reader()
        await bench.until(LINES[:2])
    else:
        await asyncio.sleep(0)
    engine.lines, engine.hangs = LINES[:3], False
    rest.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rest
    assert "--follow" in await engine.next_reader()
    await bench.until(LINES[:3])
    assert not logs.tails[0].done.is_set()


async def test_a_log_read_to_its_end_is_followed_where_its_container_runs_on(bench: Bench) -> None:
    engine, logs = bench.engine, bench.logs
    logs.open(0, "dgx1", "c")
    await engine.next_reader()
    await bench.until(LINES[:1])
    tail = await logs.read_rest(0, "id", 60.0)
    assert tail.state == "ended" and "--follow" not in await engine.next_reader()
    logs.goes_on(0)
    assert len(engine.asked) == 2, "what a node says of its containers is a moment old"
    engine.lines = LINES
    for _ in range(3):
        bench.clock.now += GOES_ON_AFTER_S + 1
        logs.goes_on(0)
    assert "--follow" in await engine.next_reader()
    await bench.until(LINES)
    assert len(engine.asked) == 3 and not logs.tails[0].done.is_set()
