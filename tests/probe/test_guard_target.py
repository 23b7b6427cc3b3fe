"""The guard's one container: a process that is told by its birth, an engine that hangs, refuses or starts anew."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.probe import guard_engine
from console.probe.guard_engine import Target, born
from tests.probe.test_guard import IDENT, LABELS, Engine


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """Stands for a container's first process."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    server = Engine(tmp_path / "e.sock")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def target(
    tmp_path: Path, engine: Engine, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Target]:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/e.sock")
    monkeypatch.setattr(Target, "ours", lambda self, pid: True)
    monkeypatch.setattr(Target, "command", _no_command)
    engine.add()
    engine.containers["nd-flash-r5"]["State"]["Pid"] = child.pid
    made = Target({"container": "nd-flash-r5", "labels": LABELS})
    made.find()
    assert (made.ident, made.pid, made.birth) == (IDENT, child.pid, born(child.pid))
    yield made


def _no_command(self: Target, *words: str) -> subprocess.CompletedProcess[bytes]:
    raise ValueError(f"no `{self.cli}` here")


def test_it_lives_as_long_as_its_process_whatever_the_engine_does(
    target: Target, engine: Engine, child: subprocess.Popen[bytes]
) -> None:
    engine.shutdown()
    engine.server_close()
    (Path(target.path or "")).unlink()
    assert not target.gone() and target.lost_s == 0.0, "an engine that is started anew with live containers"
    child.kill()
    child.wait()
    assert target.gone() and target.state == "exited"


def test_a_container_that_was_removed_by_hand_is_gone(target: Target, engine: Engine) -> None:
    engine.containers.clear()
    target.birth = ""  # as where its process is in another namespace
    assert target.gone()


def test_a_pid_that_was_given_to_another_process_is_neither_watched_nor_killed(
    target: Target, child: subprocess.Popen[bytes]
) -> None:
    target.birth = str(int(target.birth) - 1)
    assert target.kill_process() == ""
    assert child.poll() is None, "the process that has this number now is not the container's"
    assert target.gone()


def test_an_engine_that_hangs_costs_two_seconds_and_not_the_node(
    tmp_path: Path, target: Target, child: subprocess.Popen[bytes]
) -> None:
    path = tmp_path / "hung.sock"
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(path))
        hung.listen(8)
        target.path = str(path)
        begun = time.monotonic()
        assert target.kill() == "signal"
        assert time.monotonic() - begun < 15.0
    assert target.tried == ["engine: timed out", "signal: done"]
    assert child.wait(10) == -9


def test_an_engine_that_answers_with_an_error_is_passed_over(
    target: Target, engine: Engine, child: subprocess.Popen[bytes]
) -> None:
    engine.kill_status = 500
    assert target.kill() == "signal" and child.wait(10) == -9
    assert target.tried[0].startswith("engine: 500")


def test_the_engine_is_asked_to_kill_by_identity_never_by_name(target: Target, engine: Engine) -> None:
    engine.add("nd-flash-r5", "e" * 64, **{"nightdeck.deployment": "another"})  # the name was taken over since
    assert target.kill() == "engine" and engine.killed == []  # 404: ours is gone
    assert not target.take("nd-flash-r5") and target.ident == IDENT


def test_where_nothing_works_it_says_what_was_tried(target: Target, engine: Engine) -> None:
    engine.kill_status = 500
    target.birth = ""
    assert target.kill() == ""
    assert [t.split(":")[0] for t in target.tried] == ["engine", "signal", "command"]
    assert "cannot be told from others" in target.tried[1] and "no `docker` here" in target.tried[2]


def test_an_engine_that_refuses_for_long_and_no_process_in_sight_ends_the_guard(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.birth = ""
    target.path = "/nowhere/e.sock"
    monkeypatch.setattr(Target, "inspect", _refused)
    now = [100.0]
    monkeypatch.setattr(guard_engine.time, "monotonic", lambda: now[0])
    assert not target.gone() and target.lost_s == 0.0
    now[0] += 61.0
    assert not target.gone() and target.lost_s > 60.0


def _refused(self: Target, which: str) -> None:
    raise ConnectionRefusedError(111, "Connection refused")


def test_an_engine_that_is_late_with_its_answer_killed_it_all_the_same(
    target: Target, engine: Engine, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(self: Target, patience: float) -> str:
        child.kill()
        child.wait(10)
        raise TimeoutError("timed out")

    monkeypatch.setattr(Target, "kill_engine", late)
    assert target.kill(0.2) == "engine"
    assert target.tried == ["engine: done, but timed out"]
