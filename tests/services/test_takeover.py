"""A boot whose writer has ended goes to whoever watches it, and a stop asks no process that is not there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from console.boot.events import BootOpened, ContainerSeen, Event, RankRef, StopEnded, StopStarted
from console.boot.reduce import opened, reduce_all
from console.boot.state import Phase
from console.files.boot_folder import BootFolder, BusyError
from console.files.event_codec import encode_event
from console.files.journal import Journal
from console.files.stop_mark import MARK, read_stop_mark, write_stop_mark
from console.services import stopping
from console.services.controls import Controls
from console.services.ledger import replayed
from console.services.others_stop import began_at
from console.services.takeover import lacking
from console.telemetry.sample import Container, Containers
from console.transport.base import Completed
from tests.services.fakes import FakeFleet, FakeLink, ManualClock
from tests.services.test_kept_containers import LAST, LOG, NOW, Bench

NAME = "flash-b1-aa"
FIRST = LOG[: -len(LAST)]
OPENED = BootOpened(
    NOW,
    NAME,
    1,
    "flash",
    "",
    "",
    "dgx1",
    (RankRef(0, "dgx1", "nd-r0"), RankRef(1, "dgx2", "nd-r1")),
    NOW,
    3600.0,
    8000,
    "m",
)


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(stopping, "READ_LOG_S", 10.0)
    monkeypatch.setattr(stopping, "DRAIN_S", 0.3)
    made = Bench(tmp_path)
    yield made
    await made.hub.close()


def another(root: Path) -> BootFolder:
    """What another console of this machine writes: half of one log, none of the other."""
    folder = Journal(root / "boots").open_boot("flash", now=NOW, number=1)
    folder.write_summary({"deployment": NAME, "recipe": "flash", "boot": 1, "state": "booting"})
    folder.append_event(encode_event(OPENED), flush=True)
    folder.append_log(0, FIRST)
    return folder


async def watched(bench: Bench) -> None:
    """Both ranks' logs are read to their end, while another writes the boot."""
    await bench.hub._adopt(await bench.hub._census())
    async with asyncio.timeout(10):
        await bench.hub._followers[NAME].logs.all_ended()
    keeper = bench.ledger.held(NAME)
    assert keeper is not None and keeper.left_to_another


async def test_a_stop_saves_what_a_writer_that_ended_has_not(bench: Bench, tmp_path: Path) -> None:
    other = another(tmp_path)
    await watched(bench)
    other.close()
    results = await bench.stop()
    assert (bench.left, results) == ([], {"dgx1": ("stopped", ""), "dgx2": ("stopped", "")})
    assert bench.kept() == {"rank0.log": LOG, "rank1.log": LOG}


async def test_a_stop_takes_over_from_a_writer_that_ends_meanwhile(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = another(tmp_path)
    await watched(bench)
    unsaved = bench.ledger.unsaved

    def then_it_ends(names: Sequence[str]) -> dict[str, str]:
        other.close()
        return unsaved(names)

    monkeypatch.setattr(bench.ledger, "unsaved", then_it_ends)
    results = await bench.stop()
    assert (bench.left, results) == ([], {"dgx1": ("stopped", ""), "dgx2": ("stopped", "")})
    assert bench.kept() == {"rank0.log": LOG, "rank1.log": LOG}


async def test_who_watches_writes_on_where_the_writer_ended(bench: Bench, tmp_path: Path) -> None:
    other = another(tmp_path)
    await watched(bench)
    mine = bench.hub._takeovers[NAME]
    assert not await mine.now(), "the other still writes"
    other.close()
    mine.tick()
    assert mine._work is not None
    async with asyncio.timeout(10):
        await mine._work
    keeper = bench.ledger.held(NAME)
    assert keeper is not None and keeper.owns and keeper.behind == ()
    await asyncio.to_thread(keeper.flush)
    assert bench.kept() == {"rank0.log": LOG, "rank1.log": LOG}
    (folder,) = (tmp_path / "boots").glob("b*")
    state = replayed(folder)
    assert state is not None and [r.status for r in state.ranks] == ["running", "running"]
    with pytest.raises(BusyError):
        Journal(tmp_path / "boots").reopen(folder.name)


def test_only_what_the_journal_lacks_is_written(tmp_path: Path) -> None:
    folder = another(tmp_path)
    dead = ContainerSeen(NOW + 100, 0, "exited", 137)
    folder.append_event(encode_event(StopStarted(NOW + 99, "ann@desk")))
    folder.append_event(encode_event(dead))
    heard: list[Event] = [
        StopStarted(NOW + 20, "long ago"),
        ContainerSeen(NOW + 100.2, 0, "exited", 137),
        ContainerSeen(NOW + 99.5, 1, "exited", 0),
        ContainerSeen(NOW + 101, 0, "absent"),
        ContainerSeen(NOW + 101, 1, "absent"),
        StopEnded(NOW + 102, "stopped"),
    ]
    late = lacking(folder.path, heard)
    assert late == heard[2:]
    for event in late:
        folder.append_event(encode_event(event))
    folder.close()
    state = replayed(folder.path)
    assert state is not None and (state.phase, state.cause) == (Phase.STOPPED, None)


def test_a_mark_holds_while_its_process_stops_and_a_moment_longer(tmp_path: Path) -> None:
    assert read_stop_mark(tmp_path, NOW) is None
    write_stop_mark(tmp_path, "ann@desk, stopping since 02:13:20 UTC", NOW)
    mark = read_stop_mark(tmp_path, NOW + 5)
    assert mark is not None and (mark.by, mark.at) == ("ann@desk, stopping since 02:13:20 UTC", NOW)
    assert read_stop_mark(tmp_path, NOW + 3600) is None
    write_stop_mark(tmp_path, "ann", NOW, ended=NOW + 8, result="stopped")
    assert read_stop_mark(tmp_path, NOW + 30) is not None and read_stop_mark(tmp_path, NOW + 60) is None
    write_stop_mark(tmp_path, "ann", NOW, ended=NOW + 8, result="failed")
    assert read_stop_mark(tmp_path, NOW + 9) is None, "it ended nothing"


@pytest.mark.parametrize("text", ["", "[]", '{"by": 3}', '{"by": "x", "at": true}', "[" * 3000, "\xff"])
def test_what_is_no_mark_tells_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / MARK).write_bytes(text.encode("latin-1"))
    assert read_stop_mark(tmp_path, NOW) is None


def test_a_mark_of_a_process_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    write_stop_mark(tmp_path, "ann", NOW)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    file = tmp_path / MARK
    file.write_text(file.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {child}'))
    assert read_stop_mark(tmp_path, NOW + 1) is None


async def test_a_mark_names_who_stops_to_whoever_watches(bench: Bench, tmp_path: Path) -> None:
    other = another(tmp_path)
    await watched(bench)
    assert await bench.hub._who_stops(NAME, NOW - 60) == ""
    write_stop_mark(other.path, "ann@desk, stopping since 02:13:20 UTC", NOW)
    assert await bench.hub._who_stops(NAME, NOW - 60) == "ann@desk, stopping since 02:13:20 UTC"
    other.close()


async def test_every_stop_leaves_its_mark(bench: Bench, tmp_path: Path) -> None:
    other = another(tmp_path)
    await watched(bench)
    other.close()
    await bench.stop()
    await bench.hub.close()
    mark = read_stop_mark(other.path, NOW + 1)
    assert mark is not None and ", stopping since 14:13:20 UTC" in mark.by


def test_a_stop_begins_no_later_than_what_ended_by_it() -> None:
    state = reduce_all(opened(OPENED), [ContainerSeen(NOW, rank, "running") for rank in (0, 1)])
    by = "ann@desk, stopping since 14:15:00 UTC"  # NOW + 100 s
    assert began_at(by, NOW + 130, state, {}) == NOW + 100
    assert began_at("ann@desk, stopping since 14:16:00 UTC", NOW + 130, state, {}) == NOW + 130, "its clock is ahead"

    def row(rank: int, deployment: str) -> Containers:
        labels = {"nightdeck.deployment": deployment, "nightdeck.rank": str(rank)}
        ended = Container("x", "nd", "", "exited", labels, finished_at="2026-09-21T14:14:50Z")  # NOW + 90 s
        return Containers((ended,), "", "")

    assert began_at(by, NOW + 130, state, {"dgx1": row(0, "other")}) == NOW + 100
    assert began_at(by, NOW + 130, state, {"dgx2": row(1, NAME)}) == NOW + 90


async def test_a_node_that_is_cut_off_keeps_no_answer_of_the_others() -> None:
    class Says(FakeLink):
        async def run(
            self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20
        ) -> Completed:
            if self.name == "dgx2":
                await asyncio.Event().wait()
            return Completed(0, b"busy\nann@desk, stopping since 02:13:20 UTC\n", b"")

    controls = Controls(
        FakeFleet([Says("dgx1"), Says("dgx2")]),
        ["dgx1", "dgx2"],
        "bob@desk",
        ManualClock(NOW),
        told=lambda _severity, _text: None,
        acted=lambda _what, _detail: None,
        changed=lambda: None,
    )
    async with asyncio.timeout(10):
        said = await controls.holder_who(lambda holder: "stopping" in holder)
    assert said == "ann@desk, stopping since 02:13:20 UTC"
