"""What hangs shows as an age and a reason, and holds nothing else up."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from console.probe import workers
from console.probe.engine import cgroup_usage, engine_socket
from console.probe.workers import Mounts, Worker


def test_a_task_that_hangs_is_told_and_its_last_result_stays() -> None:
    hang, looked, release = threading.Event(), threading.Event(), threading.Event()

    def task() -> dict[str, object]:
        if hang.is_set():
            looked.set()
            release.wait(10)
        return {"why": "", "rows": [1]}

    done = threading.Event()
    worker = Worker("docker", 60.0, task, done.set, limit=2.0)
    assert "not read yet" in worker.group(0.0)["why"]
    worker.start()
    assert done.wait(5)
    assert worker.group(time.monotonic())["rows"] == [1]
    hang.set()
    worker.poked.set()
    assert looked.wait(5)
    assert worker.group(time.monotonic())["why"] == ""
    later = worker.group(time.monotonic() + 12.0)
    assert later["why"] == "docker: no answer for 12 s" and later["rows"] == [1]
    worker.ended = True
    release.set()


def test_a_task_that_fails_is_a_reason_and_runs_again() -> None:
    answers = iter([PermissionError(13, "x"), {"why": "", "rows": [2]}])
    done = threading.Event()

    def task() -> dict[str, object]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    worker = Worker("docker", 60.0, task, done.set)
    worker.start()
    assert done.wait(5)
    assert worker.group(time.monotonic())["why"] == "docker: Permission denied"
    done.clear()
    worker.poked.set()
    assert done.wait(5)
    assert worker.group(time.monotonic())["rows"] == [2]
    worker.ended = True
    worker.poked.set()


def test_a_mount_that_hangs_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text("/dev/sda1 / ext4 rw 0 0\nnas:/m /mnt/nas nfs4 rw 0 0\n")
    monkeypatch.setattr(workers, "PROC", str(tmp_path))
    real, release, entered = os.statvfs, threading.Event(), threading.Event()

    def statvfs(path: str) -> os.statvfs_result:
        if path == "/mnt/nas":
            entered.set()
            release.wait(10)
        return real("/")

    monkeypatch.setattr(os, "statvfs", statvfs)
    mounts = Mounts(["/"])
    now = time.monotonic()
    mounts.group(now)
    assert entered.wait(5)
    end = now + 5
    while "total" not in mounts.group(now)["rows"]["/"]:
        assert time.monotonic() < end
    rows = mounts.group(time.monotonic() + 9.0)["rows"]
    assert rows["/mnt/nas"]["why"] == "/mnt/nas: no answer for 9 s" and rows["/mnt/nas"]["kind"] == "nfs4"
    assert rows["/"]["why"] == ""
    for worker in mounts.workers.values():
        worker.ended = True
    release.set()


@pytest.mark.parametrize(
    ("cli", "env", "expected"),
    [
        ("docker", {"DOCKER_HOST": "unix:///run/user/7/docker.sock"}, "/run/user/7/docker.sock"),
        ("docker", {"DOCKER_HOST": "tcp://10.0.0.1:2375"}, None),
        ("podman", {"CONTAINER_HOST": "unix:///p.sock", "DOCKER_HOST": "unix:///d.sock"}, "/p.sock"),
        ("nerdctl", {"DOCKER_HOST": "unix:///d.sock"}, None),
    ],
)
def test_whose_socket(cli: str, env: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert engine_socket(cli) == expected


def test_a_container_has_its_own_cgroup_never_the_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("console.probe.engine.SYS", str(tmp_path))
    folder = tmp_path / "fs/cgroup/system.slice/docker-ab.scope"
    folder.mkdir(parents=True)
    (folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (folder / "memory.current").write_text("901120\n")
    (folder / "io.stat").write_text("259:0 rbytes=4096 wbytes=1024 rios=1 wios=1 dbytes=0 dios=0\n")
    assert cgroup_usage("0::/system.slice/docker-ab.scope\n") == {"cpu_s": 2.5, "io": 5120, "mem": 901120}
    assert cgroup_usage("0::/\n") == {} and cgroup_usage("0::/../../elsewhere\n") == {} and cgroup_usage("junk") == {}
    old = tmp_path / "fs/cgroup/cpuacct/docker/ab"
    old.mkdir(parents=True)
    (old / "cpuacct.usage").write_text("1500000000\n")
    assert cgroup_usage("4:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab\n") == {"cpu_s": 1.5}
