"""A checkpoint of a large cluster after many boots: small rows, a slice at a time, of what is still of use."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.boot.events import BootFailed, BootOpened, RankRef
from console.boot.reduce import opened, reduce
from console.boot.state import BootState
from console.cluster.model import Cluster, Node
from console.enginelog.stages_model import Cell, CellState, Stage
from console.files.atomic import DiskError
from console.files.recording import MEMBER_S, checkpoints, read_from
from console.services.hub import LogLine
from console.services.recorder import Recorder
from console.services.recorder_kept import RANKS, TAIL_CHARS, TAIL_LINES
from console.services.replay import ReplayHub
from console.services.replay_rows import recording
from console.telemetry.frames import Frame
from tests.services.fakes import ManualClock

NODES = 40
BOOTS = 6
CLUSTER = Cluster("farm", "farm", tuple(Node(f"dgx{i}", f"dgx{i}") for i in range(NODES)))
CELLS = tuple(Cell(stage, CellState.DONE, at=1.0, line=3) for stage in Stage)


def line(index: int, text: str) -> LogLine:
    return LogLine(0, 0, "dgx0", index, 1.0, "INFO", "", text)


def boot(number: int, at: float) -> tuple[BootOpened, BootState]:
    ranks = tuple(RankRef(i, f"dgx{i}", f"c{i}") for i in range(NODES))
    event = BootOpened(at, f"d{number}", number, "flash", "Flash", "x", "dgx0", ranks, at, 3600.0, 8000, "m")
    state = opened(event)
    return event, replace(state, ranks=tuple(replace(rank, cells=CELLS) for rank in state.ranks))


def session(path: Path, told: list[str]) -> tuple[Recorder, ManualClock]:
    """Every boot but the last has failed, and the next row is to begin a checkpoint."""
    clock = ManualClock()
    recorder = Recorder(path, CLUSTER, clock, told.append)
    for number in range(BOOTS):
        clock.now += 1
        event, state = boot(number, clock.now)
        recorder.event(event.deployment, event, state)
        recorder.lines(event.deployment, [line(n, f"boot {number} line {n}") for n in range(TAIL_LINES + 50)])
        if number < BOOTS - 1:
            failed = BootFailed(clock.now, "no more")
            recorder.event(event.deployment, failed, reduce(state, failed))
    recorder.lines("d0", [line(10_000, "a word after the end")])
    host = {"meminfo": "MemTotal: 127600812 kB\nMemAvailable: 9000000 kB\n", "boot_id": "b\n", "why": {}}
    for node in CLUSTER.nodes:
        recorder.frame(node.name, Frame(1, {"part": "all", "t": 1.0, "host": host, "self": {"pid": 1}}))
    clock.now += MEMBER_S + 1
    return recorder, clock


def after(path: Path) -> list[Any]:
    return list(read_from(path, checkpoints(path)[-1][1]))


def go_on(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> int:
    """All slices of a checkpoint under way, by hand; how many there were."""
    ticks = itertools.count()
    monkeypatch.setattr("console.services.recorder.perf_counter", lambda: float(next(ticks)))  # one part is a slice
    slices = 0
    while recorder._timer is not None:
        recorder._timer.cancel()
        recorder._slice()
        slices += 1
    return slices


def test_a_checkpoint_is_of_small_rows_and_of_what_lives_or_ended_last(tmp_path: Path) -> None:
    told: list[str] = []
    recorder, _ = session(tmp_path / "a.rec", told)
    recorder.trouble("dgx3", "refused", "connection refused")
    recorder.close()
    rows = after(tmp_path / "a.rec")
    kept = [row[2] for row in rows if row[1] == "checkpoint"]
    assert [row[1] for row in rows] == ["checkpoint"] * len(kept) + ["trouble"] and told == []
    assert max(len(json.dumps(row)) for row in rows) < 150_000
    assert {name for part in kept for name in part.get("frames", {})} == {n.name for n in CLUSTER.nodes}
    assert [s["deployment"] for part in kept for s in part.get("states", ())] == [f"d{BOOTS - 1}", f"d{BOOTS - 2}"]
    logs = {name: log for part in kept for name, log in part.get("log", {}).items()}
    assert set(logs) == {f"d{BOOTS - 1}", f"d{BOOTS - 2}"}
    assert all((len(log["lines"]), log["count"]) == (TAIL_LINES, 50) for log in logs.values())


async def test_in_a_loop_it_is_written_a_slice_at_a_time_and_rows_wait_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    sliced, clock = session(tmp_path / "sliced.rec", told)
    for n in range(3):
        clock.now += 1
        sliced.trouble("dgx3", "refused", f"connection refused {n}")
    assert len(after(tmp_path / "sliced.rec")) == 1, "its first part, and nothing of what comes after it"
    assert go_on(sliced, monkeypatch) >= NODES
    sliced.trouble("dgx3", "", "")
    sliced.close()
    closed, clock = session(tmp_path / "closed.rec", told)
    for n in range(3):
        clock.now += 1
        closed.trouble("dgx3", "refused", f"connection refused {n}")
    closed.trouble("dgx3", "", "")
    closed.close()  # in the midst of it
    rows = after(tmp_path / "sliced.rec")
    words = [["trouble", "dgx3", "refused", f"connection refused {n}"] for n in range(3)]
    assert [row[1:] for row in rows[-4:]] == [*words, ["trouble", "dgx3", "", ""]]
    assert [row[1:] for row in rows] == [row[1:] for row in after(tmp_path / "closed.rec")] and told == []


async def test_a_disk_that_is_full_in_the_midst_of_it_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    recorder, clock = session(tmp_path / "a.rec", told)
    recorder.trouble("dgx3", "refused", "x")

    def full(*_: object, **__: object) -> None:
        raise DiskError("cannot be written: No space left on device", where="x")

    monkeypatch.setattr(recorder._writer, "write", full)
    assert go_on(recorder, monkeypatch) == 1
    clock.now += 1
    recorder.trouble("dgx3", "refused", "y")
    assert told == ["the recording ends here: x: cannot be written: No space left on device"]


async def test_a_replay_from_there_shows_what_one_from_the_start_shows(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    recorder, clock = session(path, [])
    for second in range(0, 1300, 100):
        clock.now += 100
        recorder.trouble("dgx3", "refused", f"connection refused {second}")
    recorder.close()
    source = recording(path)
    whole, quick = (ReplayHub(s, ManualClock(0.0)) for s in (replace(source, checkpoints=()), source))
    for hub in (whole, quick):
        await hub.seek(1600.0)
    assert NODES > RANKS and quick.applied != whole.applied
    shown, same = quick.snapshot().boot, whole.snapshot().boot
    assert shown is not None and same is not None
    assert (shown.deployment, len(shown.ranks)) == (f"d{BOOTS - 1}", NODES)
    assert shown.ranks[33].cells == CELLS and [r.rank for r in shown.ranks] == list(range(NODES))
    assert replace(shown, ranks=()) == replace(same, ranks=())
    lines = quick.log(0, limit=10**6)
    assert [x.text for x in lines.lines] == [x.text for x in whole.log(0, limit=10**6).lines][-TAIL_LINES:]
    assert quick.log(0, limit=10**6).next_seq == TAIL_LINES + 50
    assert {v.node.name: v.trouble for v in quick.snapshot().nodes} == {
        v.node.name: v.trouble for v in whole.snapshot().nodes
    }


def test_long_lines_make_no_long_row(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    clock = ManualClock()
    recorder = Recorder(path, CLUSTER, clock, lambda why: None)
    recorder.lines("d", [line(n, "x" * 60_000) for n in range(100)])
    clock.now += MEMBER_S + 1
    recorder.lines("d", [line(100, "the last")])
    recorder.close()
    rows = [row for row in read_from(path, 0) if isinstance(row, list)]
    assert max(len(json.dumps(row)) for row in rows) < TAIL_CHARS + 10_000
    assert [n[2] for row in rows if row[1] == "log" for n in row[3]] == list(range(101))
    (log,) = [row[2]["log"]["d"] for row in rows if row[1] == "checkpoint" and "log" in row[2]]
    assert (log["count"], len(log["lines"])) == (96, 4)
