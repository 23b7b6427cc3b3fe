"""Interrupted, killed, cut off from its reader: what is true is said, and nothing is left hanging."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from tests.cli.conftest import RECIPE, ROOT, MakeLab

TWO = ("--nodes", "2")


def until_event(process: subprocess.Popen[str], **wanted: str) -> None:
    """Read JSON lines until one has these values."""
    assert process.stdout is not None
    for line in process.stdout:
        row = json.loads(line)
        if all(row.get(key) == value for key, value in wanted.items()):
            return
    raise AssertionError(f"ended without {wanted}: {process.stderr.read() if process.stderr else ''}")


def test_an_interrupt_while_starting_leaves_a_true_result_a_node(lab: MakeLab) -> None:
    console = lab(nodes=3)
    process = console.start("--json", "launch", RECIPE, "--nodes", "3")
    until_event(process, event="step_changed", step="start workers", state="running")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    last = json.loads(out.splitlines()[-1])
    assert last["result"] == "aborted"
    told = {n["node"]: n["result"] for n in last["nodes"]}
    assert told.keys() == {"dgx1", "dgx2", "dgx3"}
    assert "aborted" in err and "interrupted" in err
    stopped = console.run("--json", "stop", "--grace", "1")
    assert stopped.code == 0
    there = {n["node"] for n in stopped.json["nodes"] if n["result"] == "stopped"}
    assert there == {node for node, result in told.items() if result == "started"}


def test_an_interrupt_while_watching_keeps_the_deployment(lab: MakeLab) -> None:
    console = lab(speed=60)
    process = console.start("--json", "launch", RECIPE, *TWO)
    until_event(process, event="rank_progress")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 130
    boot = console.run("--json", "status").deployment
    assert {r["state"] for r in boot["ranks"]} == {"running"}
    assert console.run("stop", "--grace", "1").code == 0


def test_a_reader_that_goes_away_ends_the_output_quietly(lab: MakeLab) -> None:
    console = lab()
    assert console.run("launch", RECIPE, *TWO).code == 0
    ran = subprocess.run(
        ["sh", "-c", '"$@" | head -1', "sh", sys.executable, "-m", "console", "--cluster", console.cluster, "logs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout.startswith("r") and ran.stdout.count("\n") == 1
    assert "Traceback" not in ran.stderr and "Broken" not in ran.stderr
    process = console.start("logs", "-f")
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith("r")
    process.stdout.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) in (0, 130)
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_a_launch_whose_reader_has_enough_starts_every_container_and_ends(lab: MakeLab) -> None:
    """`nightdeck launch … | head -1`: the pipe ends in the midst of the launch, and the launch does not."""
    console = lab()
    words = ["--cluster", console.cluster, "launch", RECIPE, "--nodes", "2"]
    ran = subprocess.run(
        ["sh", "-c", '"$@" | head -1', "sh", sys.executable, "-m", "console", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout.count("\n") == 1 and "Traceback" not in ran.stderr and "error" not in ran.stderr, ran.stderr
    deployment = console.run("--json", "status").deployment
    assert [r["state"] for r in deployment["ranks"]] == ["running", "running"]
    assert console.run("--json", "stop", "--grace", "1").json["result"] == "stopped"


def test_a_live_top_ends_quietly_when_its_reader_has_enough(lab: MakeLab) -> None:
    console = lab()
    words = ["--cluster", console.cluster, "top", "--json", "--follow", "--sort", "available"]
    ran = subprocess.run(
        ["sh", "-c", '"$@" | head -1', "sh", sys.executable, "-m", "console", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert len(json.loads(ran.stdout)["nodes"]) == 2
    assert (ran.returncode, ran.stderr) == (0, "")
