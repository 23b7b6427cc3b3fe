"""The ledger: fast however many boots, settled by what nodes say, whole after a crash at any byte."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.base.errors import UsageError
from console.boot.events import (
    Acted,
    ApiSeen,
    BootFailed,
    BootOpened,
    ContainerSeen,
    RankRef,
    SmokeDone,
    StatsSeen,
    StopEnded,
    StopStarted,
)
from console.boot.reduce import opened, reduce
from console.boot.summary import GONE_WHY, summary_of
from console.boot.windows import Windows
from console.files.archive import Marks, log_files, pack_logs, read_lines, read_log
from console.files.boot_index import INDEX, BootIndex
from console.files.journal import Journal
from console.services.compare import compared
from console.services.ledger import Ledger, replayed
from console.services.retention import Limits, to_remove
from console.telemetry.sample import Memory, Sample
from console.telemetry.sampler import Sampler
from tests.services import nights
from tests.telemetry.test_sampler import frame

T0 = 1_790_000_000.0
OPENED = BootOpened(
    T0, "flash-b1-aa", 1, "flash", "Flash", "d", "dgx1", (RankRef(0, "dgx1", "f-r0"), RankRef(1, "dgx2", "f-r1")),
    T0, 1800.0, 8000, "flash",
)  # fmt: skip
RUNNING = [ContainerSeen(T0 + 1, n, "running", node=f"dgx{n + 1}") for n in (0, 1)]
READY = [*RUNNING, ApiSeen(T0 + 60, "healthy"), SmokeDone(T0 + 61, True, "Paris.", tokens_per_s=50.0)]


def ledger_in(folder: Path) -> Ledger:
    made = Ledger(Journal(folder / "boots"))
    made.cluster = "spark8"
    return made


def live(ledger: Ledger, *events: Any) -> None:
    """A boot as a follower writes it; the console then dies: nothing is closed in order."""
    keeper = ledger.keeper(OPENED.deployment, 1, "flash", now=T0)
    state = opened(OPENED)
    keeper.event(OPENED)
    for event in events:
        state = reduce(state, event)
        keeper.event(event)
        keeper.summary(state)
    keeper.summary(state)
    keeper.log(0, [b"2026-09-21T14:13:21.000000000Z hello"])
    keeper.flush()


def dead_copy(folder: Path, target: Path) -> Path:
    """The disk of a console that died: its files, and no process that holds a lock on them."""
    shutil.copytree(folder, target)
    return target


def settled(folder: Path, present: set[str], answered: set[str], cluster: str = "spark8") -> dict[str, Any]:
    ledger = ledger_in(folder)
    ledger.cluster = cluster
    ledger.settle(present, answered, whole="dgx3" in answered, now=T0 + 5000)
    ledger.close()
    return json.loads(next((folder / "boots").glob("b*/boot.json")).read_text())


@pytest.fixture
def dead(tmp_path: Path) -> Callable[..., Path]:
    def make(*events: Any) -> Path:
        ledger = ledger_in(tmp_path / "alive")
        live(ledger, *events)
        path = dead_copy(tmp_path / "alive", tmp_path / "dead")
        ledger.close()
        return path

    return make


def test_a_boot_whose_console_died_and_whose_containers_are_gone(dead: Callable[..., Path]) -> None:
    row = settled(dead(*READY), set(), {"dgx1", "dgx2", "dgx3"})
    assert (row["state"], row["failed_why"]) == ("unknown", GONE_WHY)
    assert (row["ready_s"], row["smoke_text"], row["cluster"]) == (61.0, "Paris.", "spark8")


def test_what_the_events_say_is_not_forgotten(dead: Callable[..., Path]) -> None:
    """The console died between the last event and the row: the events are what happened."""
    folder = dead(*READY, StopStarted(T0 + 100), StopEnded(T0 + 120, "stopped"))
    row_file = next((folder / "boots").glob("b*/boot.json"))
    row_file.write_text(json.dumps({**json.loads(row_file.read_text()), "state": "ready"}))
    assert settled(folder, set(), {"dgx1", "dgx2"})["state"] == "stopped"


def test_a_console_that_died_before_anything_was_started(tmp_path: Path) -> None:
    """Its row tells no nodes: the verdict needs the word of all of them."""
    ledger = ledger_in(tmp_path / "alive")
    ledger.keeper(OPENED.deployment, 1, "flash", now=T0).flush()
    folder = dead_copy(tmp_path / "alive", tmp_path / "dead")
    ledger.close()
    assert settled(folder, set(), {"dgx1", "dgx2"})["state"] == "starting"
    assert settled(folder, {OPENED.deployment}, {"dgx1", "dgx2", "dgx3"})["state"] == "starting"
    assert settled(folder, set(), {"dgx1", "dgx2", "dgx3"})["state"] == "unknown"


def test_a_failure_keeps_its_name(dead: Callable[..., Path]) -> None:
    row = settled(dead(*RUNNING, BootFailed(T0 + 9, "rank 1 ended", 1, "dgx2")), set(), {"dgx1", "dgx2"})
    assert (row["state"], row["failed_why"]) == ("failed", "rank 1 ended")


@pytest.mark.parametrize(
    ("present", "answered", "cluster"),
    [
        ({OPENED.deployment}, {"dgx1", "dgx2"}, "spark8"),  # it lives: a follower takes it up
        (set(), {"dgx1"}, "spark8"),  # dgx2 did not answer: nobody knows
        (set(), {"dgx1", "dgx2"}, "other"),  # another cluster's nodes say nothing of it
    ],
)
def test_no_verdict_without_the_nodes(
    dead: Callable[..., Path], present: set[str], answered: set[str], cluster: str
) -> None:
    assert settled(dead(*READY), present, answered, cluster)["state"] == "ready"


def test_a_label_with_any_number_is_kept_under_one_of_our_own(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    for n, number in enumerate((999_999_999, 1, 999_999_998)):
        ledger.keeper(f"flash-b{number}-aa", number, "flash", now=T0 + n)
    assert [b.number for b in ledger.boots()] == [3, 2, 1]
    assert ledger.next_number() == 4
    ledger.close()


def test_a_boot_that_a_console_writes_is_left_alone(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    live(ledger, *READY)
    assert settled(tmp_path, set(), {"dgx1", "dgx2"})["state"] == "ready"
    ledger.close()


def test_found_again_it_keeps_what_was_known(dead: Callable[..., Path]) -> None:
    """A second console adopts the deployment an hour later: its first look is not the moment of ready."""
    ledger = ledger_in(dead(*READY, Acted(T0 + 70, "note", "first")))
    keeper = ledger.keeper(OPENED.deployment, 1, "flash", now=T0 + 3600)
    assert keeper.held_lines(0) == [b"2026-09-21T14:13:21.000000000Z hello"]
    state = opened(replace(OPENED, at=T0 + 3600, adopted=True))
    for event in [*RUNNING, ApiSeen(T0 + 3601, "healthy"), SmokeDone(T0 + 3602, True, "Paris again.")]:
        state = reduce(state, event)
    keeper.summary(state)
    ledger.close()
    (boot,) = ledger.boots()
    assert (boot.state, boot.ready_s, boot.note) == ("ready", 61.0, "first")


def test_found_again_its_secrets_are_still_secret(dead: Callable[..., Path]) -> None:
    """Whoever takes a boot up knows the recipe's values, and no plan tells them once more."""
    folder = dead(*READY)
    ledger = ledger_in(folder)
    ledger.keeper(OPENED.deployment, 1, "flash", now=T0 + 3600)
    keeper = ledger.keeper(OPENED.deployment, 1, "flash", now=T0 + 3600, secrets={"plain-secret-1"})
    keeper.log(0, [b"2026-09-21T15:13:21.000000000Z started with plain-secret-1"])
    ledger.close()
    log = next((folder / "boots").glob("b*/rank0.log")).read_bytes()
    assert log.endswith(b"Z hello\n2026-09-21T15:13:21.000000000Z started with ***\n")


@pytest.mark.parametrize("name", ["events.jsonl", "boot.json", "telemetry.jsonl", "rank0.log", "marks.json"])
def test_a_crash_at_any_byte_leaves_a_ledger_that_reads(dead: Callable[..., Path], name: str) -> None:
    folder = dead(*READY)
    path = next((folder / "boots").glob("b*"))
    (path / "marks.json").write_text('{"note": "kept", "starred": true}')
    (path / "telemetry.jsonl").write_text('{"at":1,"s":10,"node":"dgx1","n":1,"mem_available":[5,6]}\n')
    whole = (path / name).read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 60)):
        (path / name).write_bytes(whole[:size])
        os.utime(path, ns=(size * 10**9, size * 10**9))  # a folder that changed, as a rename of its files makes it
        (boot,) = Ledger(Journal(folder / "boots")).boots()
        assert boot.number == 1 and boot.recipe == "flash"
        replayed(path)
        assert all(isinstance(row, dict) for row in read_lines(path / "telemetry.jsonl"))


def test_two_thousand_boots_are_listed_and_opened_at_once(tmp_path: Path) -> None:
    root = tmp_path / "boots"
    for n in range(1, 2001):
        path = root / f"b{n:04d}-flash-20260921T{n // 3600:02}{n // 60 % 60:02}{n % 60:02}Z"
        path.mkdir(parents=True)
        row = {"state": "stopped", "ready_s": 600.0, "stages": nights.STAGES, "changed": ["--a 1 -> 2"], "note": ""}
        (path / "boot.json").write_text(json.dumps(row))
        os.utime(path, ns=(10**18, 10**18))
    index = BootIndex(Journal(root))
    assert len(index.boots()) == 2000  # the first look reads every folder, and remembers
    taken = []
    for _ in range(5):
        started = time.process_time()  # the machine may be busy with others
        rows = Ledger(Journal(root)).boots()
        taken.append(time.process_time() - started)
        assert (rows[0].number, rows[0].ready_s, len(rows)) == (2000, 600.0, 2000)
    assert min(taken) < 0.2, taken
    started = time.process_time()
    assert BootIndex(Journal(root)).find("1234").entry.number == 1234
    assert time.process_time() - started < 0.3


def test_the_index_is_only_a_copy(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "boots")
    nights.night(journal)
    for path in journal.root.glob("b*"):
        os.utime(path, ns=(10**18, 10**18))
    first = [b.entry.id for b in BootIndex(journal).boots()]
    (journal.root / INDEX).write_bytes(b'{"version": 2, "rows": {"x": [1]}, half')
    assert [b.entry.id for b in BootIndex(journal).boots()] == first
    ledger = Ledger(journal)
    ledger.note("12", "worth keeping")
    assert ledger.boots()[2].note == "worth keeping"
    ledger.note("12", "")
    assert ledger.boots()[2].note == ""
    shutil.rmtree(journal.root / first[0])
    assert [b.number for b in Ledger(journal).boots()] == [13, 12, 11]


def test_old_boots_go_but_never_one_that_runs_or_is_marked(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "boots")
    for n in range(1, 8):
        nights.boot(journal, n, T0 + n, state="stopped", ready_s=60.0, note="noted" if n == 2 else "")
    ledger = Ledger(journal)
    ledger.star("3", True)
    running = journal.reopen("1")
    rows = ledger.index.boots()
    assert [r.entry.number for r in to_remove(rows, Limits(keep=2), lambda _: 0)] == [1, 4, 5]
    gone = ledger.retain(Limits(keep=2))  # its row says that boot 1 is stopped; its lock says that somebody writes it
    assert [int(name[1:5]) for name in gone] == [4, 5]
    running.close()
    assert [b.number for b in ledger.boots()] == [7, 6, 3, 2, 1]
    ledger.retain(Limits(keep=1, marked_too=True))
    assert [b.number for b in ledger.boots()] == [7]


def test_size_is_a_limit_too(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "boots")
    for n in range(1, 5):
        nights.boot(journal, n, T0 + n, state="stopped", ready_s=60.0)
    rows = BootIndex(journal).boots()
    assert [r.entry.number for r in to_remove(rows, Limits(keep_bytes=250), lambda _: 100)] == [1, 2]
    assert to_remove(rows, Limits(), lambda _: 100) == []


def test_logs_are_packed_whole_and_read_back(tmp_path: Path) -> None:
    path = nights.boot(Journal(tmp_path / "boots"), 1, T0, state="stopped", ready_s=60.0)
    data = b"".join(b"line %d of a log \xff\n" % n for n in range(50_000))
    (path / "rank0.log").write_bytes(data)
    assert pack_logs(path) > len(data) // 2
    assert [p.name for p in log_files(path).values()] == ["rank0.log.gz"]
    assert b"".join(read_log(path / "rank0.log.gz")) == data == gzip.decompress((path / "rank0.log.gz").read_bytes())
    (path / "rank0.log").write_bytes(data)  # a crash between the packed file and the removal leaves both
    assert [p.name for p in log_files(path).values()] == ["rank0.log"]
    (path / "rank0.log").unlink()
    (path / "rank0.log.gz").write_bytes((path / "rank0.log.gz").read_bytes()[:1000])
    assert data.startswith(b"".join(read_log(path / "rank0.log.gz")))


def test_telemetry_is_lows_and_highs() -> None:
    windows = Windows(10.0)
    assert windows.add("n", 100.0, {"mem_available": 5e9, "load": 1.0}) is None
    assert windows.add("n", 109.0, {"mem_available": 3e9, "load": 3.456}) is None
    assert windows.add("n", 110.0, {"mem_available": 4e9}) == {
        "at": 100.0, "s": 10.0, "node": "n", "n": 2,
        "mem_available": [3_000_000_000, 5_000_000_000], "load": [1.0, 3.46],
    }  # fmt: skip
    assert windows.lowest == {"n": 3_000_000_000}
    assert [row["at"] for row in windows.rest()] == [110.0] and windows.rest() == []


def test_figures_of_the_engine_and_of_nodes_are_kept_sparsely(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    keeper = ledger.keeper(OPENED.deployment, 1, "flash", now=T0)
    for n in range(50):
        keeper.event(StatsSeen(T0 + n, {"running": 1.0}))
        memory = Memory(available_bytes=(50 - n) * 2**30)
        keeper.sample(Sample("dgx1", n, float(n), float(n), 4e9, memory=memory, heard_at=T0 + n))
    path = keeper.path
    ledger.close()
    assert path is not None and keeper.lowest == 2**30
    events = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
    assert [e["at"] - T0 for e in events] == [0, 10, 20, 30, 40]
    rows = list(read_lines(path / "telemetry.jsonl"))
    assert [r["n"] for r in rows] == [10, 10, 10, 10, 10]


@pytest.mark.parametrize("off", [95.0, 4e9 - T0, -86400.0, None], ids=["ahead", "far ahead", "a day behind", "unknown"])
def test_a_nodes_clock_makes_no_gap_and_hides_none(tmp_path: Path, off: float | None) -> None:
    ledger = ledger_in(tmp_path)
    keeper = ledger.keeper(OPENED.deployment, 1, "flash", now=T0)
    samplers = {"dgx1": (Sampler("dgx1"), 0.0), "dgx2": (Sampler("dgx2"), off)}

    def seen(*seconds: int) -> tuple[float, float, float]:
        for second in seconds:
            for sampler, ahead in samplers.values():
                clock = None if ahead is None else T0 + second + ahead
                one = frame(second, float(second), w=clock)
                keeper.sample(sampler.step(one, received_at=float(second), wall=T0 + second))
        row = summary_of(opened(OPENED), keeper.lowest, keeper._windows)
        return row["memory_from"] - T0, row["memory_until"] - T0, row["memory_unseen_s"]

    assert seen(*range(1, 120)) == (1.0, 119.0, 0.0)
    assert seen(*range(719, 730)) == (1.0, 729.0, 600.0)
    path = keeper.path
    ledger.close()
    assert path is not None
    assert {row["at"] - T0 for row in read_lines(path / "telemetry.jsonl")} <= set(range(-10, 730))


def test_names_of_boots(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "boots")
    nights.night(journal)
    index = BootIndex(journal)
    assert [index.find(n).entry.number for n in ("last", "served", "12", "b13", index.find("11").entry.id)] == [
        14, 14, 12, 13, 11,
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"no boot 99 in the ledger"):
        index.find("99")
    found = compared(index, [], ["13"])  # what changed since the last that served
    assert (found.a.number, found.b.number) == (12, 13)
    assert [r.name for r in found.sections[0].shown] == ["--gpu-memory-utilization"]
    assert Marks() == index.find("11").marks
