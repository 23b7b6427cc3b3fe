"""Launch, look, stop: what scripts read, and how each fault of the lab ends."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cli.conftest import RECIPE, MakeLab

TWO = ("--nodes", "2")


def absent_has_reason(value: Any, path: str = "") -> None:
    """Where a measured field is null, a `*_why` beside it says why."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            absent_has_reason(item, f"{path}[{i}]")
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        absent_has_reason(item, f"{path}.{key}")
        if item is None and f"{key}_why" in value:
            assert value[f"{key}_why"], f"{path}.{key} is null without a reason"
        if key.endswith("_bytes"):
            assert item is None or type(item) is int, f"{path}.{key} is {item!r}"
        if key.endswith("_at") and item is not None:
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", item), f"{path}.{key} is {item!r}"


DEPLOYMENT = {
    "boot", "recipe", "state", "started_at", "elapsed_s", "deadline_s", "eta_s", "api", "cause", "ranks",
}  # fmt: skip
RANK = {"rank", "node", "container", "state", "exit_code", "stage", "progress", "stage_s", "last_log_age_s"}
NODE = {
    "node", "state", "age_s", "why", "mem_total_bytes", "mem_available_bytes", "shmem_bytes", "swap_used_bytes",
    "cpu_percent", "load1", "gpus", "net", "rdma", "disks",
}  # fmt: skip
GPU = {"name", "util_percent", "temp_c", "power_w", "clock_mhz", "mem_kind", "mem_used_bytes", "mem_total_bytes"}


def test_the_seed_on_eight_nodes_from_launch_to_stop(lab: MakeLab) -> None:
    console = lab(nodes=8)
    launched = console.run("--json", "launch", RECIPE, "--follow", "--note", "first of the night")
    assert launched.code == 0, launched.err
    events = launched.lines
    assert events[0]["event"] == "boot_opened"
    starts = [e for e in events if e.get("event") == "step_changed" and e["state"] == "done"]
    assert [e["step"] for e in starts] == ["start workers"] * 7 + ["start head"]
    boot = launched.deployment
    assert (boot["state"], boot["boot"], boot["recipe"]) == ("ready", 1, RECIPE)
    assert boot["smoke"]["ok"] is True and "Paris" in boot["smoke"]["text"]

    status = console.run("--json", "status")
    assert status.code == 0
    assert status.json["schema"] == 1
    boot = status.deployment
    assert boot.keys() >= DEPLOYMENT and boot["state"] == "ready" and boot["cause"] is None
    assert boot["api"] == "http://dgx1:8000"
    assert 0 < boot["ready_s"] <= boot["elapsed_s"] < boot["deadline_s"] == 3600
    assert [r["rank"] for r in boot["ranks"]] == list(range(8))
    for rank in boot["ranks"]:
        assert rank.keys() >= RANK
        assert (rank["node"], rank["state"]) == (f"dgx{rank['rank'] + 1}", "running")
        assert rank["container"].endswith(f"-r{rank['rank']}")
    absent_has_reason(status.json)

    top = console.run("--json", "top")
    assert top.code == 0
    for node in top.json["nodes"]:
        assert node.keys() >= NODE and node["state"] == "fresh" and 0 <= node["age_s"] < 10
        (gpu,) = node["gpus"]
        assert gpu.keys() >= GPU and gpu["mem_kind"] == "unified"
        assert node["mem_available_bytes"] < node["mem_total_bytes"]
    absent_has_reason(top.json)

    logs = console.run("--json", "logs", "--rank", "3", "--tail", "5")
    assert logs.code == 0 and len(logs.lines) == 5
    for line in logs.lines:
        assert line.keys() >= {"rank", "node", "at", "level", "process", "text"}
        assert (line["rank"], line["node"]) == (3, "dgx4")
    assert console.run("logs").out.count("\n") > 100

    stopped = console.run("--json", "stop")
    assert stopped.code == 0
    assert stopped.json["result"] == "stopped"
    assert [(n["node"], n["result"]) for n in stopped.json["nodes"]] == [(f"dgx{i}", "stopped") for i in range(1, 9)]
    again = console.run("--json", "stop")
    assert (again.code, again.json["result"]) == (0, "nothing")
    assert console.run("--json", "status").json["deployments"] == []

    (row,) = console.run("--json", "boots").json["boots"]
    assert (row["number"], row["state"], row["note"]) == (1, "stopped", "first of the night")
    assert row["ready_s"] > 0 and row["min_available_bytes"] > 0 and row["stages"]


def test_a_detached_launch_is_followed_by_whoever_looks_later(lab: MakeLab) -> None:
    console = lab(speed=60)
    launched = console.run("--json", "launch", RECIPE, *TWO, "--detach")
    assert launched.code == 0
    assert launched.deployment["state"] in ("starting", "booting")
    boot = console.run("--json", "status").deployment
    assert boot["state"] == "booting" and boot["adopted"] is True
    assert boot["ranks"][0]["stage"] is not None, "what the logs say is read at once"
    refused = console.run("launch", RECIPE, *TWO)
    assert refused.code == 1
    assert "an earlier deployment still lives: dgx1: nd-" in refused.err and "nightdeck stop" in refused.err
    assert console.run("stop", "--grace", "1").code == 0


def test_restart_stops_verifies_and_launches_the_next_number(lab: MakeLab) -> None:
    console = lab()
    assert console.run("launch", RECIPE, *TWO, "--detach").code == 0
    for refused in (["--nodes", "3"], ["tiny-cpu", *TWO]):  # too few nodes; no such image
        assert console.run("restart", *refused, "--grace", "1").code in (1, 2)
    states = [r["state"] for r in console.run("--json", "status").deployment["ranks"]]
    assert states == ["running", "running"], "what cannot run costs nothing that runs"
    again = console.run("--json", "restart", *TWO, "--grace", "1")
    assert again.code == 0, again.err
    assert (again.deployment["boot"], again.deployment["state"]) == (2, "ready")
    names = [r["container"] for r in console.run("--json", "status").deployment["ranks"]]
    assert all("-b2-" in name for name in names)


def test_nothing_changes_nodes_when_read_only(lab: MakeLab) -> None:
    console = lab()
    for command in (["launch", RECIPE], ["stop"], ["restart", RECIPE]):
        ran = console.run("--read-only", *command)
        assert ran.code == 2 and "read-only" in ran.err
    assert console.run("--read-only", "--json", "status").json["deployments"] == []
    assert console.run("launch", RECIPE, *TWO, "--dry-run").code == 0
    assert console.run("--json", "stop").json["result"] == "nothing"


# -- faults ---------------------------------------------------------------------------------------------------------


def test_a_rank_that_dies_while_loading_is_named(lab: MakeLab) -> None:
    console = lab("rank-dies-loading", nodes=3)
    ran = console.run("--json", "launch", RECIPE, "--nodes", "3")
    assert ran.code == 1
    boot = ran.deployment
    assert (boot["state"], boot["failed_rank"], boot["failed_node"]) == ("failed", 2, "dgx3")
    assert boot["ranks"][2]["exit_code"] == 1
    status = console.run("status")
    assert "rank 2 on dgx3 ended with exit code 1" in status.out
    assert console.run("--json", "status").deployment["ranks"][2]["state"] == "exited"
    assert console.run("--json", "stop").json["result"] == "stopped"


def test_a_missing_image_stops_the_launch_before_anything_starts(lab: MakeLab) -> None:
    console = lab("image-missing")
    ran = console.run("launch", RECIPE, *TWO, "--no-sync-image")
    assert ran.code == 1
    assert "image-missing on dgx2" in ran.err and "image sync" in ran.err
    assert console.run("--json", "stop").json["result"] == "nothing"


def test_an_image_that_a_node_lacks_is_copied_as_the_first_step(lab: MakeLab) -> None:
    console = lab("image-missing")
    planned = console.run("--json", "launch", RECIPE, *TWO, "--dry-run")
    rows = [(f["code"], f["node"]) for f in planned.json["findings"] if f["code"].startswith("image-")]
    assert planned.code == 0 and rows == [("image-copied", "dgx2")]
    ran = console.run("--json", "launch", RECIPE, *TWO, "--detach")
    assert ran.code == 0
    steps = [(e["step"], e["node"], e["state"]) for e in ran.lines if e.get("event") == "step_changed"]
    assert steps[0] == ("copy image", "dgx2", "running")
    assert ("copy image", "dgx2", "done") in steps and ("start head", "dgx1", "done") in steps
    assert console.run("--json", "stop").json["result"] == "stopped"


@pytest.mark.slow
def test_a_latched_clock_shows_under_load_alone(lab: MakeLab) -> None:
    console = lab("clock-latch", nodes=4)
    asked = ("--json", "preflight", RECIPE, "--nodes", "4")
    idle = console.run(*asked).json["findings"]
    deep = console.run(*asked, "--deep").json["findings"]
    gpus = {"gpu-clock-low", "gpu-slow", "gpu-not-loaded", "flag-unknown", "help-unreadable"}
    assert [f for f in idle if f["code"] in gpus] == []
    assert [(f["code"], f["node"]) for f in deep if f["code"] in gpus] == [("gpu-clock-low", "dgx4")]
    assert console.run("--read-only", *asked, "--deep").code == 2


def test_an_overridden_block_fails_at_its_step_and_node(lab: MakeLab) -> None:
    console = lab("image-missing")
    ran = console.run("--json", "launch", RECIPE, *TWO, "--no-sync-image", "--override", "image-missing")
    assert ran.code in (1, 4)
    assert "dgx2: start workers failed for rank 1" in ran.err and "No such image" in ran.err
    results = {n["node"]: n["result"] for n in ran.lines[-1]["nodes"]}
    assert results == {"dgx1": "not_started", "dgx2": "failed"}
    boots = console.run("--json", "boots").json["boots"]
    assert boots[0]["state"] == "failed" and boots[0]["cause"]["class"] == "image_missing"


def test_an_engine_that_answers_garbage_is_not_called_ready(lab: MakeLab) -> None:
    console = lab("garbage-answers")
    ran = console.run("--json", "launch", RECIPE, *TWO)
    assert ran.code == 1
    assert ran.deployment["state"] == "serving_bad"
    assert "repeats" in ran.deployment["smoke"]["why"]
    smoke = console.run("--json", "smoke")
    assert smoke.code == 1 and smoke.json["ok"] is False and "care" in smoke.json["text"]


def test_a_container_that_survives_is_never_called_stopped(lab: MakeLab) -> None:
    console = lab("half-stop")
    assert console.run("launch", RECIPE, *TWO, "--detach").code == 0
    ran = console.run("stop", "--grace", "1")
    assert ran.code == 4
    assert re.search(r"^1 stopped, 1 still running \(dgx2: nd-.*-r1 \(running\)", ran.out)
    found = console.run("--json", "stop", "--grace", "1")
    assert found.code == 1
    assert {n["node"]: n["result"] for n in found.json["nodes"]} == {"dgx1": "nothing", "dgx2": "still_running"}
    console.control("set", "healthy")
    assert console.run("stop", "--grace", "1").code == 0


def test_a_node_that_refuses_is_unknown_never_stopped(lab: MakeLab) -> None:
    console = lab()
    assert console.run("launch", RECIPE, *TWO).code == 0
    console.control("cut", "dgx2")
    boot = console.run("--json", "status").deployment
    assert boot["ranks"][1]["state"] == "unknown" and "refused" in boot["ranks"][1]["state_why"]
    ran = console.run("--json", "stop", "--grace", "1")
    assert ran.code == 4
    results = {n["node"]: n for n in ran.json["nodes"]}
    assert (results["dgx1"]["result"], results["dgx2"]["result"]) == ("stopped", "unknown")
    assert "refused" in results["dgx2"]["detail"]
    refused = console.run("launch", RECIPE, *TWO)
    assert refused.code == 1 and "not every node could be asked" in refused.err
    console.control("heal", "dgx2")
    assert console.run("--json", "stop", "--grace", "1").json["result"] == "stopped"


@pytest.mark.slow
def test_a_silent_node_costs_its_own_answer_alone(lab: MakeLab) -> None:
    console = lab()
    assert console.run("launch", RECIPE, *TWO).code == 0
    console.control("freeze", "dgx2")
    nodes = {n["node"]: n for n in console.run("--json", "top").json["nodes"]}
    assert nodes["dgx1"]["state"] == "fresh"
    assert nodes["dgx2"]["state"] == "lost" and nodes["dgx2"]["why"]
    assert nodes["dgx2"]["mem_available_bytes"] is None
    ran = console.run("--json", "stop", "--grace", "1")
    assert ran.code == 4 and "dgx2" in [n["node"] for n in ran.json["nodes"] if n["result"] == "unknown"]


def test_a_dead_container_engine_is_not_an_empty_node(lab: MakeLab) -> None:
    console = lab("docker-dead")
    status = console.run("status")
    assert "no deployment on the 1 node that could say" in status.out
    assert re.search("^  not known of dgx2: .*(Cannot connect|reset)", status.out, re.MULTILINE)
    ran = console.run("launch", RECIPE, *TWO)
    assert ran.code == 1 and "Cannot connect to the Docker daemon" in ran.err
    stop = console.run("stop")
    assert stop.code == 1
    assert "1 unknown (dgx2: Cannot connect" in stop.out and "nothing on 1 other" in stop.out


def test_a_share_that_does_not_fit_fails_with_the_numbers(lab: MakeLab) -> None:
    console = lab("oom-gate")
    ran = console.run("--json", "launch", RECIPE, *TWO)
    assert ran.code == 1
    assert (ran.deployment["failed_rank"], ran.deployment["failed_node"]) == (1, "dgx2")
    log = console.run("logs", "--rank", "1").out
    assert "less than desired GPU memory utilization" in log


def test_a_worker_that_dies_while_serving_degrades_the_deployment(lab: MakeLab) -> None:
    console = lab()
    assert console.run("launch", RECIPE, *TWO).code == 0
    console.control("kill", "dgx2")
    boot = console.run("--json", "status").deployment
    assert boot["state"] in ("degraded", "failed")
    assert boot["ranks"][1]["state"] == "exited" and boot["ranks"][1]["exit_code"] == 137


def test_the_deadline_passes_and_nothing_is_ended(lab: MakeLab, tmp_path: Any) -> None:
    from tests.cli.conftest import ROOT

    folder = tmp_path / "shelf" / "hasty"
    folder.mkdir(parents=True)
    text = (ROOT / "recipes" / RECIPE / "recipe.toml").read_text()
    key, rest = text.split("\n", 1)
    (folder / "recipe.toml").write_text(f"ready_timeout_s = 2\n{key}\n{rest}")
    console = lab("slow-weights", speed=60)
    ran = console.run("--json", "--recipes", str(folder.parent), "launch", "hasty", *TWO)
    assert ran.code == 3, ran.err
    assert ran.deployment["deadline_passed"] is True
    assert {r["state"] for r in ran.deployment["ranks"]} == {"running"}, "a deadline ends nothing"
    assert console.run("--json", "stop", "--grace", "1").json["result"] == "stopped"


def test_hostile_labels_and_logs_stay_harmless(lab: MakeLab) -> None:
    console = lab("hostile", nodes=3)
    refused = console.run("launch", RECIPE, "--nodes", "3")
    assert refused.code == 1 and "hostile" in refused.err
    status = console.run("status")
    assert "containers carry our label but tell no rank" in status.err
    assert console.run("--json", "stop", "--all", "--grace", "1").json["result"] == "stopped"
    assert console.run("launch", RECIPE, "--nodes", "3", "--detach").code == 0
    for ran in (console.run("status"), console.run("--json", "status"), console.run("logs", "--tail", "50")):
        assert ran.code == 0
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", ran.out + ran.err)
    assert json.loads(console.run("--json", "stop", "--grace", "1").out)["result"] == "stopped"
