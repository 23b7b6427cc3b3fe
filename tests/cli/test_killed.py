"""kill -9 of the console at any moment of a boot: nothing in the ledger breaks, nothing the nodes hold is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from console.files.archive import log_files, read_log
from console.files.boot_index import BootIndex
from console.files.journal import BootEntry, Journal, read_events
from tests.cli.conftest import ROOT, LabConsole, MakeLab
from tests.cli.test_ledger_commands import write

SPEED = 200.0  # a boot takes 690 lab seconds: three and a half of ours


def journal() -> Journal:
    return Journal(Path(os.environ["XDG_STATE_HOME"]) / "nightdeck" / "boots")


class Consoles:
    """`nightdeck` on a lab, as processes that start at once and can be killed at any moment."""

    def __init__(self, process: subprocess.Popen[str], console: LabConsole, recipes: Path, folder: Path) -> None:
        self._process = process
        self._words = ["--cluster", console.cluster, "--recipes", str(recipes)]
        self._folder = folder
        self._count = 0
        self.output = folder

    def _ask(self, **asked: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, *argv: str) -> int:
        self._count += 1
        self.output = self._folder / f"console{self._count}.out"
        return int(self._ask(argv=[*self._words, *argv], output=str(self.output))["pid"])

    def end(self, pid: int) -> int:
        """Its exit status, waited for."""
        return int(self._ask(wait=pid)["status"])

    def said(self) -> str:
        return self.output.read_text("utf-8", "replace") if self.output.exists() else ""

    def run(self, *argv: str) -> str:
        code = self.end(self.start(*argv))
        assert code == 0, f"{argv}: {code}: {self.said()}"
        return self.said()

    def killed(self, rng: random.Random, seconds: float, *argv: str) -> int:
        """Start it and kill it at a moment within `seconds`; its status, where it ended before."""
        pid = self.start(*argv)
        time.sleep(rng.uniform(0.0, seconds))  # the moment is the point of the test: it is drawn, not awaited
        os.kill(pid, signal.SIGKILL)
        return self.end(pid)


@contextmanager
def consoles(console: LabConsole, recipes: Path, folder: Path) -> Iterator[Consoles]:
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.zygote"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Consoles(process, console, recipes, folder)
    finally:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


def node_logs(console: LabConsole, ranks: list[dict[str, Any]]) -> dict[int, list[bytes]]:
    """What the nodes hold, rank by rank, asked of their engines without any of ours in between."""
    out: dict[int, list[bytes]] = {}
    for rank in ranks:
        argv = ["ssh", "-F", str(console.folder / "ssh_config"), rank["node"], "docker", "logs", "-t"]
        ran = subprocess.run(
            [*argv, rank["container"], "2>&1"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
        if b"No such container" in ran.stdout:
            continue  # the console was killed before it started this rank, or after it removed it
        assert ran.returncode == 0, ran.stdout + ran.stderr
        out[rank["rank"]] = [line for line in ran.stdout.split(b"\n") if line]
    return out


def kept_logs(path: Path) -> dict[int, list[bytes]]:
    logs = {rank: b"".join(read_log(file)) for rank, file in log_files(path).items()}
    return {rank: [line for line in data.split(b"\n") if line] for rank, data in logs.items()}


def entry_of(number: int) -> BootEntry:
    (entry,) = [b.entry for b in BootIndex(journal()).boots() if b.entry.number == number]
    return entry


def unbroken(entry: BootEntry, kills: int) -> None:
    """The row reads, and a kill cut at most one line of the events short."""
    assert entry.trouble == "", entry.trouble
    events = [line.event for line in read_events(entry.path)]
    assert sum(e is None for e in events) <= kills, events


def one_boot(console: LabConsole, world: Consoles, rng: random.Random, number: int, kills: int) -> int:
    """A boot whose consoles are killed one after another; how many were. The stop's console may be killed too."""
    launched = world.start("--json", "launch", "small")
    while '"event"' not in world.said():
        assert Path(f"/proc/{launched}/stat").read_text().split(") ")[1][0] != "Z", world.said()[:2000]
        time.sleep(0.01)  # another process writes it
    time.sleep(rng.uniform(0.0, 1.5))
    os.kill(launched, signal.SIGKILL)
    world.end(launched)
    done = 1
    unbroken(entry_of(number), done)
    while done < kills:
        what = rng.choice((("--json", "logs", "-f"), ("--json", "logs", "-f"), ("--json", "status")))
        done += world.killed(rng, 1.5, *what) < 0
        unbroken(entry_of(number), kills)

    deployments = json.loads(world.run("--json", "status"))["deployments"]
    if not deployments:
        assert entry_of(number).summary["state"] in ("unknown", "failed"), entry_of(number).summary
        return done
    (found,) = deployments
    assert (found["boot"], found["recipe"]) == (number, "small"), "it is found again as what it is"
    held = node_logs(console, [r for r in found["ranks"] if r["container"]])
    if rng.random() < 0.5:
        done += world.killed(rng, 2.0, "stop", "--grace", "1") < 0
    result = json.loads(world.run("--json", "stop", "--grace", "1"))["result"]
    left = json.loads(world.run("--json", "status"))["deployments"]
    assert all(r["container"] is None or r["state"] in ("absent", "exited") for d in left for r in d["ranks"]), left
    assert result in ("stopped", "nothing")
    kept = kept_logs(entry_of(number).path)
    for rank, lines in held.items():
        # Each line once, in the engine's order; what came while it was being stopped follows.
        mine = kept.get(rank, [])
        at = next((n for n, (a, b) in enumerate(zip(mine, lines, strict=False)) if a != b), min(len(mine), len(lines)))
        assert mine[: len(lines)] == lines, (
            f"boot {number}, rank {rank}, line {at} of {len(lines)}: {mine[at - 1 : at + 2]}"
        )
        assert len(set(mine)) == len(mine), f"boot {number}, rank {rank}: a line is there twice"
    unbroken(entry_of(number), done)
    return done


@pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")
@pytest.mark.parametrize(
    ("kills", "a_boot"), [(4, 2), pytest.param(200, 6, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_a_console_killed_while_it_boots(lab: MakeLab, tmp_path: Path, kills: int, a_boot: int) -> None:
    recipes = tmp_path / "recipes"
    write(recipes, "0.80", "8")
    console = lab(nodes=2, recipes=recipes, speed=SPEED)
    rng = random.Random(kills)
    done = boots = 0
    with consoles(console, recipes, tmp_path / "consoles") as world:
        while done < kills:
            boots += 1
            done += one_boot(console, world, rng, boots, a_boot)
            after = entry_of(boots)
            assert after.trouble == "" and not after.live
            assert after.summary["state"] in ("stopped", "failed", "unknown"), after.summary
            print(f"{done} kills in {boots} boots", file=sys.__stderr__, flush=True)
    rows = console.run("--json", "boots").json["boots"]
    assert [b["number"] for b in rows] == list(range(boots, 0, -1))
