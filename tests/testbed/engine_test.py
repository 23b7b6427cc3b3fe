"""A real vLLM on the bed, driven by the command: boot to ready, ask, lose a rank, say so, stop. `make engine-test`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.testbed import engine, image, processes
from tests.testbed.bed import Bed, BedUnavailable

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.bed, pytest.mark.xdist_group("bed")]
ROOT = Path(__file__).parents[2]
RECIPE = "tiny-cpu"


@pytest.fixture(scope="session")
def engine_bed() -> Iterator[Bed]:
    """Eight hosts with the real engine's image and the tiny model, equal on all."""
    if reason := engine.unavailable():
        pytest.skip(reason)
    where = engine.folder()
    engine.install(where)
    try:
        bed = Bed.up(8, gpu=False, load_image=False, binds=((where / "tiny", engine.MODEL_ON_NODE),))
    except BedUnavailable as reason:
        pytest.skip(str(reason))
    archive = image.opened(where / "image.tar")
    try:
        bed.each(lambda host: host.load_image(archive.path))
        yield bed
    finally:
        bed.down()


@pytest.fixture
def bed(engine_bed: Bed) -> Bed:
    engine_bed.calm()
    return engine_bed


def nightdeck(bed: Bed, nodes: int, *argv: str, seconds: float = 900) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and the JSON objects of one command, on the first `nodes` hosts."""
    command = [sys.executable, "-m", "console", "--cluster", str(bed.cluster_toml(nodes=nodes)), "--json", *argv]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=seconds, check=False
    )
    print(f"$ nightdeck {' '.join(argv)} -> {done.returncode}\n{done.stderr[-2000:]}")
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def launch(bed: Bed, nodes: int) -> dict[str, Any]:
    """Launch over that many nodes and return the last object: the status at ready."""
    code, said = nightdeck(bed, nodes, "launch", RECIPE, "--nodes", str(nodes), "--follow")
    assert code == 0, said[-1] if said else "no output"
    status = said[-1]["deployments"][0]
    assert status["state"] == "ready"
    assert [rank["rank"] for rank in status["ranks"]] == list(range(nodes))
    return dict(status)


def ask(bed: Bed) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8})
    argv = ["curl", "-s", "-m", "60", "-w", "\n%{http_code}", "http://127.0.0.1:8000/v1/chat/completions"]
    said = bed[1].exec(*argv, "-H", "Content-Type: application/json", "-d", body, check=False, seconds=90).stdout
    text, _, status = said.rpartition("\n")
    return int(status), json.loads(text or "{}")


@pytest.mark.parametrize("nodes", [2, 8])
def test_boot_ask_and_stop(bed: Bed, nodes: int) -> None:
    status = launch(bed, nodes)
    code, answer = ask(bed)
    assert code == 200
    assert answer["usage"]["completion_tokens"] > 0
    code, said = nightdeck(bed, nodes, "status")
    assert code == 0
    deployments = said[-1]["deployments"]
    assert [deployment["boot"] for deployment in deployments] == [status["boot"]]
    code, said = nightdeck(bed, nodes, "stop")
    assert code == 0
    assert said[-1]["result"] == "stopped"
    assert {node["result"] for node in said[-1]["nodes"]} == {"stopped"}
    assert bed.each(lambda host: host.containers()) == [[]] * len(bed)


def test_a_killed_rank_is_named_and_the_rest_is_stopped(bed: Bed) -> None:
    launch(bed, 2)
    worker = bed[2].containers()[0]
    pid = json.loads(bed[2].docker("inspect", worker).stdout)[0]["State"]["Pid"]
    bed[2].exec("kill", f"-{int(signal.SIGKILL)}", str(pid))

    def seen() -> dict[str, Any] | None:
        deployments = nightdeck(bed, 2, "status")[1][-1]["deployments"]
        return next((d for d in deployments if d["state"] in ("degraded", "failed")), None)

    processes.until(lambda: seen() is not None, 120, "the status tells of the lost rank")
    status = seen()
    assert status is not None
    assert next(rank for rank in status["ranks"] if rank["rank"] == 1)["exit_code"] == 137
    assert status["cause"] is None or status["cause"]["rank"] == 1
    code, said = nightdeck(bed, 2, "stop")
    assert code == 0
    assert said[-1]["result"] == "stopped"
    assert bed.each(lambda host: host.containers()) == [[]] * len(bed)


def test_a_killed_worker_process_inside_the_container_is_found(bed: Bed) -> None:
    """The container may leave with code 0 then: the verdict must come from more than the exit code."""
    launch(bed, 2)
    killed = bed[2].exec("pkill", "-KILL", "-f", "VLLM::Worker|VllmWorker", check=False)
    assert killed.returncode == 0, bed[2].exec("ps", "axo", "pid,args").stdout
    processes.until(
        lambda: any(d["state"] in ("degraded", "failed") for d in nightdeck(bed, 2, "status")[1][-1]["deployments"]),
        120,
        "the status tells of the lost worker",
    )
    assert nightdeck(bed, 2, "stop")[0] == 0
