"""A long recording: to seek costs the same wherever it goes, and what is shown there is what was."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.base.findings import Severity
from console.boot.events import BootFailed, BootOpened, CauseFound, ContainerSeen, Event, RankRef, SmokeDone, StatsSeen
from console.boot.reduce import opened, reduce
from console.boot.state import BootState
from console.cluster.model import Cluster, Node
from console.enginelog.causes_model import Cause
from console.services.hub import LogLine
from console.services.recorder import Recorder
from console.services.recorder_kept import TAIL_LINES
from console.services.replay import ReplayHub
from console.services.replay_rows import Row, Source, recording
from console.telemetry.alarms import AlarmList
from console.telemetry.frames import Frame
from console.telemetry.sample import Sample
from tests.services.fakes import ManualClock

CLUSTER = Cluster("two", "two", (Node("dgx1", "dgx1"), Node("dgx2", "dgx2")))
HOURS = 12
STEP_S = 60
RANKS = (RankRef(0, "dgx1", "c0"), RankRef(1, "dgx2", "c1"))


def happened(second: int, start: float) -> list[Event]:
    at = start + second
    if second == 60:
        return [BootOpened(at, "d", 7, "flash", "Flash", "x", "dgx1", RANKS, at, 3600.0, 8000, "m")]
    if second == 90:
        return [ContainerSeen(at, 0, "running"), ContainerSeen(at, 1, "running")]
    if second == 600:
        return [SmokeDone(at, True, "Paris")]
    if second == 11 * 3600:
        cause = Cause("host_oom", "It ran out.", "Leave more.", 1, "dgx2", "weights", "rank1.log", 5, ("a", "b"), (0,))
        return [ContainerSeen(at, 1, "exited", 137), CauseFound(at, cause), BootFailed(at, "rank 1 ended", 1, "dgx2")]
    return [StatsSeen(at, {"running": float(second)})] if 600 < second < 11 * 3600 and second % 300 == 0 else []


def frame(second: int, left_kb: int) -> Frame:
    host = {"meminfo": f"MemTotal: 127600812 kB\nMemAvailable: {left_kb} kB\n", "boot_id": "b\n", "why": {}}
    return Frame(second + 1, {"part": "all", "t": float(second), "host": host, "self": {"pid": 1}})


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("night") / "night.rec"
    clock = ManualClock()
    told: list[str] = []
    recorder = Recorder(path, CLUSTER, clock, told.append)
    start, state, line = clock.now, None, 0
    alarms = AlarmList()
    recorder.alarms = lambda: alarms.all
    for second in range(0, HOURS * 3600 + 1, STEP_S):
        clock.now = start + second
        low = 3 << 20 if 7200 <= second < 10800 else (60 << 20) + second
        for name in ("dgx1", "dgx2"):
            if name == "dgx1" or not 4 * 3600 <= second < 5 * 3600:
                recorder.frame(name, frame(second, low if name == "dgx2" else 50 << 20))
        if second == 4 * 3600:
            recorder.trouble("dgx2", "refused", "connection refused")
        if second == 7200:
            alarms.raise_("memory-low", "dgx2", Severity.WARN, "dgx2: low", clock.now, node="dgx2")
        if second == 10800:
            alarms.clear("memory-low", "dgx2", clock.now)
        if second == 11 * 3600:
            alarms.raise_("rank-died", "boot 7 rank 1", Severity.BLOCK, "ended", clock.now, node="dgx2")
            alarms.raise_("boot-failed", "boot 7", Severity.BLOCK, "failed", clock.now)
            alarms.raise_("node-lost", "dgx2", Severity.BLOCK, "what no row of a recording would end", clock.now)
        for event in happened(second, start):
            state = opened(event) if isinstance(event, BootOpened) else reduce(_some(state), event)
            recorder.event("d", event, state)
        lines = [LogLine(0, 0, "dgx1", line + n, clock.now, "INFO", "", f"line {line + n}") for n in range(3)]
        recorder.lines("d", lines)
        line += 3
    recorder.close()
    assert told == []
    return recording(path)


def _some(state: BootState | None) -> BootState:
    assert state is not None
    return state


async def cost(hub: ReplayHub, position: float) -> int:
    before = hub.applied
    await hub.seek(position)
    return hub.applied - before


def picture(hub: ReplayHub) -> dict[str, Any]:
    snap = hub.snapshot()
    samples = {v.node.name: v.sample.memory.available_bytes for v in snap.nodes if isinstance(v.sample, Sample)}
    return {
        "boot": snap.boot,
        "memory": samples,
        "states": {v.node.name: (v.state, v.trouble, v.why) for v in snap.nodes},
        "alarms": {(a.code, a.subject) for a in snap.alarms if a.active},
        "lowest": snap.lowest,
        "last lines": [(x.rank, x.index, x.text) for x in hub.log(0, limit=10**6).lines][-TAIL_LINES:],
        "minutes": list(hub.series("dgx1", "mem_available", seconds=300, points=10)),
    }


async def test_a_seek_costs_the_same_at_ten_minutes_and_at_twelve_hours(night: Source) -> None:
    assert len(night.checkpoints) == HOURS * 12
    hub = ReplayHub(night, ManualClock(0.0))
    costs = {at: await cost(hub, at) for at in (12 * 3600.0, 1500.0, 6 * 3600.0, 11 * 3600.0 + 599)}
    assert max(costs.values()) <= 1.5 * min(costs.values()), costs
    ten = await cost(hub, 600.0)
    assert ten <= max(costs.values())
    old = ReplayHub(replace(night, checkpoints=()), ManualClock(0.0))
    assert await cost(old, 12 * 3600.0) > 20 * max(costs.values())


@pytest.mark.parametrize("hours", [0.2, 2.5, 4.4, 12.0])
async def test_what_is_shown_there_is_what_a_pass_from_the_start_shows(night: Source, hours: float) -> None:
    whole = ReplayHub(replace(night, checkpoints=()), ManualClock(0.0))
    quick = ReplayHub(night, ManualClock(0.0))
    await whole.seek(hours * 3600)
    await quick.seek(hours * 3600)
    assert quick.applied < whole.applied or hours < 0.3
    assert picture(quick) == picture(whole)
    lost = quick.log(0, limit=10**6)
    assert lost.lost + len(lost.lines) == whole.log(0, limit=10**6).next_seq


async def test_jumps_back_and_on_from_a_checkpoint_play_on(night: Source) -> None:
    hub = ReplayHub(night, ManualClock(0.0))
    await hub.seek(11.9 * 3600)
    turn = hub.replaying.turn
    await hub.seek(3600.0)
    await hub.seek(3700.0)
    assert hub.replaying.turn == turn + 1
    assert hub.snapshot().boot is not None and hub.snapshot().boot.stats == {"running": 3600.0}  # type: ignore[union-attr]
    await hub.seek(0.0)
    assert hub.snapshot().boot is None


async def test_a_cut_recording_is_played_to_where_it_breaks_off_and_says_so(night: Source, tmp_path: Path) -> None:
    path = tmp_path / "cut.rec"
    source = next(iter(tmp_path.parent.glob("night*/night.rec")))
    path.write_bytes(source.read_bytes()[: night.checkpoints[100][1] + 300])
    hub = ReplayHub(recording(path), ManualClock(0.0))
    assert len(hub._source.checkpoints) == 101
    await hub.seek(1e6)
    assert hub.ended and "breaks off" in hub.replaying.why
    await hub.seek(3600.0)
    assert hub.replaying.why == ""


async def test_rows_are_read_beside_the_loop_and_a_seek_that_is_cancelled_loses_none(night: Source) -> None:
    go_on = threading.Event()
    assert night.rows_at is not None

    def slowly(place: int) -> Iterator[Row]:
        assert go_on.wait(10), "the loop stood still while the file was read"
        assert night.rows_at is not None
        yield from night.rows_at(place)

    hub = ReplayHub(replace(night, rows_at=slowly), ManualClock(0.0))
    first = asyncio.create_task(hub.seek(4.4 * 3600))
    for _ in range(3):
        await asyncio.sleep(0)
    assert hub.replaying.seeking is not None
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled() and not go_on.is_set()
    again = asyncio.create_task(hub.seek(4.4 * 3600))
    await asyncio.sleep(0)
    go_on.set()
    await again
    whole = ReplayHub(replace(night, checkpoints=()), ManualClock(0.0))
    await whole.seek(4.4 * 3600)
    assert picture(hub) == picture(whole)
    await hub.close()
    await asyncio.wait_for(hub.seek(0.0), 30)  # what is closed plays nothing more, and nobody waits for it


async def test_a_checkpoint_of_no_sense_is_passed_over(night: Source) -> None:
    def rows(place: int) -> Any:
        yield 900.0, "checkpoint", [{"states": 7}]
        yield 901.0, "checkpoint", [[]]

    hub = ReplayHub(replace(night, rows_at=rows), ManualClock(0.0))
    await hub.seek(4000.0)
    assert hub.ended and hub.snapshot().boot is None
