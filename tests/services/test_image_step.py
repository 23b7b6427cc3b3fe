"""The image as a step of a launch: what is told of it, and which node's image counts."""

from __future__ import annotations

from console.base.absent import Absent
from console.services.image_step import CopyStep, image_source
from console.services.image_sync import NodeImage
from tests.plan.build import all_facts, plan_of, safe, spark_facts, sparks

MIB = 1 << 20


def copying(moved: int, total: int = 100 * MIB) -> NodeImage:
    return NodeImage("n2", "copying", "", "n1", moved, total, 50.0 * MIB)


def test_a_copy_is_told_every_tenth_and_not_more() -> None:
    told: list[tuple[str, str, str]] = []
    step = CopyStep(lambda *row: told.append(row))
    step.told(NodeImage("n2", "copying", via="n1", total_bytes=100 * MIB))
    for moved in range(1, 101):
        step.told(copying(moved * MIB))
    step.told(NodeImage("n2", "verifying", via="n1", moved_bytes=100 * MIB, total_bytes=100 * MIB))
    step.told(NodeImage("n2", "copied", "sha256:1", "n1", 100 * MIB, 100 * MIB))
    assert told[0] == ("n2", "running", "copying") and told[1] == ("n2", "running", "10 % from n1 at 52 MB/s")
    assert told[-2:] == [("n2", "running", "verifying"), ("n2", "done", "100 MiB from n1")] and len(told) == 12


def test_what_is_not_known_is_no_percent_and_a_failure_says_why() -> None:
    told: list[tuple[str, str, str]] = []
    step = CopyStep(lambda *row: told.append(row))
    step.told(copying(3 * MIB, total=0))
    step.told(NodeImage("n2", "failed", "no space left on device", "n1", 3 * MIB))
    step.told(NodeImage("n3", "unknown", "connection lost"))
    step.told(NodeImage("n4", "copying", via="n1"))
    step.ended("aborted")
    assert told == [
        ("n2", "running", "3.0 MiB from n1 at 52 MB/s"),
        ("n2", "failed", "no space left on device"),
        ("n3", "unknown", "connection lost"),
        ("n4", "running", "copying"),
        ("n4", "failed", "aborted"),
    ]


def test_the_image_that_most_nodes_of_the_launch_have_counts() -> None:
    cluster = sparks()
    facts = all_facts(cluster)
    for i in (1, 4):
        facts[f"dgx{i}"] = spark_facts(f"dgx{i}", i, image_ids={"dsv41-flash:local": "sha256:b"})
    facts["dgx6"] = spark_facts("dgx6", 6, image_ids={})
    facts["dgx7"] = Absent("no route")
    plan = plan_of(safe(), cluster, facts)
    assert image_source(plan, facts, ["dgx6"]) == "dgx2"
    nobody = all_facts(cluster, image_ids={})
    assert image_source(plan_of(safe(), cluster, nobody), nobody, [n.name for n in cluster.nodes]) is None
