"""The command line on labs of its own: most commands run in the process, those that get signals in a child."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from console.assemble import main
from console.lab.control import ask

ROOT = Path(__file__).parents[2]
RECIPE = "dsv41-flash-8x"
# A boot takes 690 lab seconds: under three of ours.
FAST = 400.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def deployment(self) -> Any:
        """The one deployment of a `status`, or of the last line of a launch."""
        (only,) = (self.json if self.out.startswith("{\n") else self.lines[-1])["deployments"]
        return only


def run_here(capsys: pytest.CaptureFixture[str], *argv: str) -> Ran:
    """The command in this process, as `nightdeck ARGV`."""
    capsys.readouterr()
    try:
        code = main(list(argv))
    except SystemExit as end:  # argparse
        code = end.code if isinstance(end.code, int) else 1
    said = capsys.readouterr()
    return Ran(code, said.out, said.err)


def start_child(*argv: str, **options: Any) -> subprocess.Popen[str]:
    """The command in a process of its own, in this test's environment."""
    return subprocess.Popen(
        [sys.executable, "-m", "console", *argv],
        cwd=options.pop("cwd", ROOT),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        **options,
    )


class LabConsole:
    """A lab in a child process, and `nightdeck` on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
        self._capsys = capsys
        self._process = subprocess.Popen(
            [sys.executable, "-m", "console.lab", "--dir", str(folder), "--parent-pipe", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        state = json.loads(self._process.stdout.readline())
        self.folder = folder
        self.cluster = state["cluster"]
        self._control = Path(state["control"])

    def control(self, do: str, name: str = "") -> Any:
        """`set NAME`, `kill NODE`, `freeze NODE`, `cut NODE`, `heal NODE`, `status`."""
        return asyncio.run(ask(self._control, do=do, name=name))

    def run(self, *argv: str) -> Ran:
        return run_here(self._capsys, "--cluster", self.cluster, *argv)

    def start(self, *argv: str) -> subprocess.Popen[str]:
        return start_child("--cluster", self.cluster, *argv)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


MakeLab = Callable[..., LabConsole]


@pytest.fixture
def lab(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeLab]:
    """Makes labs that end with the test."""
    monkeypatch.chdir(ROOT)  # the working folder's recipes are the bundled ones
    made: list[LabConsole] = []

    def make(
        scenario: str = "healthy", *, nodes: int = 2, speed: float = FAST, recipes: Path | None = None
    ) -> LabConsole:
        words = ["--scenario", scenario, "--nodes", str(nodes), "--speed", f"{speed:g}"]
        words += ["--recipes", str(recipes)] if recipes is not None else []
        made.append(LabConsole(tmp_path / f"lab{len(made)}", capsys, words))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def nightdeck(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """`nightdeck ARGV` in this process, away from the checkout's own recipes."""
    monkeypatch.chdir(os.environ["HOME"])
    return lambda *argv: run_here(capsys, *argv)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look at a bad answer comes soon: what is waited for is the look, not the time between."""
    from console.services import readiness

    monkeypatch.setattr(readiness, "BAD_TEXT_RETRY_S", 0.2)
