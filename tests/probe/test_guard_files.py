"""What of many guards' files a frame tells: whoever runs is among it, whatever the deployments are called."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.probe import guard_files


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOST_PROC", "/proc")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield Path(guard_files.home())


def left(home: Path, deployment: str, since: object) -> Path:
    folder = home / f"{deployment}.r0"
    folder.mkdir()
    (folder / "lock").touch()
    (folder / "state.json").write_text(json.dumps({"deployment": deployment, "rank": 0, "since": since}))
    return folder


def test_a_new_guard_removes_what_ended_ones_left_but_for_the_newest_markers(home: Path) -> None:
    for number in range(20):
        folder = left(home, f"over-b{number:02}", 1.0)
        (folder / "state.json").write_text(json.dumps({"deployment": "x", "ended": "its container ended"}))
        if number >= 8:
            (folder / "tripped.json").write_text("{}")
        os.utime(folder, (time.time() - 100 + number,) * 2)
    left(home, "lost", 1.0)  # its guard never said that it ended
    runs = os.open(left(home, "runs", 1.0) / "lock", os.O_RDWR)
    try:
        fcntl.flock(runs, fcntl.LOCK_EX)
        (home / "runs.r0" / "state.json").write_text(json.dumps({"ended": "of an earlier guard"}))
        guard_files.clear(str(home))
    finally:
        os.close(runs)
    assert {p.name for p in home.iterdir()} == {f"over-b{n}.r0" for n in range(12, 20)} | {"lost.r0", "runs.r0"}


def test_a_guard_that_runs_is_told_before_all_that_ended(home: Path) -> None:
    for number in range(2, 40):
        left(home, f"flash-8x-b{number}-aa", 1_796_043_000.0 + number)
    left(home, "flash-9x-odd", "soon")
    runs = os.open(left(home, "flash-4x-b1-bb", 1_796_043_000.0) / "lock", os.O_RDWR)
    try:
        fcntl.flock(runs, fcntl.LOCK_EX)
        rows = guard_files.Guards()()["rows"]
        assert [(r["deployment"], r["running"]) for r in rows] == [
            *((f"flash-8x-b{number}-aa", False) for number in range(33, 40)),
            ("flash-4x-b1-bb", True),
        ]
        assert [r["deployment"] for r in guard_files.status({})][-1] == "flash-4x-b1-bb"
    finally:
        os.close(runs)
    assert [r["deployment"] for r in guard_files.status({"deployment": "flash-4x-b1-bb"})] == ["flash-4x-b1-bb"]
