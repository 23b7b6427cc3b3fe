"""A stop says of each node what was seen there, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from console.boot.events import Event, StepChanged, StopEnded, StopSeen, StopStarted
from console.boot.state import STOP_AGAIN, STOP_ASK
from console.cluster.model import Cluster, Node
from console.services.census import take_census
from console.services.stop import Stop, in_words
from console.transport.base import Completed, TransportError, Trouble
from tests.services.fakes import FakeFleet, FakeLink, ManualClock

CLUSTER = Cluster(name="c", file="", nodes=tuple(Node(name=f"dgx{i}", host=f"dgx{i}") for i in range(1, 4)))


def inspect(rank: int, status: str = "running", deployment: str = "d1") -> dict[str, Any]:
    labels = {"nightdeck.deployment": deployment, "nightdeck.rank": str(rank)}
    return {"Id": f"{rank:064x}", "Name": f"/nd-r{rank}", "State": {"Status": status}, "Config": {"Labels": labels}}


class EngineLink(FakeLink):
    """A container engine with a few containers; `survives`: none of them goes; `lost`: calls that find no answer."""

    def __init__(self, name: str, rows: Sequence[dict[str, Any]], log: list[str], survives: bool = False) -> None:
        super().__init__(name)
        self.rows = list(rows)
        self.log = log
        self.survives = survives
        self.lost = 0

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20) -> Completed:
        if self.lost > 0:
            self.lost -= 1
            raise TransportError(Trouble.REFUSED, f"{self.name} (op@{self.name}): refused", node=self.name)
        if argv[0] == "docker":
            self.log.append(f"stop {self.name} {argv[3]}")
            if self.survives:
                return Completed(1, b"", b"did not receive an exit event")
            for r in self.rows:
                r["State"]["Status"] = "exited"
            return Completed(0, b"", b"")
        if "rm -f" in argv[2]:
            self.log.append(f"remove {self.name}")
            if not self.survives:
                self.rows = [r for r in self.rows if r["Id"] not in argv]
        said = b"could not kill container\n" if self.survives and "rm -f" in argv[2] else b""
        return Completed(0, json.dumps(self.rows).encode(), said)


async def stop(
    links: Sequence[EngineLink], log: list[str], deployment: str | None = "d1", grace_s: float = 7
) -> tuple[Stop, list[Event]]:
    events: list[Event] = []

    async def collect(rows: Sequence[Any]) -> dict[str, str]:
        log.append(f"collect {len(rows)}")
        return {}

    made = Stop(
        FakeFleet(links), CLUSTER, ManualClock(), events.append, deployment=deployment, grace_s=grace_s, collect=collect
    )
    await made.run()
    return made, events


async def test_head_first_then_workers_then_logs_then_removal() -> None:
    log: list[str] = []
    links = [EngineLink(f"dgx{i + 1}", [inspect(i)], log) for i in range(3)]
    made, events = await stop(links, log)
    assert log[0] == "stop dgx1 7"
    assert set(log[1:3]) == {"stop dgx2 7", "stop dgx3 7"}
    assert log[3] == "collect 3"
    assert sorted(log[4:]) == ["remove dgx1", "remove dgx2", "remove dgx3"]
    assert made.results == {f"dgx{i}": ("stopped", "") for i in range(1, 4)}
    assert isinstance(events[-1], StopEnded) and events[-1].result == "stopped"
    assert in_words(made.results) == "3 stopped"


async def test_what_survives_is_still_running_in_the_engines_words() -> None:
    log: list[str] = []
    links = [EngineLink("dgx1", [inspect(0)], log), EngineLink("dgx2", [inspect(1)], log, survives=True)]
    made, events = await stop([*links, EngineLink("dgx3", [], log)], log)
    assert made.outcome == "partly"
    assert made.results["dgx2"] == ("still_running", "nd-r1 (running): could not kill container")
    words = in_words(made.results)
    assert words == "1 stopped, 1 still running (dgx2: nd-r1 (running): could not kill container), nothing on 1 other"
    failed = [e for e in events if isinstance(e, StepChanged) and e.state == "failed"]
    assert [e.node for e in failed] == ["dgx2"]


@pytest.mark.parametrize("status", ["running", "stopping", "initialized", "configured", "unknown", "a-word-of-later"])
async def test_whatever_is_not_known_to_be_over_may_live(status: str) -> None:
    log: list[str] = []
    links = [
        EngineLink("dgx1", [inspect(0, status)], log, survives=True),
        *(EngineLink(f"dgx{i}", [], log) for i in (2, 3)),
    ]
    made, _ = await stop(links, log)
    assert log[0] == "stop dgx1 7" and made.results["dgx1"][0] == "still_running" and made.outcome == "failed"


async def test_a_node_that_comes_back_is_asked_again_and_one_that_does_not_is_unknown() -> None:
    log: list[str] = []
    links = [EngineLink(f"dgx{i + 1}", [inspect(i)], log) for i in range(3)]
    links[1].lost, links[2].lost = 1, 99
    made, events = await stop(links, log)
    assert made.results["dgx2"] == ("stopped", "")
    assert made.results["dgx3"][0] == "unknown"
    assert made.outcome == "partly" and list(made.results) == ["dgx1", "dgx2", "dgx3"]
    assert in_words(made.results) == "2 stopped, 1 unknown (dgx3 (op@dgx3): refused)"
    seen = [(e.node, e.result) for e in events if isinstance(e, StopSeen)]
    assert seen[0] in (("dgx2", "unknown"), ("dgx3", "unknown"))


async def test_another_deployment_is_left_alone_unless_all_is_meant() -> None:
    log: list[str] = []
    links = [
        EngineLink("dgx1", [inspect(0, deployment="other")], log),
        *(EngineLink(f"dgx{i}", [], log) for i in (2, 3)),
    ]
    made, _ = await stop(links, log)
    assert log == [] and made.outcome == "nothing"
    made, _ = await stop(links, log, deployment=None)
    assert made.results["dgx1"] == ("stopped", "")


async def test_containers_that_ended_are_removed_without_another_stop() -> None:
    log: list[str] = []
    links = [EngineLink("dgx1", [inspect(0, "exited")], log), *(EngineLink(f"dgx{i}", [], log) for i in (2, 3))]
    made, _ = await stop(links, log)
    assert log == ["collect 1", "remove dgx1"] and made.outcome == "stopped"


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ({"a": ("nothing", "")}, "nothing of a deployment on 1 node"),
        ({"a": ("nothing", ""), "b": ("nothing", "")}, "nothing of a deployment on 2 nodes"),
        ({"a": ("stopped", ""), "b": ("nothing", "")}, "1 stopped"),
        ({"a": ("unknown", "no answer")}, "1 unknown (a: no answer)"),
        ({"a": ("stopped", "not removed: x (exited)"), "b": ("stopped", "")}, "2 stopped (a: not removed: x (exited))"),
        ({}, "nothing of a deployment on 0 nodes"),
    ],
)
def test_words(results: dict[str, tuple[str, str]], words: str) -> None:
    assert in_words(results) == words


async def test_nobody_waits_for_a_node_that_was_silent_before() -> None:
    log: list[str] = []
    links = [EngineLink(f"dgx{i + 1}", [inspect(i)], log) for i in range(3)]
    events: list[Event] = []
    made = Stop(FakeFleet(links), CLUSTER, ManualClock(), events.append, deployment="d1", grace_s=7)
    seen = await take_census(FakeFleet(links), CLUSTER)
    others_are_done = asyncio.Event()
    made_events = events.append

    def heard(event: Event) -> None:
        made_events(event)
        if {e.node for e in events if isinstance(e, StopSeen)} >= {"dgx1", "dgx2"}:
            others_are_done.set()

    made._emit = heard

    async def late() -> dict[str, Any]:
        await others_are_done.wait()
        return {"dgx3": seen["dgx3"]}

    async with asyncio.timeout(20):
        results = await made.run({n: seen[n] for n in ("dgx1", "dgx2")}, late())
    assert results == {f"dgx{i}": ("stopped", "") for i in range(1, 4)}
    assert log.index("stop dgx3 7") > log.index("remove dgx2")
    assert [e.result for e in events if isinstance(e, StopEnded)] == ["stopped"]


async def test_each_node_is_asked_with_a_limit_before_anything_else_is_told() -> None:
    log: list[str] = []
    links = [EngineLink(f"dgx{i + 1}", [inspect(i)], log) for i in range(3)]
    links[2].lost = 99
    _, events = await stop(links, log)
    assert isinstance(events[0], StopStarted)
    asked = [e for e in events[1:4] if isinstance(e, StepChanged)]
    assert [(e.step, e.node, e.state, e.limit_s) for e in asked] == [
        (STOP_ASK, f"dgx{i}", "running", 15.0) for i in range(1, 4)
    ]
    again = [e for e in events if isinstance(e, StepChanged) and e.step == STOP_AGAIN]
    assert [(e.node, e.limit_s) for e in again] == [("dgx3", 5.0)]


async def test_a_stop_that_is_cut_off_ends_in_words() -> None:
    log: list[str] = []
    links = [EngineLink(f"dgx{i + 1}", [inspect(i)], log) for i in range(3)]
    events: list[Event] = []
    stuck = asyncio.Event()

    async def collect(_rows: Sequence[Any]) -> dict[str, str]:
        stuck.set()
        await asyncio.Event().wait()
        return {}

    made = Stop(FakeFleet(links), CLUSTER, ManualClock(), events.append, deployment="d1", collect=collect)
    task = asyncio.create_task(made.run())
    await stuck.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ends = [e for e in events if isinstance(e, StopEnded)]
    assert [e.result for e in ends] == ["failed"]
    assert made.results["dgx2"] == ("unknown", "the stop was cut off before its answer")
    made.cut_off()
    assert [e for e in events if isinstance(e, StopEnded)] == ends
