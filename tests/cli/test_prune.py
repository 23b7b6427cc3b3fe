"""`boots prune`: what would go, by which rule, and that it goes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from console.files.journal import Journal
from tests.cli.conftest import Ran
from tests.services.nights import T0, boot


def test_prune_says_what_would_go_and_then_removes_it(nightdeck: Callable[..., Ran], home: Path) -> None:
    journal = Journal(Path(os.environ["XDG_STATE_HOME"]) / "nightdeck" / "boots")
    for n in range(1, 6):
        boot(journal, n, T0 + n, state="stopped", ready_s=60.0, note="kept" if n == 2 else "")
    dry = nightdeck("boots", "prune", "--dry-run", "--keep", "2")
    assert dry.code == 0 and "the newest never goes" in dry.out
    assert "2 would be removed: b0001-flash-" in dry.out and " MiB)" in dry.out
    assert len(journal.boots()) == 5
    # Without limits of its own it takes the settings', and says so.
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "nightdeck" / "settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("keep_boots = 3\nkeep_gib = 0.5\n")
    asked = nightdeck("--json", "boots", "prune", "--dry-run").json
    assert [name[:5] for name in asked["would_remove"]] == ["b0001"] and asked["bytes"] > 1000
    assert nightdeck("boots", "prune").out.startswith("1 removed: b0001-flash-")
    assert [e.number for e in journal.boots()] == [5, 4, 3, 2]
    assert nightdeck("boots", "prune", "--keep", "-1").code == 2
