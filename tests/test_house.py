"""The house's rules, held by tools: layers, and what must not be loaded for a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


def test_import_contracts_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([tool, "--no-cache"], cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_commands_do_not_load_the_console() -> None:
    """A deferred import is not in the static graph, so the modules of a real run are looked at."""
    code = (
        "import sys\n"
        "from console.assemble import main\n"
        "code = main(['recipes', '--json'])\n"
        "bad = [m for m in ('textual', 'console.tui', 'console.lab') if m in sys.modules]\n"
        "sys.stderr.write(repr((code, bad)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True)
    assert done.stderr.endswith("(0, [])"), done.stderr


def test_the_entry_point_says_its_version() -> None:
    done = subprocess.run([sys.executable, "-m", "console", "--version"], cwd=TOP, capture_output=True, text=True)
    assert done.stdout.startswith("nightdeck 0.")
