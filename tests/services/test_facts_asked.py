"""A container engine that is only slow, on a node that has more to do than processors, is asked once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from console.base.absent import Absent
from console.cluster.facts import NodeFacts
from console.cluster.model import Node
from console.probe import facts_ground
from console.services.facts import node_facts
from console.transport.base import Completed, TransportError, Trouble
from tests.services.fakes import FakeLink

NODE = Node("dgx1", "dgx1")
SLOW = "docker gave no answer in 8 s (load 43 on 20 cores)"


def says(version: dict[str, Any]) -> Completed:
    report = {
        "facts": {"container_version": version, "hostname": {"v": "dgx1"}},
        "missing": {},
        "began": 1.0,
        "ended": 2.0,
    }
    return Completed(0, f"nightdeck-facts-1 {json.dumps(report)}\n".encode(), b"")


async def asked(*answers: Completed) -> tuple[NodeFacts, list[float]]:
    left = list(answers)

    def answer(argv: Sequence[str]) -> Completed:
        return left.pop(0)

    link = FakeLink("dgx1", answer)
    facts = await node_facts(link, NODE, timeout=20.0)
    assert isinstance(facts, NodeFacts) and not left
    return facts, [json.loads(argv[-1])["limit_s"] for argv in link.asked]


async def test_slow_is_not_dead() -> None:
    facts, limits = await asked(says({"why": SLOW}), says({"v": "28.1.1"}))
    assert facts.container_version == "28.1.1" and limits == [8.0, 16.0]


async def test_the_first_answer_holds_where_the_second_does_not_come() -> None:
    left = [says({"why": SLOW})]

    def answer(argv: Sequence[str]) -> Completed:
        if left:
            return left.pop(0)
        raise TransportError(Trouble.LOST, "the connection broke", node="dgx1")

    facts = await node_facts(FakeLink("dgx1", answer), NODE, timeout=20.0)
    assert isinstance(facts, NodeFacts) and facts.container_version == Absent(SLOW)


async def test_it_is_asked_no_third_time_and_says_how_long_it_was_waited_for() -> None:
    twice = SLOW.replace("8 s", "16 s")
    facts, limits = await asked(says({"why": SLOW}), says({"why": twice}))
    assert facts.container_version == Absent(twice) and limits == [8.0, 16.0]


async def test_an_engine_that_is_dead_on_an_idle_node_is_not_waited_for_again() -> None:
    for why in ("docker gave no answer in 8 s", "docker: permission denied", "docker is not installed"):
        facts, limits = await asked(says({"why": why}))
        assert facts.container_version == Absent(why) and limits == [8.0]


@pytest.mark.parametrize(
    ("load", "cores", "said"),
    [(43.2, 20, " (load 43 on 20 cores)"), (3.0, 20, ""), (2.0, 2, ""), (2.6, 2, " (load 3 on 2 cores)")],
)
def test_the_node_says_what_else_it_has_to_do(
    monkeypatch: pytest.MonkeyPatch, load: float, cores: int, said: str
) -> None:
    monkeypatch.setattr(facts_ground.os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(facts_ground.os, "cpu_count", lambda: cores)
    assert str(facts_ground.silent("docker", 8.0)) == f"docker gave no answer in 8 s{said}"
