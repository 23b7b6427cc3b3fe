"""kill -9 of the console at any moment of a boot: nothing in the ledger breaks, nothing the nodes hold is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from console.files.archive import log_files, read_log
from console.files.boot_index import BootIndex
from console.files.journal import Journal, read_events
from tests.cli.conftest import LabConsole, MakeLab
from tests.cli.test_ledger_commands import write


def journal() -> Journal:
    return Journal(Path(os.environ["XDG_STATE_HOME"]) / "nightdeck" / "boots")


def killed_launch(console: LabConsole, recipes: Path, after: float) -> None:
    """A launch that follows, killed `after` seconds from its first container's start."""
    child = console.start("--recipes", str(recipes), "--json", "launch", "small")
    assert child.stdout is not None and child.stderr is not None
    line = child.stdout.readline()
    if not line:
        raise AssertionError(child.stderr.read())
    time.sleep(after)  # the moment is the point of the test: it is drawn, not awaited
    os.kill(child.pid, signal.SIGKILL)
    child.wait(10)
    child.stdout.close()
    child.stderr.close()


def node_logs(console: LabConsole) -> dict[int, list[str]]:
    """What the nodes hold, rank by rank, asked by a command that keeps nothing of its own accord."""
    ran = console.run("--json", "logs")
    assert ran.code == 0, ran.err
    out: dict[int, list[str]] = {}
    for line in ran.out.splitlines():
        row: dict[str, Any] = json.loads(line)
        out.setdefault(row["rank"], []).append(row["text"])
    return out


def kept_logs(path: Path) -> dict[int, list[bytes]]:
    logs = {rank: b"".join(read_log(file)) for rank, file in log_files(path).items()}
    return {rank: [line.split(b" ", 1)[-1] for line in data.split(b"\n") if line] for rank, data in logs.items()}


@pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_a_console_killed_while_it_boots(lab: MakeLab, tmp_path: Path, rounds: int) -> None:
    recipes = tmp_path / "recipes"
    write(recipes, "0.80", "8")
    console = lab(nodes=2, recipes=recipes, speed=200.0)
    rng = random.Random(rounds)
    for number in range(1, rounds + 1):
        killed_launch(console, recipes, rng.uniform(0.0, 5.0))
        (entry,) = [b.entry for b in BootIndex(journal()).boots() if b.entry.number == number]
        assert entry.trouble == "", entry.trouble
        events = [line.event for line in read_events(entry.path)]
        assert all(e is not None for e in events[:-1]), "only the last line can be cut short"

        status = console.run("--recipes", str(recipes), "--json", "status")
        assert status.code == 0, status.err
        deployments = status.json["deployments"]
        if deployments:
            (found,) = deployments
            assert (found["boot"], found["recipe"]) == (number, "small"), "it is found again as what it is"
            held = node_logs(console)
            stopped = console.run("--recipes", str(recipes), "--json", "stop", "--grace", "1")
            assert stopped.code == 0, stopped.err
            kept = kept_logs(entry.path)
            for rank, lines in held.items():
                mine = [line.decode("utf-8", "replace").strip() for line in kept[rank]]
                assert len(mine) >= len(lines), f"rank {rank}: {len(mine)} lines kept of {len(lines)}"
                assert len(mine) == len(set(enumerate(mine)))
        (after,) = [b.entry for b in BootIndex(journal()).boots() if b.entry.number == number]
        assert after.trouble == "" and not after.live
        if deployments:
            assert after.summary["state"] in ("stopped", "failed"), after.summary
        else:
            assert after.summary["state"] in ("unknown", "failed"), after.summary
    rows = console.run("--json", "boots").json["boots"]
    assert [b["number"] for b in rows] == list(range(rounds, 0, -1))
