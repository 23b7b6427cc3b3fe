"""What facts say against a launch, and the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.base.absent import NOT_SAMPLED, Absent
from console.base.findings import Finding
from console.cluster.facts import Hca, Interface, NodeFacts
from console.cluster.launch_facts import ImageFact, LaunchFacts
from console.plan.preflight import preflight, verdict
from console.plan.silent import SILENT_CODES
from console.recipe.model import LaunchOptions
from tests.plan.build import GIB, all_facts, codes, plan_of, safe, seed, spark_facts, sparks, tiny

QUIET = {"shm-size-no-effect", "ready-timeout-note", "offline-hub-model"}
DENIED = Absent("permission denied while trying to connect to the docker API")
NEVER = safe(launch=LaunchOptions(sync_image="never"))
OTHER_IMAGE = {"dsv41-flash:local": "sha256:" + "b" * 64}


def findings(facts: dict[str, NodeFacts | Absent], recipe: Any = None) -> tuple[Finding, ...]:
    recipe = recipe or safe()
    return preflight(recipe, sparks(), plan_of(recipe, sparks(), facts), facts)


def one_changed(node: str = "dgx6", **changes: Any) -> dict[str, NodeFacts | Absent]:
    facts = all_facts(sparks())
    facts[node] = spark_facts(node, int(node[3:]), **changes)
    return facts


def test_eight_good_nodes_are_ready() -> None:
    found = findings(all_facts(sparks()))
    assert set(codes(found)) == QUIET and verdict(found) == "ready"


def test_the_seed_is_risky() -> None:
    found = findings(all_facts(sparks()), seed())
    assert verdict(found) == "risky" and "memory-gate" in codes(found)


def link(mtu: int = 9000, up: bool = True, speed: int = 200_000, address: str = "10.0.0.6", name: str = "") -> Any:
    return (Interface(name or "enp1s0f0np0", (address,) if address else (), up, mtu, speed),)


@pytest.mark.parametrize(
    "changes, code, severity, part",
    [
        ({"container_version": DENIED}, "docker-permission", "block", "dgx6"),
        ({"container_cli": Absent("docker: command not found")}, "container-engine-missing", "block", "not found"),
        ({"image_ids": {}}, "image-copied", "info", "dgx6: no image dsv41-flash:local, so the launch copies it there"),
        ({"image_ids": OTHER_IMAGE}, "image-differs", "warn", "sha256:bbbbbbbbbbbb on dgx6"),
        ({"architecture": "x86_64"}, "architecture-differs", "block", "x86_64 on dgx6"),
        ({"gpu_driver": "580.173.02"}, "driver-differs", "warn", "580.173.02 on dgx6"),
        ({"gpu_names": ("NVIDIA GB10", "NVIDIA T4")}, "gpu-differs", "warn", "NVIDIA T4"),
        ({"kernel": "7.0.0-1019-nvidia"}, "kernel-differs", "info", "7.0.0-1019-nvidia on dgx6"),
        ({"container_version": "20.10.24"}, "container-version-differs", "info", "20.10.24 on dgx6"),
        ({"disk_free_bytes": {"/": 6 * GIB}}, "disk-low", "warn", "6.00 GiB free on /"),
        ({"disk_free_bytes": {"/": GIB // 2}}, "disk-full", "block", "0.50 GiB free on /"),
        ({"disk_free_bytes": {"/mnt/nas": 0}}, "disk-low", "warn", "/mnt/nas"),
        ({"clock_offset_s": -75.0}, "clock-offset", "warn", "75.0 s behind"),
        ({"clock_offset_s": 3.0, "clock_error_s": 1.9}, "clock-offset", "warn", "3.0 s ahead"),
        ({"uptime_s": 120.0}, "recently-booted", "info", "2 min ago"),
        ({"interfaces": link(mtu=1500)}, "mtu-differs", "warn", "1500 bytes on dgx6"),
        ({"interfaces": link(up=False)}, "link-down", "block", "enp1s0f0np0 is down"),
        ({"interfaces": link(speed=10_000)}, "speed-differs", "warn", "10000 Mbit/s on dgx6"),
        ({"interfaces": link(name="eth0")}, "interface-missing", "block", "no interface enp1s0f0np0"),
        ({"interfaces": link(address="10.9.9.9")}, "interface-address", "block", "10.0.0.6 is not on enp1s0f0np0"),
        ({"hcas": (Hca("rocep1s0f0:1", "x", "ACTIVE"),)}, "hca-missing", "block", "no RDMA port roceP2p1s0f0:1"),
        (
            {"hcas": (Hca("rocep1s0f0:1", "x", "4: ACTIVE"), Hca("roceP2p1s0f0:1", "x", "1: DOWN"))},
            "hca-inactive",
            "block",
            "roceP2p1s0f0:1 is 1: DOWN",
        ),
        ({"nofile_limit": 1024}, "nofile-low", "warn", "1024"),
        ({"memlock_unlimited": False}, "memlock-limited", "warn", "dgx6"),
        ({"nvidia_runtime": False}, "no-gpu-runtime", "block", "dgx6"),
        ({"infiniband": False}, "infiniband-missing", "block", "dgx6"),
        ({"mem_available_bytes": 60 * GIB}, "memory-gate", "warn", "60.00 GiB available"),
        ({"boot_id": "boot-dgx1", "hostname": "dgx1"}, "same-machine", "block", "dgx6 and dgx1"),
    ],
)  # fmt: skip
def test_one_fault_on_one_node(changes: dict[str, Any], code: str, severity: str, part: str) -> None:
    found = findings(one_changed(**changes))
    mine = [f for f in found if f.code == code]
    assert len(mine) == 1 and str(mine[0].severity) == severity and part in mine[0].message
    assert mine[0].node == "dgx6" and mine[0].remedy
    more = {"image-copied": {"local-image"}, "same-machine": {"same-machine"}}.get(code, set())
    assert set(codes(found)) - QUIET - {code} <= {"interface-unknown"} | more
    assert verdict(found) == {"block": "blocked", "warn": "risky", "info": "ready"}[severity]


@pytest.mark.parametrize("port, blocks", [(8000, True), (29501, True), (29500, False)])
def test_ports_matter_on_the_head_alone(port: int, blocks: bool) -> None:
    head = findings(one_changed("dgx1", listening_ports=frozenset({22, port})))
    assert ("port-busy" in codes(head)) is blocks
    assert "port-busy" not in codes(findings(one_changed("dgx6", listening_ports=frozenset({22, port}))))


def test_a_node_that_was_slow_to_answer_is_not_called_a_clock_that_is_off() -> None:
    facts = all_facts(sparks())
    facts["dgx6"] = spark_facts("dgx6", 6, clock_offset_s=3.0, clock_error_s=2.5)
    assert "clock-offset" not in codes(findings(facts))


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("shell: the account's login shell refuses commands: it ended with exit status 1", "shell-refuses"),
        ("python3 is not installed on the node", "python-missing"),
        ("python3 did not run (exit status 127): error while loading shared libraries", "python-missing"),
        ("deadline: python3 did not start, or gave no answer in 20 s", "python-missing"),
        ("silent: sent no greeting", "unreachable"),
    ],
)
def test_a_node_without_facts_is_headed_by_what_it_lacks(reason: str, code: str) -> None:
    facts = one_changed("dgx2")
    facts["dgx6"] = Absent(reason)
    found = [f for f in findings(facts, NEVER) if f.node == "dgx6" and f.code in SILENT_CODES]
    assert {f.severity for f in found} == {"block"}
    assert [(f.code, f.observed) for f in found] == [(code, reason)]


def test_an_unreachable_node_blocks_and_the_rest_is_still_checked() -> None:
    facts = one_changed("dgx2", image_ids={})
    facts["dgx6"] = Absent("connection timed out")
    found = findings(facts, NEVER)
    assert [(f.node, f.observed) for f in found if f.code == "unreachable"] == [("dgx6", "connection timed out")]
    assert "image-missing" in codes(found) and verdict(found) == "blocked"
    assert found[0].severity == "block"
    assert not {"facts-unknown", "memory-unknown"} & set(codes(found))


def test_facts_that_were_not_asked_for_say_nothing() -> None:
    facts: dict[str, NodeFacts | Absent] = {
        f"dgx{i}": NodeFacts(f"dgx{i}", 0.0, home="/home/operator", mem_total_bytes=1, mem_available_bytes=1)
        for i in range(1, 9)
    }
    found = findings(facts)
    assert not [f for f in found if f.severity == "block"]
    assert NOT_SAMPLED.reason not in {f.observed for f in found}


def test_hosts_that_share_a_kernel_are_not_one_machine() -> None:
    assert "same-machine" not in codes(findings(all_facts(sparks(), boot_id="one")))


def image_rows(found: Any) -> list[tuple[str, str | None]]:
    return [(f.code, f.node) for f in found if f.code.startswith("image-")]


def test_an_image_that_some_lack_is_copied_where_the_recipe_lets_it() -> None:
    facts = one_changed("dgx2", image_ids={})
    assert image_rows(findings(facts)) == [("image-copied", "dgx2")]
    refused = [f for f in findings(facts, NEVER) if f.code == "image-missing"]
    assert [f.node for f in refused] == ["dgx2"] and "it is on dgx1, dgx3, dgx4" in refused[0].message
    nobody = findings(all_facts(sparks(), image_ids={}))
    assert image_rows(nobody) == [("image-missing", f"dgx{i}") for i in range(1, 9)]
    assert "no node of the cluster has it" in nobody[0].message


def test_who_has_the_image_may_be_no_node_of_the_launch() -> None:
    cluster, recipe = sparks(), safe(required_nodes=2, tensor_parallel_size=2)
    facts = all_facts(cluster, image_ids={})
    facts["dgx7"] = spark_facts("dgx7", 7)
    plan = plan_of(recipe, cluster, facts)
    found = preflight(recipe, cluster, plan, facts)
    assert image_rows(found) == [("image-copied", "dgx1"), ("image-copied", "dgx2")]
    assert all("from dgx7" in f.message for f in found if f.code == "image-copied")


def test_images_that_differ_are_made_one_where_the_recipe_wants_it() -> None:
    found = findings(one_changed(image_ids=OTHER_IMAGE), safe(launch=LaunchOptions(sync_image="differs")))
    assert image_rows(found) == [("image-copied", "dgx6")]


def test_no_room_for_the_image_blocks_before_anything_runs() -> None:
    image = ImageFact("sha256:" + "a" * 64, ("sha256:1",), 24 * GIB)
    facts = one_changed(image_ids={}, disk_free_bytes={"/var/lib/docker": 40 * GIB, "/mnt/nas/hf": 9_000 * GIB})
    for name, fact in facts.items():
        assert isinstance(fact, NodeFacts)
        if name != "dgx6":
            facts[name] = replace(fact, launch=LaunchFacts(images={"dsv41-flash:local": image}))
    found = findings(facts)
    assert image_rows(found) == [("image-no-room", "dgx6")] and verdict(found) == "blocked"
    assert "40.0 GiB are free where images lie: 50.4 GiB are needed" in found[0].message


def test_images_under_other_names() -> None:
    recipe = tiny(docker_image="vllm/vllm-openai:v0.32")
    facts = all_facts(sparks(), image_ids={"docker.io/vllm/vllm-openai:v0.32": "sha256:1"})
    assert "image-missing" not in codes(findings(facts, recipe))
    podman = all_facts(sparks(), image_ids={"localhost/dsv41-flash:local": "sha256:1"})
    assert "image-missing" not in codes(findings(podman))


def test_storage_drivers_are_named_when_ids_differ() -> None:
    facts = one_changed(image_ids={"dsv41-flash:local": "sha256:bb"}, storage_driver="overlayfs")
    text = next(f.message for f in findings(facts) if f.code == "image-differs")
    assert "storage drivers differ too (overlay2, overlayfs)" in text


def test_two_entries_for_one_host() -> None:
    cluster = sparks(2)
    cluster = replace(cluster, nodes=(cluster.nodes[0], replace(cluster.nodes[1], host="dgx1")))
    recipe = safe(required_nodes=2, tensor_parallel_size=2)
    facts = all_facts(cluster)
    found = preflight(recipe, cluster, plan_of(recipe, cluster, facts), facts)
    assert "same-machine" in codes(found)


def test_a_recipe_may_override_by_itself() -> None:
    facts = one_changed(image_ids={})
    recipe = safe(launch=LaunchOptions(sync_image="never", override=("image-missing", "no-such-code")))
    plan = plan_of(recipe, sparks(), facts)
    plan = replace(plan, findings=preflight(recipe, sparks(), plan, facts))
    assert plan.blocks == () and "image-missing" in codes(plan.findings)
    assert {"recipe-override", "override-unknown"} <= set(codes(plan.findings))
    assert verdict(plan.findings, plan.override) == "risky"


def test_an_override_by_name_leaves_the_risk() -> None:
    found = findings(one_changed(image_ids={}), NEVER)
    assert verdict(found) == "blocked" and verdict(found, ["image-missing"]) == "risky"
    assert verdict(found, ["port-busy"]) == "blocked"
    assert verdict(()) == "ready"
