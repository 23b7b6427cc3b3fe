"""A disk that is full, a clock that goes back, files of another version or half a file: told once, nothing lost."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.boot.events import Acted, BootFailed, BootOpened, RankRef
from console.boot.reduce import opened, reduce
from console.files import atomic
from console.files.boot_folder import BootFolder
from console.files.journal import Journal, read_events
from console.services import disk_queue
from console.services.compare import record_of
from console.services.keeper import Keeper
from console.services.ledger import Ledger, replayed, summary_row
from console.services.report import report_since, write_report
from console.services.tail import Tail
from console.transport.base import Completed
from tests.services.fakes import FakeLink, FakeStream, ManualClock
from tests.services.nights import T0, boot

OPENED = BootOpened(T0, "d1", 1, "flash", "f", "x", "dgx1", (RankRef(0, "dgx1", "c0"),), T0, 900.0, 8000, "s")


class FullDisk:
    """Every write beyond `room` bytes meets ENOSPC, part of it written, as a real one's is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 40
        real = os.write

        def write(descriptor: int, data: bytes) -> int:
            if self.room <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done = real(descriptor, data[: self.room])
            self.room -= done
            return done

        monkeypatch.setattr(atomic.os, "write", write)


def settled(ledger: Ledger) -> None:
    ledger._thread.submit(lambda: None).result(timeout=30)


def line(n: int) -> bytes:
    return b"2026-09-18T21:00:%02d.%09dZ line %d " % (n % 60, n, n) + b"x" * 200


def test_a_disk_that_is_full_for_a_while_costs_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch)
    told: list[str] = []
    ledger = Ledger(Journal(tmp_path / "boots"), told.append)
    keeper = ledger.keeper("d1", 1, "flash", now=T0)
    keeper.event(OPENED)
    state = opened(OPENED)
    for n in range(300):
        if n == 100:
            settled(ledger)
            disk.room = 5_000  # it fills up in the middle of a line
        if n == 200:
            settled(ledger)
            disk.room = 1 << 40
        keeper.log(0, [line(n)])
        keeper.event(Acted(T0 + n, "note", f"n{n}"))
    failed = BootFailed(T0 + 400, "rank 3 died")
    keeper.event(failed)
    keeper.summary(reduce(state, failed))
    settled(ledger)
    path = keeper.path
    assert path is not None
    assert [t.split(":")[0] for t in told] == [
        "this boot is not kept on disk for now; it is held in memory and tried again",
        "this boot is kept on disk again; nothing was lost",
    ]
    assert (path / "rank0.log").read_bytes().split(b"\n") == [*(line(n) for n in range(300)), b""]
    events = [e.event for e in read_events(path)]
    assert None not in events and len(events) == 302
    ledger.close()
    (row,) = Ledger(Journal(tmp_path / "boots")).boots()
    assert (row.state, row.cause) == ("failed", "rank 3 died")


def test_a_disk_that_stays_full_is_told_and_what_is_there_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch)
    told: list[str] = []
    ledger = Ledger(Journal(tmp_path / "boots"), told.append)
    keeper = ledger.keeper("d1", 1, "flash", now=T0)
    keeper.event(OPENED)
    settled(ledger)
    disk.room = 1_000
    for n in range(50):
        keeper.log(0, [line(n)])
    with pytest.raises(TimeoutError):
        keeper.flush()
    other = ledger.keeper("d2", 2, "flash", now=T0 + 1)  # the launch goes on without a folder, and none is left behind
    assert other.path is None and other.held_lines(0) == []
    ledger.close()
    assert told[-1].startswith("47 writes of this boot are lost with this console") or "writes of this boot" in told[-1]
    disk.room = 1 << 40
    (entry,) = Journal(tmp_path / "boots").boots()
    assert not entry.live and (entry.path / "rank0.log").read_bytes().endswith(b"\n")
    again = Ledger(Journal(tmp_path / "boots"))
    again.settle((), ["dgx1"], whole=True, now=T0 + 900)
    settled(again)
    assert again.boots()[0].state == "unknown"
    again.close()


def test_a_state_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "boots").write_text("a file where the folder should be")
    told: list[str] = []
    ledger = Ledger(Journal(tmp_path / "boots"), told.append)
    keeper = ledger.keeper("d1", 1, "flash", now=T0)
    keeper.event(OPENED)
    keeper.log(0, [b"x"])
    ledger.close()
    assert len(told) == 1 and told[0].startswith("this boot is not kept on disk") and str(tmp_path) in told[0]


def test_two_consoles_of_one_machine_write_two_boots_and_never_one(tmp_path: Path) -> None:
    journal = tmp_path / "boots"
    told: list[str] = []
    one, two = Ledger(Journal(journal), told.append), Ledger(Journal(journal), told.append)
    mine, theirs = one.keeper("d1", 1, "flash", now=T0), two.keeper("d1", 1, "flash", now=T0)
    assert mine.writes and not theirs.writes  # the second follows, and leaves the writing to the first
    mine.event(OPENED)
    theirs.event(OPENED)
    number = two.next_number()
    assert number == 2
    other = two.keeper("d2", number, "flash", now=T0)
    third = one.keeper("d3", number, "flash", now=T0)  # both looked before either had begun
    assert other.writes and third.writes
    one.close()
    two.close()
    assert [e.number for e in Journal(journal).boots()] == [3, 2, 1] and told == []
    assert len([e for e in read_events(Journal(journal).get("1").path) if e.event is not None]) == 1


def test_a_clock_that_goes_back_changes_no_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "boots")
    for n, at in enumerate((T0, T0 - 86_400, T0 - 86_400, T0 + 5), 1):
        with journal.open_boot("flash", now=at) as folder:
            assert folder.number == n
            folder.write_summary({"deployment": f"d{n}", "state": "stopped", "started_at": at})
    assert [b.number for b in Ledger(journal).boots()] == [4, 3, 2, 1]
    assert Ledger(journal).index.find("last").entry.number == 4


def test_a_folder_of_a_newer_version_is_listed_and_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "boots")
    path = boot(journal, 1, T0, ready_s=600.0, state="hibernating", schema=9, unheard_of={"a": [1]})
    lines = [
        json.dumps({"type": "Levitated", "at": T0, "height": 3}),
        json.dumps({"type": "BootOpened", **_fields(OPENED), "colour": "blue"}),
        "{half a line",
        json.dumps({"type": "BootFailed", "at": T0 + 9, "why": "rank 3 died", "rank": 3, "node": "dgx4", "mood": None}),
    ]
    (path / "events.jsonl").write_text("\n".join(lines) + "\n")
    (row,) = Ledger(journal).boots()
    assert (row.state, row.ready_s) == ("hibernating", 600.0)
    state = replayed(path)
    assert state is not None and state.failed_why == "rank 3 died"


def _fields(event: BootOpened) -> dict[str, Any]:
    from console.files.event_codec import encode_event

    return encode_event(event)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    "state", "cause", "stages", "started_at", "ready_s", "changed", "note", "min_available_bytes", "tokens_per_s",
    "min_available_by_node", "smoke_text", "failed_why", "nodes", "deployment", "recipe", "cluster", "ended_at",
)  # fmt: skip


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(row=st.dictionaries(st.sampled_from(KEYS), ANY, max_size=8), measure=ANY)
def test_any_row_is_listed_opened_and_reported(
    tmp_path_factory: pytest.TempPathFactory, row: Any, measure: Any
) -> None:
    """What another version, or a hand, wrote into a row costs that row's value and nothing else."""
    root = tmp_path_factory.mktemp("rows")
    journal = Journal(root / "boots")
    with journal.open_boot("flash", now=T0) as folder:
        path = folder.path
    (path / "boot.json").write_text(json.dumps(row))
    (path / "measure.json").write_text(json.dumps(measure))
    ledger = Ledger(journal)
    try:
        listed = ledger.index.find("1")
        summary_row(listed)
        record_of(listed)
        write_report(report_since(ledger.index, T0 - 10, T0 + 10_000), root / "report")
        ledger.settle((), (), whole=True, now=T0 + 1)
        settled(ledger)
    finally:
        ledger.close()


def test_a_log_that_was_dropped_while_the_disk_was_full_is_never_called_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_queue, "MOST_BYTES", 2_000)
    disk = FullDisk(monkeypatch)
    told: list[str] = []
    ledger, clock = with_clock(tmp_path, told)
    keeper = ledger.keeper("d1", 1, "flash", now=T0)
    keeper.log(0, [line(0)])
    settled(ledger)
    assert ledger.unsaved(["d1"]) == {}
    disk.room = 0
    for n in range(1, 21):
        clock.now += 3.0
        keeper.log(0, [line(n)])
        settled(ledger)
    disk.room = 1 << 40
    keeper.log(0, [line(21)])
    settled(ledger)
    assert told[-1] == "this boot is kept on disk again, but not all that came meanwhile"
    assert keeper.path is not None
    kept = (keeper.path / "rank0.log").read_bytes().splitlines()
    lost = 22 - len(kept)
    assert 0 < lost < 20 and kept[-1] == line(21)
    why = f"{lost} pieces of its logs came while this machine's disk took nothing, and were not kept"
    assert ledger.unsaved(["d1"]) == {"d1": why}
    ledger.close()


def with_clock(root: Path, told: list[str]) -> tuple[Ledger, ManualClock]:
    """A ledger whose disk hangs as long as a test says."""
    ledger, clock = Ledger(Journal(root / "boots"), told.append), ManualClock()
    ledger._pulse.clock = clock.monotonic
    ledger._pulse.beat()
    return ledger, clock


class SlowDisk:
    """A write waits for its turn; `whole`: for none any more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._turns = threading.Semaphore(0)
        self._whole = False
        real = os.write

        def write(descriptor: int, data: bytes) -> int:
            if not self._whole:
                assert self._turns.acquire(timeout=30)
            return real(descriptor, data)

        monkeypatch.setattr(os, "write", write)

    def write_one(self, keeper: Keeper) -> None:
        before = keeper._backlog._items
        self._turns.release()
        while keeper._backlog._items == before:
            os.sched_yield()

    def whole(self) -> None:
        self._whole = True
        self._turns.release()


NOTHING = "this machine's disk takes nothing, and memory for it is used up: what comes now is not kept"


def test_a_disk_that_hangs_costs_no_more_memory_than_is_allowed_and_is_one_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_queue, "MOST_BYTES", 20_000)
    told: list[str] = []
    ledger, clock = with_clock(tmp_path, told)
    keeper = ledger.keeper("d1", 1, "flash", now=T0)
    settled(ledger)
    disk = SlowDisk(monkeypatch)
    for n in range(1_000):
        clock.now += 1.0
        keeper.log(0, [line(n)])
    assert ledger._thread._work_queue.qsize() < 100, "some of it waits, and no more"
    assert told == [NOTHING]
    for n in range(1_000, 1_010):  # it moves again, no faster than lines come
        disk.write_one(keeper)
        keeper.log(0, [line(n)])
    assert told == [NOTHING], "what waits is not kept yet"
    disk.whole()
    settled(ledger)
    assert told[1:] == ["this boot is kept on disk again, but not all that came meanwhile"]
    assert keeper.path is not None
    kept = (keeper.path / "rank0.log").read_bytes().splitlines()
    assert kept[:2] == [line(0), line(1)] and 10 < len(kept) < 200
    assert kept[-10:] == [line(n) for n in range(1_000, 1_010)], "nothing is lost once it moves"
    assert list(ledger.unsaved(["d1"])) == ["d1"]
    ledger.close()


async def test_a_disk_that_is_slower_than_a_log_is_waited_for_and_costs_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_queue, "MOST_BYTES", 40_000)
    told: list[str] = []
    ledger, _ = with_clock(tmp_path, told)
    keeper = ledger.keeper("d1", 1, "flash", now=T0)
    settled(ledger)
    disk = SlowDisk(monkeypatch)
    night = b"".join(line(n) + b"\n" for n in range(2_000))
    pieces = [night[at : at + 65_536] for at in range(0, len(night), 65_536)]
    link = FakeLink("dgx1", streams=[FakeStream(pieces, Completed(0, b"", b""))])
    tail = Tail(link, "docker", "c", lambda rows: keeper.log(0, rows), ManualClock(), follow=False, room=keeper.room)
    reading = asyncio.create_task(tail.run())
    for _ in range(2_000):
        await asyncio.sleep(0)
    assert ledger._thread._work_queue.qsize() < 10 and not reading.done() and told == []
    disk.whole()
    async with asyncio.timeout(30):
        await reading
    assert await asyncio.to_thread(ledger.unsaved, ["d1"]) == {} and told == [] and keeper.path is not None
    assert (keeper.path / "rank0.log").read_bytes() == night
    ledger.close()


async def test_a_disk_that_hangs_keeps_no_log_from_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_queue, "MOST_BYTES", 2_000)
    told: list[str] = []
    ledger, clock = with_clock(tmp_path, told)
    keeper = ledger.keeper("d1", 1, "flash", now=T0)
    settled(ledger)
    disk = SlowDisk(monkeypatch)
    for n in range(20):
        keeper.log(0, [line(n)])
    waits = asyncio.create_task(keeper.room())
    await asyncio.sleep(0)
    assert not waits.done()
    clock.now += disk_queue.HANGS_S + 1
    async with asyncio.timeout(30):
        await waits
    assert told == []
    disk.whole()
    await asyncio.to_thread(ledger.close)


def test_another_boots_writes_are_no_hanging_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread writes all boots: behind another's night of logs a boot's own writes wait, and are not lost."""
    monkeypatch.setattr(disk_queue, "MOST_BYTES", 2_000)
    told: list[str] = []
    ledger, clock = with_clock(tmp_path, told)
    one, two = (ledger.keeper(f"d{n}", n, "flash", now=T0) for n in (1, 2))
    settled(ledger)
    disk = SlowDisk(monkeypatch)
    for n in range(5):
        one.log(0, [line(n)])
    two.log(0, [line(0)])
    for n in range(1, 5):
        clock.now += 20.0
        disk.write_one(one)
        two.log(0, [line(n) * 3])
    disk.whole()
    settled(ledger)
    assert ledger.unsaved(["d1", "d2"]) == {} and told == []
    ledger.close()


def test_logs_are_on_the_disk_itself_also_where_nothing_more_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_queue, "MOST_BYTES", 2_000)
    told: list[str] = []
    ledger, clock = with_clock(tmp_path, told)
    keeper = ledger.keeper("d1", 1, "flash", now=T0)
    settled(ledger)
    synced = 0
    real = BootFolder.sync

    def sync(folder: BootFolder) -> None:
        nonlocal synced
        synced += 1
        real(folder)

    monkeypatch.setattr(BootFolder, "sync", sync)
    disk = SlowDisk(monkeypatch)
    for n in range(100):
        clock.now += 1.0
        keeper.log(0, [line(n)])
    assert told == [NOTHING]
    monkeypatch.setattr(ledger._thread, "submit", releasing(ledger._thread.submit, disk))
    keeper.flush()
    assert synced == 1
    ledger.close()


def releasing(real: Callable[..., Any], disk: SlowDisk) -> Callable[..., Any]:
    """The disk goes on only once a flush has handed over what it has."""

    def submit(work: Callable[[], None]) -> Any:
        asked = real(work)
        if work.__name__ == "<lambda>":
            disk.whole()
        return asked

    return submit
