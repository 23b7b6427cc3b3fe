"""A real vLLM on the bed, driven by the command: boot to ready, ask, lose a rank, say so, stop. `make engine-test`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from console.boot.awaited import LATE_S
from tests.testbed import engine, image, processes
from tests.testbed.bed import Bed, BedUnavailable
from tests.testbed.host import Host

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


class Console:
    """The command on the first `nodes` hosts, with a state folder of its own."""

    def __init__(self, bed: Bed, state: Path, nodes: int) -> None:
        self.bed = bed
        self.state = state
        self.nodes = nodes
        self._cluster = bed.cluster_toml(state / "cluster.toml", nodes=nodes)
        self._env = {**os.environ, "NIGHTDECK_STATE_DIR": str(state), "NIGHTDECK_CONFIG_DIR": str(state / "config")}

    def start(self, *argv: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "console", "--cluster", str(self._cluster), "--json", *argv]
        return subprocess.Popen(
            command, cwd=ROOT, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __call__(self, *argv: str, seconds: float = 1200) -> tuple[int, list[dict[str, Any]]]:
        """Exit code and the JSON objects of one command."""
        running = self.start(*argv)
        try:
            out, err = running.communicate(timeout=seconds)
        finally:
            running.kill()
        print(f"$ nightdeck {' '.join(argv)} -> {running.returncode}\n{err[-2000:]}")
        # A command that follows prints an object a line; any other one object, over many lines.
        whole = out.lstrip().startswith("{\n")
        objects = [json.loads(out)] if whole else [json.loads(line) for line in out.splitlines()]
        return running.returncode, objects

    def launch(self) -> dict[str, Any]:
        """Launch to ready and return the last object: the status."""
        code, said = self("launch", RECIPE, "--nodes", str(self.nodes), "--follow")
        assert code == 0, said[-1] if said else "no output"
        status = said[-1]["deployments"][0]
        assert status["state"] == "ready"
        assert [rank["rank"] for rank in status["ranks"]] == list(range(self.nodes))
        return dict(status)

    def deployment(self) -> dict[str, Any]:
        return dict(self("status")[1][-1]["deployments"][0])

    def until_failing(self) -> dict[str, Any]:
        """Ask until the status tells of the loss and of its cause."""
        seen: list[dict[str, Any]] = []

        def told() -> bool:
            seen.append(self.deployment())
            return seen[-1]["state"] in ("degraded", "failed") and seen[-1]["cause"] is not None

        processes.until(told, 120, "the status tells of the loss")
        return seen[-1]

    def failing(self, *options: str, recipe: str = RECIPE, first: Sequence[str] = ()) -> dict[str, Any]:
        """The cause of a launch that must fail, as it is told and as its kept boot tells it; nothing is left."""
        code, said = self(*first, "launch", recipe, "--nodes", str(self.nodes), *options)
        assert code == 1
        status = said[-1]["deployments"][0]
        assert status["state"] == "failed"
        cause = dict(status["cause"])
        self.stop()
        kept = self.diagnosed()["cause"]
        assert (kept["class"], kept["rank"]) == (cause["class"], cause["rank"])
        return cause

    def stop(self) -> None:
        """Stop, believe it, and look."""
        code, said = self("stop")
        assert code == 0
        assert said[-1]["result"] == "stopped"
        assert {node["result"] for node in said[-1]["nodes"]} <= {"stopped", "nothing"}
        assert self.bed.each(lambda host: host.containers()) == [[]] * len(self.bed)

    def folder(self) -> Path:
        """The newest boot's."""
        return sorted((self.state / "boots").glob("b*"))[-1]

    def diagnosed(self) -> dict[str, Any]:
        return self("diagnose", str(self.folder()))[1][-1]


@pytest.fixture
def bed(engine_bed: Bed) -> Bed:
    engine_bed.calm()
    return engine_bed


@pytest.fixture
def two(bed: Bed, tmp_path: Path) -> Console:
    return Console(bed, tmp_path, 2)


def serves(host: Host) -> bool:
    return host.exec("curl", "-s", "-m", "2", "-o", "/dev/null", "http://127.0.0.1:8000/", check=False).returncode == 0


def ask(bed: Bed) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8})
    argv = ["curl", "-s", "-m", "60", "-w", "\n%{http_code}", "http://127.0.0.1:8000/v1/chat/completions"]
    said = bed[1].exec(*argv, "-H", "Content-Type: application/json", "-d", body, check=False, seconds=90).stdout
    text, _, status = said.rpartition("\n")
    return int(status), json.loads(text or "{}")


def container_log(host: Host) -> Counter[str]:
    """Every line that the container engine holds, both streams."""
    done = host.docker("logs", "--timestamps", host.containers()[0])
    return Counter([*done.stdout.splitlines(), *done.stderr.splitlines()])


def journal(folder: Path, rank: int) -> Counter[str]:
    return Counter((folder / f"rank{rank}.log").read_text().splitlines())


@pytest.mark.parametrize("nodes", [2, 8])
def test_boot_ask_and_stop(bed: Bed, tmp_path: Path, nodes: int) -> None:
    console = Console(bed, tmp_path, nodes)
    status = console.launch()
    code, answer = ask(bed)
    assert code == 200
    assert answer["usage"]["completion_tokens"] > 0
    code, said = console("smoke")
    assert (code, said[-1]["ok"]) == (0, True)
    code, said = console("status")
    assert code == 0
    deployments = said[-1]["deployments"]
    assert [deployment["boot"] for deployment in deployments] == [status["boot"]]
    for rank in deployments[0]["ranks"]:
        cells = {cell["stage"]: cell["state"] for cell in rank["cells"]}
        assert {
            cells[s] for s in ("image", "container", "arguments", "rendezvous", "model", "weights", "kv cache")
        } == {"done"}, cells
        assert cells["serving"] == "active"
    console.stop()
    assert console.diagnosed()["verdict"] == "healthy"


def test_a_killed_rank_is_named_and_the_rest_is_stopped(two: Console) -> None:
    two.launch()
    worker = two.bed[2].containers()[0]
    pid = json.loads(two.bed[2].docker("inspect", worker).stdout)[0]["State"]["Pid"]
    two.bed[2].exec("kill", f"-{int(signal.SIGKILL)}", str(pid))
    status = two.until_failing()
    assert next(rank for rank in status["ranks"] if rank["rank"] == 1)["exit_code"] == 137
    assert (status["cause"]["class"], status["cause"]["rank"]) == ("killed_from_outside", 1)
    two.stop()
    cause = two.diagnosed()["cause"]
    assert (cause["class"], cause["rank"]) == ("killed_from_outside", 1)


def test_a_killed_worker_process_inside_the_container_is_found(two: Console) -> None:
    """The container leaves with code 0 then: the verdict comes from more than the exit code."""
    two.launch()
    killed = two.bed[2].exec("pkill", "-KILL", "-f", "VLLM::Worker", check=False)
    assert killed.returncode == 0, two.bed[2].exec("ps", "axo", "pid,args").stdout
    cause = two.until_failing()["cause"]
    assert (cause["class"], cause["rank"], cause["file"]) == ("killed_from_outside", 1, "rank1.log")
    two.stop()
    assert two.diagnosed()["cause"]["class"] == "killed_from_outside"


def test_a_node_that_is_cut_off_while_it_serves_is_out_of_sight_and_not_dead(two: Console) -> None:
    two.launch()
    two.bed[2].cut()
    status = two.until_failing()
    assert (status["cause"]["class"], status["cause"]["rank"]) == ("node_unreachable", 1)
    assert next(rank for rank in status["ranks"] if rank["rank"] == 1)["state"] in ("unknown", "unreachable")
    two.bed[2].heal()
    processes.until(lambda: two.deployment()["state"] == "ready", 120, "ready again once the link is back")
    two.stop()


def test_a_port_that_is_taken_is_named(two: Console) -> None:
    listener = two.bed[1].exec("sh", "-c", "python3 -m http.server 8000 >/dev/null 2>&1 & echo $!").stdout.strip()
    try:
        processes.until(lambda: serves(two.bed[1]), 30, "the other server listens")
        refused, _ = two("launch", RECIPE, "--nodes", "2")
        assert refused == 1 and two.bed[2].containers() == [], "seen before anything starts"
        cause = two.failing("--override", "port-busy")
    finally:
        two.bed[1].exec("kill", listener)
    assert (cause["class"], cause["rank"], cause["file"]) == ("port_in_use", 0, "rank0.log")


def test_a_flag_that_the_engine_does_not_know_is_named(two: Console) -> None:
    folder = two.state / "recipes" / "typo"
    folder.mkdir(parents=True)
    text = (ROOT / "recipes" / RECIPE / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(text.replace('"--enforce-eager"', '"--enforce-eagre"'))
    cause = two.failing(recipe="typo", first=("--recipes", str(folder.parent)))
    assert (cause["class"], cause["file"]) == ("unrecognized_argument", f"rank{cause['rank']}.log")
    assert "--enforce-eagre" in " ".join(cause["evidence"])


def test_weights_that_are_cut_short_on_one_node_are_named(two: Console) -> None:
    host, weights = two.bed[2], engine.MODEL_ON_NODE / "model.safetensors"
    host.exec(
        "sh", "-c", f"cp {weights} /tmp/short && truncate -s -4096 /tmp/short && mount --bind /tmp/short {weights}"
    )
    try:
        refused, _ = two("launch", RECIPE, "--nodes", "2")
        assert refused == 1 and host.containers() == [], "seen before anything starts"
        cause = two.failing("--override", "model-truncated")
    finally:
        host.exec("umount", str(weights))
    assert (cause["class"], cause["rank"], cause["file"]) == ("damaged_weights", 1, "rank1.log")


def test_a_missing_peer_is_named_while_the_head_waits_and_is_the_cause_at_the_deadline(two: Console) -> None:
    """Rank 1's container runs, and its engine never says a word: the head waits in the rendezvous, ten minutes if it is
    let. Who is missing is knowable as soon as the head waits, and said from then on."""
    folder = two.state / "recipes" / "short"
    folder.mkdir(parents=True)
    text = (ROOT / "recipes" / RECIPE / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(text.replace("ready_timeout_s = 900", "ready_timeout_s = 180"))
    launching = two.start("--recipes", str(folder.parent), "launch", "short", "--nodes", "2", "--follow")
    try:
        processes.until(lambda: stopped(two.bed[2]), 60, "rank 1's engine stands still from its first moments")
        waits = told = 0.0
        assert launching.stdout is not None
        for line in launching.stdout:
            row = json.loads(line)
            if row.get("event") == "rank_progress" and row["rank"] == 0 and row["stage"] == "rendezvous":
                waits = waits or time.monotonic()
                asked = two.deployment()["awaited"]
                assert asked["came"] == [0] and asked["of"] == 2
                assert [(m["rank"], m["node"]) for m in asked["missing"]] == [(1, two.bed[2].name)]
                print(f"status names rank 1 {time.monotonic() - waits:.1f} s after the head began to wait")
            if row.get("event") == "awaited":
                told = time.monotonic()
                assert row["missing"] == [
                    {"rank": 1, "node": two.bed[2].name, "why": "its container runs and has said nothing"}
                ]
                break
        assert waits and told - waits < LATE_S + 10
        print(f"the launch names it as late {told - waits:.1f} s after the head began to wait")
        out, err = launching.communicate(timeout=300)
    finally:
        launching.kill()
    print(err[-2000:])
    status = json.loads(out.splitlines()[-1])["deployments"][0]
    assert launching.returncode == 3, "not ready in time; the deployment is kept"
    assert [m["rank"] for m in status["awaited"]["missing"]] == [1]
    seen: list[dict[str, Any]] = []

    def told_why() -> bool:
        seen.append(two.deployment())
        return seen[-1]["cause"] is not None

    processes.until(told_why, 60, "the cause is told once the deadline has passed")
    assert (seen[-1]["cause"]["class"], seen[-1]["cause"]["rank"]) == ("rank_missing", 1)
    two.stop()
    cause = two.diagnosed()["cause"]
    assert (cause["class"], cause["rank"]) == ("rank_missing", 1)


def stopped(host: Host) -> bool:
    """Stop the engine in the host's only container, under the container's init, before it has said anything; False:
    there is none yet."""
    names = host.containers()
    init = host.docker("inspect", "--format", "{{.State.Pid}}", names[0]).stdout.strip() if names else "0"
    engines = host.exec("pgrep", "-P", init, check=False).stdout.split() if init not in ("", "0") else []
    if engines:
        host.exec("kill", f"-{int(signal.SIGSTOP)}", *engines)
    return bool(engines)


def test_a_console_that_is_killed_in_mid_boot_loses_no_line(two: Console) -> None:
    launching = two.start("launch", RECIPE, "--nodes", "2", "--follow")
    assert launching.stdout is not None
    for line in launching.stdout:
        if '"rank_progress"' in line and json.loads(line)["stage"] == "arguments":
            break
    launching.kill()
    launching.communicate(timeout=30)
    processes.until(lambda: two.deployment()["state"] == "ready", 900, "ready without the console that launched")
    # Logs that are still while they are compared: a head that is asked for its health writes lines.
    two.bed.each(lambda host: host.docker("pause", *names) if (names := host.containers()) else None)
    two.deployment()
    for rank in (0, 1):
        assert journal(two.folder(), rank) == container_log(two.bed[rank + 1])
    two.bed.each(lambda host: host.docker("unpause", *names) if (names := host.containers()) else None)
    two.stop()
