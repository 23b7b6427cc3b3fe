"""The memory guard: as a real process beside a fake engine, and its loop reading by reading."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from console.probe import guard as guard_module
from console.probe import guard_program
from console.probe.guard import Guard
from console.probe.guard_engine import Target
from console.telemetry.guard_rows import guards, started
from console.telemetry.launch import BOOTSTRAP
from console.telemetry.sample import Guard as GuardView

PYTHON = os.environ.get("PROBE_PYTHON", sys.executable)
GIB = 1 << 30
IDENT = "c" * 64
LABELS = {"nightdeck.deployment": "flash-b11-x", "nightdeck.rank": "5"}


class Engine(socketserver.ThreadingUnixStreamServer):
    """A container engine that has some containers and can kill them."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path) -> None:
        self.containers: dict[str, dict[str, Any]] = {}
        self.killed: list[str] = []
        self.kill_status = 204
        super().__init__(str(path), _Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def add(self, name: str = "nd-flash-r5", ident: str = IDENT, **labels: str) -> None:
        state = {"Status": "running", "Pid": 2**22 + 7}
        self.containers[name] = {"Id": ident, "State": state, "Config": {"Labels": {**LABELS, **labels}}}

    def find(self, which: str) -> dict[str, Any] | None:
        return next((c for n, c in self.containers.items() if which in (n, c["Id"])), None)


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        found = self.server.find(self.path.split("/")[2])
        self.answer(200 if found else 404, found or {"message": "No such container"})

    def do_POST(self) -> None:
        found = self.server.find(self.path.split("/")[2])
        if found is not None and self.server.kill_status == 204:
            self.server.killed.append(found["Id"])
            found["State"] = {"Status": "exited", "Pid": 0, "ExitCode": 137}
        self.answer(self.server.kill_status if found else 404, {})

    def answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode() if status != 204 else b""
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return

    def address_string(self) -> str:
        return "unix"


class Node:
    """A node made of files: meminfo, an engine's socket, a folder for the guards."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc").mkdir()
        self.engine = Engine(root / "e.sock")
        self.memory(20 * GIB)

    def memory(self, available: int) -> None:
        text = f"MemTotal:       127600812 kB\nMemFree:          812344 kB\nMemAvailable: {available // 1024:10} kB\n"
        with open(self.root / "proc/meminfo", "r+" if (self.root / "proc/meminfo").exists() else "w") as out:
            out.write(text)

    def ask(self, **orders: Any) -> bytes:
        program = guard_program()
        env = {
            "PATH": "/usr/bin:/bin",
            "HOST_PROC": f"{self.root}/proc",
            "TMPDIR": str(self.root),
            "DOCKER_HOST": f"unix://{self.root}/e.sock",
        }
        argv = [PYTHON, "-I", "-S", "-c", BOOTSTRAP, str(len(program)), json.dumps(orders)]
        return subprocess.run(argv, input=program, env=env, capture_output=True, timeout=90, check=True).stdout

    def start(self, **more: Any) -> bytes:
        return self.ask(
            do="start",
            deployment="flash-b11-x",
            rank=5,
            container="nd-flash-r5",
            labels=LABELS,
            loading_floor_bytes=4 * GIB,
            serving_floor_bytes=1 * GIB,
            **{"interval_s": 0.02, "beat_s": 0.1, **more},
        )

    def seen(self) -> GuardView:
        rows = guards({"rows": json.loads(self.ask(do="status", deployment="flash-b11-x"))})
        assert isinstance(rows, tuple) and len(rows) == 1
        return rows[0]

    def state(self) -> dict[str, Any]:
        top = next(self.root.glob("nightdeck-*/guard"))
        return dict(json.loads((top / "flash-b11-x.r5/state.json").read_text()))


def until(look: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.01)
    raise AssertionError("it did not come to be")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    here = Node(tmp_path)
    yield here
    here.engine.containers.clear()  # which ends the guard
    until(lambda: not any(_holds(lock) for lock in tmp_path.glob("nightdeck-*/guard/*")))
    here.engine.shutdown()
    here.engine.server_close()


def _holds(folder: Path) -> bool:
    return guard_module.held(str(folder))


def test_it_kills_its_container_below_the_floor_and_leaves_the_numbers(node: Node) -> None:
    node.engine.add()
    node.engine.add("another", "d" * 64)
    first = started(node.start())
    assert isinstance(first, GuardView) and first.running and first.floor_bytes == 4 * GIB
    until(lambda: node.state()["container"] == IDENT)
    node.memory(3 * GIB)
    until(lambda: node.engine.killed)
    seen = until(lambda: s if not (s := node.seen()).running else None)
    assert node.engine.killed == [IDENT]
    assert seen.trip is not None and seen.trip.available_bytes == 3 * GIB and seen.trip.floor_bytes == 4 * GIB
    assert seen.trip.killed_by == "engine" and seen.trip.stage == "loading"
    assert [a for _, a in seen.trip.history][-3:] == [3 * GIB] * 3
    assert 20 * GIB in [a for _, a in seen.trip.history]
    assert seen.ended == "its container ended"


def test_there_is_one_for_a_deployment_and_a_node(node: Node) -> None:
    node.engine.add()
    pid = json.loads(node.start())["pid"]
    again = json.loads(node.start())
    assert again["already"] is True and again["running"] is True and again["pid"] == pid


def test_told_that_the_engine_serves_it_takes_the_lower_floor(node: Node) -> None:
    node.engine.add()
    node.start()
    assert json.loads(node.ask(do="tell", deployment="flash-b11-x", rank=5, stage="serving")) == {"running": True}
    until(lambda: node.state()["stage"] == "serving")
    node.memory(2 * GIB)
    until(lambda: node.state()["lowest_bytes"] == 2 * GIB)
    assert node.engine.killed == []
    assert node.seen().stage_why == "told by the console"
    node.memory(GIB - 4096)
    until(lambda: node.engine.killed)


def test_without_a_console_the_api_tells_that_loading_is_over(node: Node) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), _Healthy) as api:
        threading.Thread(target=api.serve_forever, args=(0.02,), daemon=True).start()
        node.engine.add()
        node.start(health=[["127.0.0.1", api.server_address[1]]])
        until(lambda: node.state()["stage"] == "serving")
        api.shutdown()
    assert node.seen().stage_why == "the API answers"


class _Healthy(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(4096)
        self.request.sendall(b"HTTP/1.0 200 OK\r\n\r\n")


def test_a_container_of_the_same_name_of_another_deployment_is_left_alone(node: Node) -> None:
    node.engine.add(**{"nightdeck.deployment": "someone-else"})
    node.memory(1024)
    node.start(wait_container_s=0.3)
    seen = until(lambda: s if not (s := node.seen()).running else None)
    assert seen.ended == "no container of the deployment came to be" and node.engine.killed == []


def test_it_ends_with_its_container(node: Node) -> None:
    node.engine.add()
    node.start()
    until(lambda: node.state()["container"] == IDENT)
    node.engine.containers.clear()
    assert until(lambda: s if not (s := node.seen()).running else None).ended == "its container ended"


def test_it_says_why_it_cannot_run(node: Node) -> None:
    bad = node.root / f"nightdeck-{os.getuid()}"
    bad.mkdir(mode=0o755)
    said = started(node.start())
    assert not isinstance(said, GuardView) and "not a folder of this user alone" in said.reason
    assert started(b"garbage").reason == "the guard's program gave no answer"  # type: ignore[union-attr]


def test_a_folder_name_cannot_be_led_astray(node: Node) -> None:
    answer = json.loads(node.ask(do="tell", deployment="../../x", rank=0, stage="serving"))
    assert answer["running"] is False


class Script:
    """Readings one by one; the last one ends the guard."""

    def __init__(self, guard: Guard, values: list[int | None]) -> None:
        self.guard, self.values = guard, values

    def read(self) -> int | None:
        value = self.values.pop(0)
        if not self.values:
            self.guard.over.set()
        return value


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Guard, list[str]]]:
    """Run the main loop over these readings, without the thread that asks the engine."""
    monkeypatch.setattr(guard_module, "protect", lambda: 0)
    monkeypatch.setattr(guard_module, "lock_memory", lambda: False)
    monkeypatch.setattr(guard_module, "hurry", lambda: "")
    ticks = count()
    monkeypatch.setattr(guard_module.time, "monotonic", lambda: 0.02 * next(ticks))

    def run(values: list[int | None], ways: list[str] | None = None, **more: Any) -> tuple[Guard, list[str]]:
        options = {"deployment": "d", "rank": 0, "container": "c", "loading_floor_bytes": 4 * GIB}
        made = Guard({**options, "serving_floor_bytes": GIB, "interval_s": 0.02, **more}, str(tmp_path))
        kills: list[str] = []
        left = list(ways or ["engine"])

        def kill(patience: float) -> str:
            assert 0.1 <= patience <= 1.5
            kills.append("kill")
            return left.pop(0) if left else ""

        made.target.ident, made.target.state = IDENT, "running"
        monkeypatch.setattr(made.target, "kill", kill)
        monkeypatch.setattr(made, "watch", lambda: None)
        monkeypatch.setattr(made, "meminfo", Script(made, values))
        made.run()
        return made, kills

    return run


@pytest.mark.parametrize(
    ("fell_gib_s", "left_gib", "patience"),
    [(1.0, 4.0, 1.0), (1.0, 0.9, 0.225), (20.0, 0.5, 0.1), (0.01, 3.9, 1.5), (0.0, 0.5, 1.5)],
)
def test_the_engine_is_waited_for_no_longer_than_memory_lasts(
    loop: Any, fell_gib_s: float, left_gib: float, patience: float
) -> None:
    guard, _ = loop([5 * GIB])
    guard.history = [(10.0 + 0.05 * n, int((left_gib + fell_gib_s * 0.05 * (8 - n)) * GIB)) for n in range(9)]
    assert guard.patience(10.4, int(left_gib * GIB)) == pytest.approx(patience, rel=0.01)


def test_dips_shorter_than_the_readings_asked_for_do_nothing(loop: Any) -> None:
    _, kills = loop([5 * GIB, 3 * GIB, 3 * GIB, 5 * GIB] * 25 + [3 * GIB, 3 * GIB])
    assert kills == []


def test_a_guard_that_is_late_itself_needs_no_third_reading(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr(guard_module.time, "monotonic", lambda: 0.2 * next(ticks))
    _, kills = loop([5 * GIB, 3 * GIB, 5 * GIB, 3 * GIB, 5 * GIB])
    assert kills == [], "one reading is none"
    _, kills = loop([5 * GIB, 3 * GIB, 3 * GIB, 3 * GIB])
    assert kills == ["kill"]


def test_the_floor_itself_is_enough_memory(loop: Any) -> None:
    _, kills = loop([4 * GIB] * 60)
    assert kills == []


def test_readings_that_cannot_be_had_neither_count_nor_clear(loop: Any) -> None:
    _, kills = loop([GIB, None, GIB, None, GIB, None])
    assert kills == ["kill"]


def test_what_was_killed_gets_time_to_give_its_memory_back(loop: Any) -> None:
    made, kills = loop([GIB] * 12)
    assert kills == ["kill"]
    assert made.tripped["outcome"] == "killed" and "again" not in made.tripped


def test_a_kill_that_failed_is_tried_again_and_the_first_numbers_stay(loop: Any, monkeypatch: Any) -> None:
    ticks = iter(range(0, 10_000, 2))
    monkeypatch.setattr(guard_module.time, "monotonic", lambda: float(next(ticks)))
    made, kills = loop([3 * GIB] * 3 + [GIB] * 9, [""])
    assert len(kills) >= 2
    assert made.tripped["available_bytes"] == 3 * GIB and made.tripped["again"] is True


def test_only_the_very_process_of_the_container_is_signalled() -> None:
    target = Target({"container": "c"})
    target.ident, target.pid = IDENT, os.getpid()
    assert not target.ours(os.getpid())
    assert target.kill_process() == "its process cannot be told from others"
