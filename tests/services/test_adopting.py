"""A deployment that another console launched: what is found of it is kept without its secrets."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.boot.events import Acted, BootOpened, Event, RankRef
from console.cluster.model import Cluster, Node
from console.files.journal import Journal
from console.recipe.model import Recipe
from console.services import watching as watching_module
from console.services.kept import kept_events
from console.services.ledger import Ledger
from console.services.watching import Watching
from console.telemetry.sample import Container, Containers, Sample
from console.transport.base import Completed, Stream, TransportError, Trouble
from tests.services.fakes import FakeFleet, FakeLink, FakeStream, ManualClock

LABELS = {
    "nightdeck.deployment": "flash-b1-aa", "nightdeck.rank": "0", "nightdeck.world": "1", "nightdeck.boot": "1",
    "nightdeck.recipe": "flash", "nightdeck.digest": "of the text as launched",
}  # fmt: skip
ROW = {"Id": "abc", "Name": "/f-r0", "State": {"Status": "running"}, "Config": {"Labels": LABELS}}
SECRETS = ("plain-secret-1", "plain-secret-2", "cluster-word")
LOG = b"".join(
    b"2026-11-30T03:00:0%d.000000000Z INFO echo %s\n" % (n, word.encode()) for n, word in enumerate((*SECRETS, "end"))
)


@dataclass
class Shelf:
    recipes: Sequence[Recipe]

    def load(self) -> tuple[Sequence[Recipe], Sequence[object]]:
        return self.recipes, ()


class Engine(FakeLink):
    """A node without a probe whose engine gives a log."""

    @asynccontextmanager
    async def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AsyncIterator[Stream]:
        if not any(" logs " in word for word in argv):
            raise TransportError(Trouble.REFUSED, "no probe here", node=self.name)
        yield FakeStream([LOG], Completed(0, b"", b""))


async def test_its_recipes_values_are_masked_also_where_the_text_was_edited(tmp_path: Path) -> None:
    recipe = Recipe(
        "flash", "f", "Flash", "vllm", "img", "m", 1, args=("--api-key", SECRETS[0]), env={"HF_TOKEN": SECRETS[1]},
        digest="edited since",
    )  # fmt: skip
    watching = Watching(
        cluster=Cluster("c", "f", (Node("n1", "n1"),), env={"PROXY_PASSWORD": SECRETS[2]}),
        fleet=FakeFleet([Engine("n1", lambda argv: Completed(0, json.dumps([ROW]).encode(), b""))]),
        shelf=Shelf([recipe]),  # type: ignore[arg-type]
        ledger=Ledger(Journal(tmp_path / "boots")),
        clock=ManualClock(),
        follow=False,
    )
    changed = asyncio.Event()
    watching.subscribe(changed.set)
    await watching.start()
    async with asyncio.timeout(30):
        while not (shown := watching.log(0).lines) or "end" not in shown[-1].text:
            changed.clear()
            await changed.wait()
    await watching.close()
    (log,) = (tmp_path / "boots").glob("b*/rank0.log")
    assert log.read_bytes().count(b"INFO echo ***\n") == len(SECRETS)
    said = " ".join(line.text for line in shown) + log.read_text()
    assert [word for word in SECRETS if word in said] == []


async def test_a_night_s_journal_is_read_beside_the_loop_and_adds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier console kept: read and added up in a thread, once, however many censuses find the boot."""
    earlier = Ledger(Journal(tmp_path / "boots"))
    keeper = earlier.keeper("flash-b1-aa", 1, "flash", now=1.0)
    ranks = (RankRef(0, "n1", "f-r0"),)
    keeper.event(BootOpened(1.0, "flash-b1-aa", 1, "flash", "f", "x", "n1", ranks, 1.0, 900.0, 8000, "s"))
    for n in range(300):
        keeper.event(Acted(2.0 + n, "note", f"note {n}", "ann"))
    await asyncio.to_thread(keeper.flush)
    await asyncio.to_thread(earlier.close)
    readers: list[int] = []

    def read(folder: Path) -> list[Event]:
        readers.append(threading.get_ident())
        return kept_events(folder)

    monkeypatch.setattr("console.services.watching.kept_events", read)
    watching = Watching(
        cluster=Cluster("c", "f", (Node("n1", "n1"),)),
        fleet=FakeFleet([Engine("n1", lambda argv: Completed(0, json.dumps([ROW]).encode(), b""))]),
        shelf=Shelf([]),  # type: ignore[arg-type]
        ledger=Ledger(Journal(tmp_path / "boots")),
        clock=ManualClock(),
        follow=False,
    )
    try:
        async with asyncio.timeout(30):
            census = await watching._census()
            await asyncio.gather(*(watching._adopt(census) for _ in range(3)))
        (boot,) = watching.snapshot().boots
        assert boot.adopted and boot.notes[-1] == "note 299"
        assert len(readers) == 1 and readers[0] != threading.get_ident()
    finally:
        await watching.close()


async def test_a_deployment_that_begins_while_a_census_goes_on_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node's probe shows it before the census of that moment, which does not have it, has come to its end."""
    monkeypatch.setattr(watching_module, "PROBES_START_S", 0.0)
    rows: list[object] = []
    asked = asyncio.Event()

    def answer(argv: Sequence[str]) -> Completed:
        asked.set()
        return Completed(0, json.dumps(rows).encode(), b"")

    node = Engine("n1", answer)
    slow = Engine("n2", lambda argv: Completed(0, b"[]", b""), delay=asyncio.Event())
    assert slow.delay is not None
    clock = ManualClock()
    watching = Watching(
        cluster=Cluster("c", "f", (Node("n1", "n1"), Node("n2", "n2"))),
        fleet=FakeFleet([node, slow]),
        shelf=Shelf([]),  # type: ignore[arg-type]
        ledger=Ledger(Journal(tmp_path / "boots")),
        clock=clock,
    )
    shown = Containers((Container("abc", "f-r0", "img", "running", LABELS),), "socket")
    try:
        watching._discover()
        first = watching._discovering
        async with asyncio.timeout(30):
            await asked.wait()
            rows.append(ROW)
            watching._sampled(Sample("n1", 1, 0.0, 0.0, 0.0, containers=shown))
            slow.delay.set()
            assert first is not None
            await first
            assert watching.snapshot().boots == ()
            for seq in range(2, 5):  # the probe goes on to show it, once a second
                clock.now += 1.0
                watching._sampled(Sample("n1", seq, 0.0, 0.0, 0.0, containers=shown))
            again = watching._discovering
            assert again is not None and again is not first
            await again
        (boot,) = watching.snapshot().boots
        assert boot.deployment == "flash-b1-aa"
    finally:
        await watching.close()


async def test_a_label_that_no_census_has_costs_one_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching_module, "PROBES_START_S", 0.0)
    node = Engine("n1", lambda argv: Completed(0, b"[]", b""))
    clock = ManualClock()
    watching = Watching(
        cluster=Cluster("c", "f", (Node("n1", "n1"),)),
        fleet=FakeFleet([node]),
        shelf=Shelf([]),  # type: ignore[arg-type]
        ledger=Ledger(Journal(tmp_path / "boots")),
        clock=clock,
    )
    shown = Containers((Container("abc", "f-r0", "img", "running", LABELS),), "socket")
    begun = set()
    try:
        for seq in range(60):
            clock.now += 1.0
            watching._sampled(Sample("n1", seq, 0.0, 0.0, 0.0, containers=shown))
            assert watching._discovering is not None
            begun.add(watching._discovering)
            async with asyncio.timeout(30):
                await watching._discovering
        assert len(begun) == 2
    finally:
        await watching.close()


async def test_what_a_node_says_now_replaces_what_the_journal_said_of_it(tmp_path: Path) -> None:
    """A stop that ended a moment ago removed rank 1; no probe runs, and the journal had it running."""
    there = [ROW]
    labels = {**LABELS, "nightdeck.world": "2"}
    rows = {n: {**ROW, "Name": f"/f-r{n}", "Config": {"Labels": {**labels, "nightdeck.rank": str(n)}}} for n in (0, 1)}

    def world() -> Watching:
        return Watching(
            cluster=Cluster("c", "f", (Node("n1", "n1"), Node("n2", "n2"))),
            fleet=FakeFleet(
                [
                    Engine("n1", lambda argv: Completed(0, json.dumps([rows[0]]).encode(), b"")),
                    Engine("n2", lambda argv: Completed(0, json.dumps([rows[1]] if there else []).encode(), b"")),
                ]
            ),
            shelf=Shelf([]),  # type: ignore[arg-type]
            ledger=Ledger(Journal(tmp_path / "boots")),
            clock=ManualClock(),
            follow=False,
        )

    told = []
    for _ in range(2):
        watching = world()
        await watching.start()
        await watching.settled(timeout=30.0)
        (boot,) = watching.snapshot().boots
        told.append([r.status for r in boot.ranks])
        cause = boot.cause
        await watching.close()
        there.clear()
    assert told == [["running", "running"], ["running", "absent"]]
    assert cause is not None and cause.rank == 1 and "gone" in cause.sentence
