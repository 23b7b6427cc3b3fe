"""The house's rules, held by tools: layers, and what must not be loaded for a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent


def test_import_contracts_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([tool, "--no-cache"], cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


LOADS = {
    "--version": ("asyncio", "pydantic"),
    "launch --help": ("asyncio", "pydantic"),
    "boots": ("asyncio", "pydantic"),
    "lab --list": ("asyncio", "pydantic"),
    "diagnose nothing.log": ("asyncio", "pydantic"),
    "night list": ("pydantic", "h11"),
    "report": ("asyncio", "pydantic"),
    "recipes --json": ("asyncio",),
    "plan nothing --offline": (),
}
NEVER = ("textual", "rich", "psutil", "console.tui", "console.lab.lab")


@pytest.mark.parametrize("words", LOADS)
def test_a_command_loads_what_it_needs(words: str, tmp_path: Path) -> None:
    """A deferred import is not in the static graph, so the modules of a real run are looked at: a start costs what it
    loads, and a command that asks no node needs no SSH."""
    code = (
        "import sys\n"
        "from console.assemble import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()],
        cwd=TOP,
        env={**os.environ, "NIGHTDECK_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
    )
    loaded = set(done.stdout.rpartition("LOADED")[2].split())
    assert "console.cli.main" in loaded, done.stderr
    assert loaded.isdisjoint((*NEVER, "asyncssh", *LOADS[words])), done.stderr


def test_the_entry_point_says_its_version() -> None:
    done = subprocess.run([sys.executable, "-m", "console", "--version"], cwd=TOP, capture_output=True, text=True)
    assert done.stdout.startswith("nightdeck 0.")
