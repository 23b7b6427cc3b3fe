"""A lab in a process of its own: started, found, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from console.assemble import main
from console.base.errors import NightdeckError, UsageError
from console.lab.embedded import SELF as EMBEDDED
from console.lab.embedded import kill, lab, start_lab
from console.lab.registry import find_running_lab, running_lab, state_file


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTDECK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("NIGHTDECK_LAB_SPEED", raising=False)


async def test_a_command_s_own_lab_comes_and_goes_with_it() -> None:
    async with lab(nodes=2, speed=100) as handle:
        assert handle.cluster_file.is_file()
        status = await handle.control("status")
        assert status["speed"] == 100 and set(status["nodes"]) == {"dgx1", "dgx2"}
        assert (await handle.control("set", "node-cut"))["scenario"] == "node-cut"
        with pytest.raises(UsageError, match="no scenario"):
            await handle.control("set", "nope")
        folder, runtime = handle.folder, handle.control_socket.parent
    assert not folder.exists() and not runtime.exists()
    await handle.close()


async def test_a_wrong_scenario_is_told_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NightdeckError, match="did you mean 'healthy'"):
        await start_lab(nodes=1, scenario="helthy")
    assert not caplog.records, "asyncio found that somebody else had waited for its child"


def test_an_ended_child_is_not_reaped_by_killing_it() -> None:
    """Python's own `kill` looks first, and with that look takes the exit status away from asyncio."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    kill(cast("asyncio.subprocess.Process", SimpleNamespace(returncode=None, pid=child.pid)))
    assert os.waitpid(child.pid, 0) == (child.pid, 0)
    kill(cast("asyncio.subprocess.Process", SimpleNamespace(returncode=None, pid=child.pid)))  # gone: no error
    child.returncode = 0


async def test_a_lab_that_serves_is_found_until_it_ends(tmp_path: Path) -> None:
    assert running_lab() is None or await find_running_lab() is None
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "console.lab", "--dir", str(tmp_path / "lab"), "--nodes", "1", "--serve",
        stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        ready = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))
        assert await find_running_lab() == Path(ready["cluster"])
        assert state_file().stat().st_mode & 0o777 == 0o600
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    assert await find_running_lab() is None
    assert not state_file().exists()


async def test_a_dead_lab_s_note_is_not_believed(tmp_path: Path) -> None:
    state_file().parent.mkdir(parents=True)
    state_file().write_text(json.dumps({"folder": str(tmp_path), "pid": 1}))
    (tmp_path / "lab.json").write_text(json.dumps({"pid": os.getpid(), "control": str(tmp_path / "none")}))
    assert await find_running_lab() is None
    state_file().write_text("{ not json")
    assert await find_running_lab() is None


def test_a_person_at_a_terminal_is_told_what_to_type(tmp_path: Path) -> None:
    master, slave = os.openpty()
    lab = subprocess.Popen([*EMBEDDED, "--nodes", "1", "--serve", "--dir", str(tmp_path / "lab")], stdout=slave)
    os.close(slave)
    said = b""
    while b"cluster.toml" not in said:
        said += os.read(master, 4096)
    text = said.decode().replace("\r\n", "\n")
    assert text.startswith("The lab runs: dgx1; scenario healthy, ") and "{" not in text
    assert "\n  nightdeck --cluster lab launch tiny-cpu --nodes 1\n" in text
    assert main(["lab", "--set", "node-cut"]) == 0
    folder = Path(json.loads(state_file().read_text())["folder"])
    assert f"{folder}/cluster.toml" in text
    lab.terminate()
    assert lab.wait(20) == 0
    os.close(master)
    assert main(["lab", "--set", "node-cut"]) == 2
