"""kill -9 of the console at any moment of a boot: nothing in the ledger breaks, nothing the nodes hold is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
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


def node_logs(console: LabConsole, ranks: list[dict[str, Any]]) -> dict[int, list[bytes]]:
    """What the nodes hold, rank by rank, asked of their engines without any of ours in between."""
    out: dict[int, list[bytes]] = {}
    for rank in ranks:
        argv = [
            "ssh",
            "-F",
            str(console.folder / "ssh_config"),
            rank["node"],
            "docker",
            "logs",
            "-t",
            rank["container"],
        ]
        ran = subprocess.run([*argv, "2>&1"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
        if b"No such container" in ran.stdout:
            continue  # the console was killed before it started this rank
        assert ran.returncode == 0, ran.stdout + ran.stderr
        out[rank["rank"]] = [line for line in ran.stdout.split(b"\n") if line]
    return out


def kept_logs(path: Path) -> dict[int, list[bytes]]:
    logs = {rank: b"".join(read_log(file)) for rank, file in log_files(path).items()}
    return {rank: [line for line in data.split(b"\n") if line] for rank, data in logs.items()}


@pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")
@pytest.mark.parametrize("rounds", [2, pytest.param(8, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
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
            held = node_logs(console, [r for r in found["ranks"] if r["container"]])
            stopped = console.run("--recipes", str(recipes), "--json", "stop", "--grace", "1")
            assert stopped.code == 0, stopped.err
            kept = kept_logs(entry.path)
            for rank, lines in held.items():
                # Each line once, in the engine's order; what came while it was being stopped follows.
                assert kept.get(rank, [])[: len(lines)] == lines, f"round {number}, rank {rank}"
        (after,) = [b.entry for b in BootIndex(journal()).boots() if b.entry.number == number]
        assert after.trouble == "" and not after.live
        if deployments:
            assert after.summary["state"] in ("stopped", "failed"), after.summary
        else:
            assert after.summary["state"] in ("unknown", "failed"), after.summary
    rows = console.run("--json", "boots").json["boots"]
    assert [b["number"] for b in rows] == list(range(rounds, 0, -1))
