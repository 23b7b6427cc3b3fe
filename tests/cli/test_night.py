"""A night on a lab: by itself, looked at, stopped, killed and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.boot.night_model import Night
from console.cli import cmd_night
from console.cli.parser import build_parser
from console.files.atomic import DiskError
from console.files.night_store import NightStore
from console.lab import embedded
from tests.cli.conftest import LabConsole, MakeLab, Ran, run_here
from tests.cli.test_ledger_commands import write

QUEUE = """
name = "levers"
hard_end = "{end}"
zone = "UTC"
baseline = "small"
quiet_min = 0
max_gpu_temp_c = 110
[measure]
concurrency = [1, 2]
repeats = 2
max_tokens = 8
[[steps]]
recipe = "small"
label = "16 sequences"
aba = true
flags = {{ "--max-num-seqs" = 16 }}
"""


class NightLab:
    def __init__(self, console: LabConsole, folder: Path) -> None:
        self.console = console
        self.folder = folder
        self.queue = folder / "night.toml"
        later = time.gmtime(time.time() + 6 * 3600)
        self.queue.write_text(QUEUE.format(end=f"{later.tm_hour:02}:{later.tm_min:02}"))

    def run(self, *argv: str) -> Ran:
        return self.console.run("--recipes", str(self.folder), *argv)

    def status(self) -> dict[str, Any]:
        ran = self.run("--json", "night", "status")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    def until(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 110.0) -> dict[str, Any]:
        limit = time.monotonic() + seconds
        while True:
            row = self.status()
            if wanted(row):
                return row
            assert time.monotonic() < limit, json.dumps(row, indent=1)[-3000:] + self.out()
            time.sleep(0.2)

    def out(self) -> str:
        nights = Path(os.environ["XDG_STATE_HOME"]) / "nightdeck" / "nights"
        return "".join(p.read_text() for p in nights.glob("*/night.*"))


@pytest.fixture
def night(lab: MakeLab, tmp_path: Path) -> Iterator[NightLab]:
    folder = tmp_path / "recipes"
    write(folder, "0.80", "8")
    made = NightLab(lab(nodes=2, recipes=folder), folder)
    yield made
    row = made.run("--json", "night", "status")
    if row.code == 0 and (pid := json.loads(row.out).get("pid")):
        os.killpg(os.getpgid(pid), signal.SIGKILL)


def test_a_night_by_itself_from_dusk_to_the_baseline(night: NightLab) -> None:
    assert night.run("night", "check", str(night.queue)).out.startswith("levers: 1 steps, from now to ")
    begun = night.run("--json", "night", str(night.queue))
    assert begun.code == 0, begun.err + night.out()
    assert os.getsid(begun.json["pid"]) == begun.json["keeper_pid"]  # a session of its own
    second = night.run("night", str(night.queue))
    assert second.code == 1 and "a night runs already" in second.err
    row = night.until(lambda r: r["phase"] == "done")
    assert [(r["label"], r["outcome"]) for r in row["results"]] == [
        ("baseline", "served"), ("16 sequences", "served"), ("baseline", "served"),
    ]  # fmt: skip
    assert row["left_serving"] == "small"
    trial = row["results"][1]
    assert trial["recipe"].endswith("/step1/small/recipe.toml") and "Paris" in trial["text"]
    levels = trial["measure"]["levels"]
    assert [v["concurrency"] for v in levels] == [1, 2] and levels[0]["total_tokens_per_s"]["n"] == 2
    boots = night.run("--json", "boots").json["boots"]
    assert [b["state"] for b in boots] == ["ready", "stopped", "stopped", "stopped"]
    assert boots[2]["changed"] == ["--max-num-seqs 8 -> 16"]
    shown = night.run("night").out
    assert "left serving: small" in shown and "tokens/s at 2" in shown
    assert night.run("night", "attach").code == 0


@pytest.mark.slow
def test_a_killed_controller_is_told_of_and_resumed(night: NightLab) -> None:
    begun = night.run("--json", "night", str(night.queue))
    night.until(lambda r: r["running"] is not None and r["deployment"] != "")
    os.killpg(begun.json["keeper_pid"], signal.SIGKILL)
    row = night.until(lambda r: not r["alive"])
    assert row["phase"] == "running"
    said = night.run("night", "status").out
    assert "was interrupted at run 1 of 3, baseline (its process is gone, last heard of " in said
    assert "`nightdeck night resume` goes on with it" in said and "interrupted" in night.run("status").err
    resumed = run_here(night.console._capsys, "--json", "night", "resume")  # no cluster is named: it is the night's own
    assert resumed.code == 0, resumed.err + night.out()
    night.until(lambda r: len(r["results"]) >= 2)
    assert night.run("night", "stop").code == 0
    row = night.until(lambda r: r["phase"] == "done")
    assert row["results"][0]["outcome"] == "interrupted"
    assert row["results"][1]["outcome"] == "served"  # the same run once more
    assert row["left_serving"] == "small" and row["why"].startswith("the operator stopped the night")
    again = night.run("night", "resume")
    assert again.code == 2 and "is over" in again.err


@pytest.mark.slow
def test_a_controller_that_dies_is_begun_again_by_itself(night: NightLab) -> None:
    begun = night.run("--json", "night", str(night.queue))
    night.until(lambda r: r["running"] is not None and r["deployment"] != "")
    os.kill(begun.json["pid"], signal.SIGKILL)
    row = night.until(lambda r: r["phase"] == "done", 120.0)
    assert [(r["label"], r["outcome"]) for r in row["results"]] == [
        ("baseline", "interrupted"), ("baseline", "served"), ("16 sequences", "served"), ("baseline", "served"),
    ]  # fmt: skip
    assert row["left_serving"] == "small"
    assert "the controller ended by signal 9 before the night did: begun again (1 of 5)" in night.out()


def test_a_queue_with_a_recipe_that_is_not_there_is_refused_at_dusk(night: NightLab) -> None:
    night.queue.write_text(night.queue.read_text().replace('recipe = "small"', 'recipe = "smal"'))
    ran = night.run("night", str(night.queue))
    assert ran.code == 2 and 'no recipe is called "smal"' in ran.err and 'did you mean "small"?' in ran.err
    assert night.run("night", "status").code == 2
    assert night.run("--read-only", "night", str(night.queue)).code == 2


@pytest.fixture
def kept(tmp_path: Path) -> NightStore:
    store = NightStore(tmp_path / "nights")
    ident = store.create("", 1_800_000_000.0)
    store.write(Night(ident), {})
    return store


@pytest.mark.parametrize(
    ("script", "begun", "result"),
    [
        (f"raise SystemExit({cmd_night.OVER})", 1, 1),  # over, which the disk does not say
        ("raise SystemExit(1)", 3, 1),
    ],
)
def test_a_keeper_goes_on_while_the_disk_is_full(
    kept: NightStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, begun: int, result: int
) -> None:
    (ident,) = kept.nights()
    count = f"open({str(tmp_path / 'begun')!r}, 'a').write('x'); {script}"
    monkeypatch.setattr(cmd_night, "AGAIN", (sys.executable, "-c", count))
    monkeypatch.setattr(cmd_night, "BEGIN_AGAIN", 2)
    monkeypatch.setattr(cmd_night, "BEGIN_AGAIN_S", 0.0)

    def refuse(*_: object) -> None:
        raise DiskError("cannot be appended to: No space left on device")

    monkeypatch.setattr(kept, "log", refuse)
    arguments = build_parser().parse_args(["night", "status"])
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        assert cmd_night._keep(ident, kept, arguments) == result
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (tmp_path / "begun").read_text() == "x" * begun


def test_a_night_is_owned_on_a_full_disk_too(kept: NightStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a controller that is begun again finds it: the lock's file is there, and may not grow."""
    (ident,) = kept.nights()
    os.close(kept.lock(ident))
    cut: list[int] = []
    monkeypatch.setattr(os, "ftruncate", lambda _descriptor, size: cut.append(size))
    descriptor = kept.lock(ident)
    assert kept.running() == (os.getpid(), ident) and 0 not in cut
    os.close(descriptor)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    os.close(kept.lock(ident))


def test_a_night_runs_this_console_and_not_one_of_the_folder_it_is_begun_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "console").mkdir()
    for name in ("__init__.py", "__main__.py", "lab.py"):
        (tmp_path / "console" / name).write_text("raise SystemExit('of the folder')")
    (tmp_path / "secrets.py").write_text("raise SystemExit('of the folder')")
    monkeypatch.chdir(tmp_path)
    child = cmd_night._child(["--version"], tmp_path / "out")
    lab = subprocess.run([*embedded.SELF, "--help"], capture_output=True, text=True, check=False)
    assert child.wait(60) == 0 and (tmp_path / "out").read_text().startswith("nightdeck ")
    assert lab.returncode == 0 and "of the folder" not in lab.stderr, lab.stderr
