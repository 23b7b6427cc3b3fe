"""A whole night on eight real hosts: six boots, three of them failing each in its own way, and a lost terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import RECIPE, ROOT, Deck

pytestmark = [pytest.mark.bed, pytest.mark.slow, pytest.mark.xdist_group("bed"), pytest.mark.timeout(900)]

QUEUE = """
name = "six boots"
zone = "UTC"
hard_end = "{end}"
baseline = "{recipe}"
quiet_min = 0
max_gpu_temp_c = 110
give_up_after = 3
[measure]
concurrency = [1]
repeats = 2
max_tokens = 16
[[steps]]
recipe = "{recipe}"
label = "as it is"
[[steps]]
recipe = "{recipe}"
label = "damaged shard"
env = {{ STUB_FAIL = "weights", STUB_RANK = "5" }}
[[steps]]
recipe = "{recipe}"
label = "16 sequences"
flags = {{ "--max-num-seqs" = 16 }}
[[steps]]
recipe = "{recipe}"
label = "hangs"
env = {{ STUB_HANG = "kv", VLLM_ENGINE_READY_TIMEOUT_S = "12" }}
[[steps]]
recipe = "{recipe}"
label = "killed"
env = {{ STUB_KILL = "graphs", STUB_RANK = "2" }}
[[steps]]
recipe = "{recipe}"
label = "8 sequences"
flags = {{ "--max-num-seqs" = 8 }}
"""


def test_six_boots_three_failures_and_a_lost_terminal(deck: Deck, tmp_path: Path) -> None:
    later = time.gmtime(time.time() + 6 * 3600)
    queue = tmp_path / "six.toml"
    queue.write_text(QUEUE.format(end=f"{later.tm_hour:02}:{later.tm_min:02}", recipe=RECIPE))
    master, slave = pty.openpty()
    night = subprocess.Popen(
        [
            *("setsid", "--ctty", sys.executable, "-m", "console", "--cluster", str(deck.cluster)),
            *("night", str(queue), "--foreground"),
        ],
        cwd=ROOT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    nights = Path(os.environ["XDG_STATE_HOME"]) / "nightdeck" / "nights"

    def row() -> dict[str, object]:
        states = list(nights.glob("*/state.json"))
        return json.loads(states[0].read_text()) if states else {"results": []}

    try:
        limit = time.monotonic() + 120
        while not row()["results"] and time.monotonic() < limit and night.poll() is None:
            time.sleep(0.2)  # another process writes it
        os.close(master)  # the terminal goes: SIGHUP to the session's leader, and nothing to write to
        code = night.wait(600)
    finally:
        night.kill()
    done = row()
    log = "".join(p.read_text() for p in nights.glob("*/night.log"))
    results = done["results"]
    assert isinstance(results, list)
    assert [(r["label"], r["outcome"]) for r in results] == [
        ("as it is", "served"), ("damaged shard", "failed"), ("16 sequences", "served"), ("hangs", "not_ready"),
        ("killed", "failed"), ("8 sequences", "served"),
    ], log  # fmt: skip
    assert (code, done["phase"], done["left_serving"]) == (4, "done", RECIPE), log
    whys = [str(r["why"]) for r in results]
    assert "5" in whys[1] and "spark6" in whys[1], whys
    assert "not ready in time" in whys[3], whys
    assert "2" in whys[4] and "spark3" in whys[4], whys
    # The baseline really serves, on all eight, and the morning's report says the same.
    code, status = deck.run("status")
    assert (code, status.deployment["state"], status.deployment["recipe"]) == (0, "ready", RECIPE)
    assert len(deck.left_over()) == 8
    out = tmp_path / "report"
    assert deck.run("report", "-o", str(out))[0] == 0
    text = (out / "report.md").read_text()
    for label in ("as it is", "damaged shard", "16 sequences", "hangs", "killed", "8 sequences"):
        assert label in text
    assert "spark6" in text and "spark3" in text
    assert deck.run("stop", "--grace", "2")[0] == 0
