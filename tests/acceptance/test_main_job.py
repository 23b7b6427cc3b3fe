"""The main job on eight real hosts: launch, follow, stop, and what each real fault turns into."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.acceptance.conftest import RECIPE, Deck

pytestmark = [pytest.mark.bed, pytest.mark.xdist_group("bed"), pytest.mark.timeout(180)]

Event = Mapping[str, Any]


def event(kind: str, **values: Any) -> Callable[[Event], bool]:
    return lambda row: row.get("event") == kind and all(row.get(k) == v for k, v in values.items())


def result_of(ran: Any) -> dict[str, str]:
    return {n["node"]: n["result"] for n in ran.json["nodes"]}


def test_the_seed_comes_up_and_goes_down(deck: Deck) -> None:
    code, launch = deck.run("launch", RECIPE, "--follow")
    assert code == 0, launch.err
    boot = launch.deployment
    assert boot["state"] == "ready" and boot["smoke"]["text"].startswith("The capital of France is Paris")
    assert [r["node"] for r in boot["ranks"]] == [f"spark{i}" for i in range(1, 9)]
    assert len(deck.left_over()) == 8

    code, status = deck.run("status")
    assert code == 0 and status.deployment["state"] == "ready"
    assert all(n["state"] == "fresh" for n in status.json["nodes"])
    assert {r["state"] for r in status.deployment["ranks"]} == {"running"}

    code, stop = deck.run("stop")
    assert code == 0 and stop.json["result"] == "stopped"
    assert set(result_of(stop).values()) == {"stopped"}
    assert deck.left_over() == []


def test_a_rank_killed_in_mid_boot_is_named(deck: Deck) -> None:
    deck.stub(BOOT_S=60)
    launch = deck.start("launch", RECIPE)
    launch.until(event("rank_progress", rank=5), "progress of rank 5")
    # A host that is only just up may drop a greeting, which is tried again: what counts is what carries the boot.
    launch.until(lambda _: [deck.logins(i) for i in range(1, 9)] == [1] * 8, "one connection a node for everything")
    deck.bed[6].docker("kill", *deck.bed[6].containers())
    assert launch.wait() == 1
    boot = launch.deployment
    assert (boot["state"], boot["failed_rank"], boot["failed_node"]) == ("failed", 5, "spark6")
    assert boot["ranks"][5]["exit_code"] == 137
    assert deck.run("stop", "--grace", "2")[0] == 0
    assert deck.left_over() == []


def test_a_link_cut_in_mid_boot_is_a_lost_node_and_not_a_dead_rank(deck: Deck) -> None:
    deck.stub(HANG="kv")  # the boot goes on when the test says so
    launch = deck.start("launch", RECIPE)
    launch.until(event("rank_progress", rank=6), "progress of rank 6")
    deck.bed[7].cut()
    lost = launch.until(event("node_lost", node="spark7"), "node_lost")
    assert lost["trouble"] in ("lost", "unreachable")
    deck.bed[7].heal()
    launch.until(event("node_back", node="spark7"), "node_back", 60)
    deck.stub()
    assert launch.wait() == 0, launch.err
    ranks = launch.deployment["ranks"]
    assert ranks[6]["state"] == "running" and ranks[6]["lines"] > 0
    assert deck.run("stop", "--grace", "2")[0] == 0


@pytest.mark.slow
def test_a_node_that_is_cut_off_is_unknown_in_a_stop(deck: Deck) -> None:
    assert deck.run("launch", RECIPE, "--detach")[0] == 0
    deck.bed[8].cut()
    code, stop = deck.run("stop", "--grace", "2")
    assert code == 4
    results = result_of(stop)
    assert results.pop("spark8") == "unknown" and set(results.values()) == {"stopped"}
    deck.bed[8].heal()
    code, again = deck.run("stop", "--grace", "2")
    assert code == 0 and result_of(again)["spark8"] == "stopped"
    assert deck.left_over() == []


def test_a_dead_container_engine_refuses_a_launch_in_its_own_words(deck: Deck) -> None:
    deck.bed[3].kill_docker()
    code, launch = deck.run("launch", RECIPE)
    assert code == 1
    assert "spark3" in launch.err and "docker" in launch.err.lower()
    assert deck.run("stop")[1].json["result"] == "failed"
    deck.bed[3].start_docker()
    assert deck.left_over() == []


@pytest.mark.slow
def test_a_killed_console_is_followed_by_the_next(deck: Deck) -> None:
    deck.stub(BOOT_S=60)
    launch = deck.start("launch", RECIPE)
    launch.until(event("rank_progress", rank=0), "progress of the head")
    launch.signal(signal.SIGKILL)
    assert launch.wait() == -signal.SIGKILL
    code, status = deck.run("status")
    boot = status.deployment
    assert code == 0 and boot["adopted"] is True and boot["boot"] == 1
    assert boot["state"] == "booting" and all(r["stage"] for r in boot["ranks"])
    refused, second = deck.run("launch", RECIPE)
    assert refused == 1 and "an earlier deployment still lives" in second.err
    assert deck.run("stop", "--grace", "2")[0] == 0


@pytest.mark.slow
def test_an_interrupted_launch_tells_every_node(deck: Deck) -> None:
    launch = deck.start("launch", RECIPE)
    launch.until(event("step_changed", step="start workers", state="running"), "the first step")
    launch.signal(signal.SIGINT)
    assert launch.wait() == 130
    told = result_of(launch)
    assert set(told) == {f"spark{i}" for i in range(1, 9)}
    there = {line.split(":")[0] for line in deck.left_over()}
    assert there == {node for node, result in told.items() if result == "started"}
    assert deck.run("stop", "--grace", "2")[0] == 0


@pytest.mark.slow
def test_a_full_disk_is_told_before_anything_starts_or_by_the_node(deck: Deck) -> None:
    deck.bed[4].fill("/var/lib/docker/containers")
    code, launch = deck.run("launch", RECIPE)
    assert code in (1, 4), launch.err
    assert "spark4" in launch.err
    assert "space" in launch.err.lower(), launch.err
    deck.bed[4].unfill("/var/lib/docker/containers")
    code, stop = deck.run("stop", "--grace", "2")
    assert code == 0, stop.json


def test_a_changed_host_key_is_refused_and_named(deck: Deck) -> None:
    deck.bed[2].swap_host_key()
    code, launch = deck.run("launch", RECIPE)
    assert code == 1
    assert "spark2" in launch.err and "host key" in launch.err.lower()
    code, status = deck.run("status")
    (node,) = [n for n in status.json["nodes"] if n["node"] == "spark2"]
    assert node["state"] == "lost" and "key" in node["why"] and "ssh-keygen" in (node["remedy"] or "")
    assert deck.left_over() == []


@pytest.mark.slow
def test_two_launches_at_once_never_mix(deck: Deck) -> None:
    both = [deck.start("launch", RECIPE, "--detach") for _ in range(2)]
    assert sorted(launch.wait() for launch in both) == [0, 1]
    refused = "".join(launch.err for launch in both)
    assert "another console has the controls" in refused or "an earlier deployment still lives" in refused
    assert len(deck.left_over()) == 8
    assert deck.run("stop", "--grace", "2")[1].json["result"] == "stopped"
    assert deck.left_over() == []
