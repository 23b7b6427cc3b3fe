"""A guard that struck, as a console that watches tells it: the cause, an alarm, and a file beside the rank's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.base.absent import Absent
from console.base.units import GIB
from console.boot.events import ContainerSeen
from console.boot.state import Phase
from console.cli.guard_lines import guard_lines
from console.enginelog.diagnose import diagnose
from console.files.evidence_folder import find_evidence
from console.services import follower as follower_module
from console.services.guard_log import GuardLog, read_guard_log
from console.services.replay import ReplayHub
from console.services.replay_marks import read_index
from console.services.replay_rows import boot as boot_source
from console.telemetry.frames import Frame
from console.telemetry.guard_rows import guard
from console.tui.guards import guards_of
from tests.services.test_twelve_hours import Night
from tests.telemetry.test_sampler import frame

ROW: dict[str, Any] = {
    "deployment": "d",
    "rank": 1,
    "running": True,
    "since": 1.0,
    "at": 2.0,
    "stage": "loading",
    "stage_why": "not told otherwise",
    "floor_bytes": 4 * GIB,
    "available_bytes": 9 * GIB,
    "lowest_bytes": 8 * GIB,
    "oom_score_adj": -1000,
    "locked": True,
    "why": "",
    "ended": "",
    "how": "socket /var/run/docker.sock",
}
TRIP = {
    "at": 1_800_000_009.0,
    "stage": "loading",
    "floor_bytes": 4 * GIB,
    "available_bytes": 3 * GIB,
    "killed_by": "engine",
    "tried": ["engine: done"],
    "history": [[-1.0, 5 * GIB], [-0.5, 4 * GIB], [0.0, 3 * GIB]],
    "took_s": 0.1,
}


async def test_a_trip_is_the_cause_an_alarm_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "LAST_LINES_S", -1.0)  # no log is being read here
    night = Night(tmp_path, 2, log_lines=100)
    seq = 0

    def sample(*rows: dict[str, Any]) -> None:
        nonlocal seq
        seq += 1
        night.clock.now += 1.0
        one = frame(seq, float(seq))
        data = dict(one.data, guards={"t": float(seq), "why": "", "rows": list(rows)})
        night.hub._watches["dgx2"]._take(Frame(seq, data))

    sample(ROW)
    sample(ROW)
    assert any("1 of 2 run: floor 4.0 GiB while loading" in line for line in guard_lines(night.hub.snapshot()))
    night.follower.apply(ContainerSeen(night.clock.now, 1, "exited", 137, finished_at=night.clock.now))
    for _ in range(3):
        sample({**ROW, "running": False, "ended": "its container ended", "tripped": TRIP})
    night.follower.explain()
    state = night.follower.state
    assert state.phase is Phase.FAILED and state.cause is not None
    assert (state.cause.cls, state.cause.rank, state.cause.node) == ("guard_tripped", 1, "dgx2")
    assert "killed rank 1 through the container engine: 3.00 GiB available" in state.cause.evidence[0]
    assert state.cause.sentence == (
        "The memory guard stopped the engine at 3.00 GiB available, falling 2.00 GiB/s: "
        "below its floor of 4.00 GiB while loading."
    )
    assert "2027-01-15T08:00:09.000Z by the node's clock" in state.cause.evidence[0]
    assert state.cause.evidence[-1].startswith("telemetry: the lowest on dgx2 was ")
    alarms = [a for a in night.hub.snapshot().alarms if a.code == "guard-tripped"]
    assert len(alarms) == 1 and alarms[0].node == "dgx2"
    assert any("killed the rank by the engine at 3.00 GiB" in line for line in guard_lines(night.hub.snapshot()))
    night.hub._ledger.flush(["d"])
    (folder,) = (tmp_path / "boots").glob("b*")
    text = (folder / "rank1.guard").read_text()
    assert text.count("TRIPPED") == 1 and "runs: floor 4.00 GiB" in text and "has ended" in text
    await night.hub.close()
    found = find_evidence([str(folder)])
    again = diagnose([], found.states, found.kernel, found.guard).cause
    assert again is not None and (again.cls, again.rank) == ("guard_tripped", 1)
    assert again.sentence == state.cause.sentence
    assert again.evidence == state.cause.evidence
    hub = ReplayHub(boot_source(folder), night.clock)
    await hub.seek(1e9)
    snap = hub.snapshot()
    assert snap.boot is not None
    views = guards_of(snap, snap.boot)
    assert views[1].state == "fired" and "3.0 GiB" in views[1].words
    assert views[0].words == "guard not known: no sample of its node"
    assert [
        m.words for m in read_index(boot_source(folder).rows()).marks if m.words.startswith("the memory guard")
    ] == ["the memory guard on dgx2 killed rank 1 at 3.00 GiB available"]


def test_what_a_guard_did_is_read_back_from_its_file() -> None:
    steps = [
        ROW,
        {**ROW, "why": "the engine says 500", "lowest_bytes": 5 * GIB},
        {**ROW, "running": False, "ended": "its container ended", "lowest_bytes": 2 * GIB, "tripped": TRIP},
    ]
    log = GuardLog()
    told = [g for row in steps if (g := guard(row)) is not None]
    text = "".join(log.news("dgx2", g, 1_800_000_000.0 + n) for n, g in enumerate(told))
    found = list(read_guard_log("noise\n" + text + "2026-11-30T03:00 half", "d", 1))
    assert [(at, node) for at, node, _ in found] == [(1_800_000_000.0 + n, "dgx2") for n in range(3)]
    runs, troubled, ended = (g for _, _, g in found)
    assert (runs.running, runs.floor_bytes, runs.stage) == (True, 4 * GIB, "loading")
    assert isinstance(runs.lowest_bytes, Absent), "it runs on, and that was only the lowest at this line"
    assert troubled.why == "the engine says 500"
    assert (ended.running, ended.ended, ended.floor_bytes) == (False, "its container ended", 4 * GIB)
    assert ended.lowest_bytes == 2 * GIB
    assert ended.trip is not None
    assert (ended.trip.available_bytes, ended.trip.floor_bytes, ended.trip.killed_by) == (3 * GIB, 4 * GIB, "engine")


@given(st.text(max_size=400))
def test_no_kept_file_breaks_the_reader(text: str) -> None:
    list(read_guard_log(text, "d", 0))
    list(read_guard_log(f"9999-99-99T99:99:99.9Z the guard on x {text}\nTRIPPED: {text}", "d", 0))


async def test_the_sample_that_shows_why_may_come_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "LAST_LINES_S", -1.0)
    night = Night(tmp_path, 2, log_lines=100)

    def sample(seq: int, left_gib: float) -> None:
        night.clock.now += 1.0
        one = frame(seq, float(seq))
        host = {**one.data["host"], "meminfo": f"MemTotal: 127600812 kB\nMemAvailable: {int(left_gib * 2**20)} kB\n"}
        night.hub._watches["dgx2"]._take(Frame(seq, {**one.data, "w": night.clock.now, "host": host}))

    sample(1, 30.0)
    sample(2, 16.0)
    night.follower.apply(ContainerSeen(night.clock.now + 0.1, 1, "exited", 137, finished_at=night.clock.now + 0.1))
    night.follower.explain()
    assert night.follower.state.phase is Phase.FAILED
    sample(3, 0.5)
    night.follower.explain()
    cause = night.follower.state.cause
    assert cause is not None and (cause.cls, cause.rank) == ("host_oom", 1)
    assert (
        "the lowest on dgx2 was 0.50 GiB available" in cause.evidence[-1] and "fell 14.75 GiB/s" in cause.evidence[-1]
    )
    night.clock.now += 10.0
    sample(14, 0.1)
    assert night.follower._keeper.lowest == 2**29, "what comes long after is not the boot's"
    await night.hub.close()
