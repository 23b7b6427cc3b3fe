"""A guard that struck, as a console that watches tells it: the cause, an alarm, and a file beside the rank's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from console.base.units import GIB
from console.boot.events import ContainerSeen
from console.boot.state import Phase
from console.cli.guard_lines import guard_lines
from console.enginelog.diagnose import diagnose
from console.files.evidence_folder import find_evidence
from console.services import follower as follower_module
from console.telemetry.frames import Frame
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
