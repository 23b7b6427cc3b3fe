"""A launch on nodes that answer from a script: order, failure, abort, leftovers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from console.base.absent import Absent
from console.base.errors import ExitCode, UsageError
from console.boot.events import Event, StepChanged
from console.cluster.model import Cluster, Node
from console.plan.model import Plan
from console.services import launch as launch_module
from console.services.census import Found
from console.services.launch import HEAD, WORKERS, Launch, LaunchFailed, LaunchRefused, refuse_leftovers
from console.transport.base import Completed, TransportError, Trouble
from tests.services.fakes import FakeFleet, FakeLink, ManualClock

NODES = ("dgx1", "dgx2", "dgx3")
CLUSTER = Cluster(name="c", file="", nodes=tuple(Node(name=n, host=n) for n in NODES))


def plan_of(secrets: frozenset[str] = frozenset()) -> Plan:
    """As much of a plan as a launch reads."""
    ranks = tuple(
        SimpleNamespace(
            rank=i,
            node=node,
            container=f"nd-r{i}",
            is_head=i == 0,
            mkdirs=(),
            argv=("docker", "run", f"nd-r{i}"),
            engine_argv=(),
            env={},
        )
        for i, node in enumerate(NODES)
    )
    return cast(Plan, SimpleNamespace(ranks=ranks, deployment="d1", secrets=secrets))


def make(links: Sequence[FakeLink], **options: Any) -> tuple[Launch, list[Event]]:
    events: list[Event] = []
    return Launch(plan_of(**options), FakeFleet(links), CLUSTER, ManualClock(), events.append), events


async def asked(*links: FakeLink) -> None:
    """Let the loop run until these nodes were asked something."""
    for _ in range(1000):
        if all(link.asked for link in links):
            return
        await asyncio.sleep(0)
    raise AssertionError("never asked")


def steps(events: Sequence[Event]) -> list[tuple[str, str, str]]:
    return [(e.step, e.node, e.state) for e in events if isinstance(e, StepChanged)]


async def test_workers_start_at_once_and_the_head_after_all_of_them() -> None:
    gate = asyncio.Event()
    links = [FakeLink("dgx1"), FakeLink("dgx2", delay=gate), FakeLink("dgx3", delay=gate)]
    launch, events = make(links)
    running = asyncio.create_task(launch.run())
    await asked(links[1], links[2])
    assert links[0].asked == [], "the head waits for every worker"
    gate.set()
    await running
    assert [words[-3:] for words in links[0].asked] == [["docker", "run", "nd-r0"]]
    assert steps(events)[-1] == (HEAD, "dgx1", "done")
    assert {state for state, _ in launch.results.values()} == {"started"}


async def test_a_node_that_fails_ends_the_launch_by_step_and_node_and_masks_secrets() -> None:
    said = b"docker: invalid token hf_secretsecret.\nSee 'docker run --help'.\n"
    links = [FakeLink("dgx1"), FakeLink("dgx2"), FakeLink("dgx3", answer=lambda argv: Completed(125, b"", said))]
    launch, events = make(links, secrets=frozenset({"hf_secretsecret"}))
    with pytest.raises(LaunchFailed) as failed:
        await launch.run()
    assert failed.value.where == "dgx3"
    assert failed.value.what.startswith(f"{WORKERS} failed for rank 2: docker: invalid token")
    assert "secretsecret" not in str(failed.value) + repr(failed.value.results) and "--help" not in str(failed.value)
    assert failed.value.exit_code is ExitCode.PARTLY
    assert {n: s for n, (s, _) in failed.value.results.items()} == {
        "dgx1": "not_started",
        "dgx2": "started",
        "dgx3": "failed",
    }
    assert links[0].asked == []
    assert (WORKERS, "dgx3", "failed") in steps(events)


async def test_a_command_that_cannot_be_sent_is_a_failure_and_no_unknown() -> None:
    def long(argv: Sequence[str]) -> Completed:
        raise UsageError("a command line of 900000 bytes is longer than a node takes (122880)")

    launch, events = make([FakeLink("dgx1"), FakeLink("dgx2", answer=long), FakeLink("dgx3")])
    with pytest.raises(LaunchFailed, match="longer than a node takes"):
        await launch.run()
    assert launch.results["dgx2"][0] == "failed" and launch.results["dgx3"] == ("started", "")
    assert (WORKERS, "dgx2", "failed") in steps(events)


async def test_a_lost_connection_is_an_unknown_outcome() -> None:
    lost = TransportError(Trouble.LOST, "dgx2 (operator@dgx2): the connection broke", node="dgx2")
    launch, _ = make([FakeLink("dgx1"), FakeLink("dgx2", answer=lambda argv: lost), FakeLink("dgx3")])
    with pytest.raises(LaunchFailed, match="unknown outcome for rank 1"):
        await launch.run()
    assert launch.results["dgx2"][0] == "unknown"


async def test_an_abort_lets_starts_end_and_tells_every_node() -> None:
    gate = asyncio.Event()
    links = [FakeLink("dgx1"), FakeLink("dgx2"), FakeLink("dgx3", delay=gate)]
    launch, events = make(links)
    running = asyncio.create_task(launch.run())
    await asked(links[2])
    running.cancel()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert {n: s for n, (s, _) in launch.results.items()} == {
        "dgx1": "not_started",
        "dgx2": "started",
        "dgx3": "started",
    }
    last = {node: state for _, node, state in steps(events)}
    assert last == {"dgx1": "not_started", "dgx2": "done", "dgx3": "done"}


async def test_an_abort_asks_the_node_whose_start_did_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_module, "ABORT_WAIT_S", 0.01)

    class Stuck(FakeLink):
        async def run(self, argv: Sequence[str], **options: Any) -> Completed:
            if "docker" in argv[-3:] and "run" in argv:
                self.asked.append(list(argv))
                await asyncio.Event().wait()
            return Completed(0, b"[]", b"")

    links = [FakeLink("dgx1"), FakeLink("dgx2"), Stuck("dgx3")]
    launch, _ = make(links)
    running = asyncio.create_task(launch.run())
    await asked(links[2])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert launch.results["dgx3"] == ("unknown", "its start was cut off, and no container is there yet")


def found(node: str, status: str, deployment: str = "old") -> Found:
    return Found(node=node, id="1", name=f"nd-{node}", status=status, deployment=deployment)


def test_what_lives_is_named_wherever_it_lives_and_what_ended_is_not_in_the_way() -> None:
    refuse_leftovers({"dgx1": (found("dgx1", "exited"),), "dgx2": ()}, chosen=["dgx1"])
    with pytest.raises(LaunchRefused, match=r"dgx9: nd-dgx9 \(running\)"):
        refuse_leftovers({"dgx1": (), "dgx9": (found("dgx9", "running"),)}, chosen=["dgx1"])
    many = {f"n{i}": (found(f"n{i}", "created"),) for i in range(12)}
    with pytest.raises(LaunchRefused, match="and 4 more"):
        refuse_leftovers(many, chosen=[])


def test_a_chosen_node_that_cannot_be_asked_stands_against_a_launch_and_another_does_not() -> None:
    silent = Absent("dgx2 (op@dgx2:22): refused the connection")
    refuse_leftovers({"dgx1": (), "dgx2": silent}, chosen=["dgx1"])
    with pytest.raises(LaunchRefused) as refused:
        refuse_leftovers({"dgx1": (), "dgx2": silent}, chosen=["dgx1", "dgx2"])
    assert "dgx2: dgx2" not in str(refused.value) and "dgx2 (op@dgx2:22)" in str(refused.value)
