"""Fewer questions, never weaker answers: a census by the probe, facts renewed, removal told by what is seen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from console.base.absent import Absent
from console.cluster.facts import NodeFacts
from console.cluster.launch_facts import ContainerFact, LaunchFacts, PathFact
from console.cluster.model import Cluster, Node
from console.services import facts_book
from console.services.census import Quick, found_in, take_census
from console.services.facts_book import FactsBook, renewed
from console.services.node_watch import NodeWatch
from console.services.scripts import purge_argv
from console.services.stop import Stop
from console.telemetry.frames import Frame
from console.telemetry.sample import Sample
from console.transport.base import Completed, TransportError, Trouble
from tests.plan.build import tiny
from tests.services.fakes import FakeFleet, FakeLink, ManualClock

CLUSTER = Cluster(name="c", file="", nodes=(Node(name="dgx1", host="dgx1"), Node(name="dgx2", host="dgx2")))


def row(node: str, deployment: str, status: str = "running") -> dict[str, Any]:
    labels = {"nightdeck.deployment": deployment, "nightdeck.rank": "0"}
    return {"Id": f"{node}-{deployment}", "Name": "/x", "State": {"Status": status}, "Config": {"Labels": labels}}


# -- census


async def test_a_node_whose_probe_cannot_say_is_asked_by_its_command() -> None:
    links = [FakeLink("dgx1"), FakeLink("dgx2", answer=lambda _argv: Completed(0, b"[]", b""))]

    async def quick(node: str) -> list[Any] | None:
        return [row(node, "d1")] if node == "dgx1" else None

    census = await take_census(FakeFleet(links), CLUSTER, quick=quick)
    assert isinstance(census["dgx1"], tuple) and [f.deployment for f in census["dgx1"]] == ["d1"]
    assert census["dgx2"] == ()
    assert (len(links[0].asked), len(links[1].asked)) == (0, 1)


class Words:
    """A probe's standard input."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def send(self, data: bytes) -> None:
        assert json.loads(data) == {"do": "census", "n": 1}
        self.asked.set()


def watch(how: str = "socket /var/run/docker.sock") -> tuple[NodeWatch, Words]:
    heard: list[Sample] = []
    made = NodeWatch(
        CLUSTER.nodes[0], FakeLink("dgx1"), b"", ManualClock(), heard=heard.append, trouble_changed=lambda *_: None
    )
    containers = {"t": 1.0, "why": "", "how": how, "rows": []}
    made._take(Frame(1, {"part": "all", "t": 1.0, "self": {"pid": 7}, "containers": containers}))
    words = Words()
    made._stream = words  # type: ignore[assignment]
    return made, words


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ({"why": "", "rows": [{"Id": "a"}]}, [{"Id": "a"}]),
        ({"why": "", "rows": []}, []),
        ({"why": "/var/run/docker.sock: no answer", "rows": []}, None),
        ({"why": "too large for a frame"}, None),
        ({"rows": []}, None),
        ("nonsense", None),
    ],
)
async def test_only_a_whole_answer_to_this_question_is_a_census(said: object, rows: list[Any] | None) -> None:
    made, words = watch()
    asking = asyncio.create_task(made.census(timeout=30))
    await words.asked.wait()
    made._take(Frame(1, {"part": "census", "n": 99, "census": {"why": "", "rows": [{"Id": "old"}]}}))
    made._take(Frame(1, {"part": "census", "n": "1", "census": {"why": "", "rows": [{"Id": "odd"}]}}))
    await asyncio.sleep(0)
    assert not asking.done()
    made._take(Frame(1, {"part": "census", "n": 1, "census": said}))
    assert await asking == rows


async def test_without_a_probe_or_an_answer_there_is_no_census() -> None:
    made, _ = watch()
    assert await made.census(timeout=0.01) is None
    made._stream = None
    assert await made.census(timeout=30) is None
    by_command, words = watch("podman command")
    assert await by_command.census(timeout=30) is None and not words.asked.is_set()


# -- stop


class Engine(FakeLink):
    """Removes what it is told to, unless it is stubborn."""

    def __init__(self, name: str, rows: Sequence[dict[str, Any]], *, stubborn: bool = False) -> None:
        super().__init__(name)
        self.rows, self.stubborn = list(rows), stubborn

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20) -> Completed:
        self.asked.append(list(argv))
        if "rm" in argv and not self.stubborn:
            self.rows = [r for r in self.rows if r["Id"] not in argv]
        return Completed(0, b"", b"rm: it said so\n")


def stop_of(nodes: Sequence[FakeLink], quick: Quick) -> Stop:
    """A stop of `d1` where every node has a probe that can say."""
    options: dict[str, Any] = {"deployment": "d1", "quick": quick, "sees": lambda _: True}
    return Stop(FakeFleet(nodes), CLUSTER, ManualClock(), lambda _e: None, **options)


@pytest.mark.parametrize(("stubborn", "word"), [(False, "stopped"), (True, "still_running")])
async def test_what_is_left_is_seen_by_the_probe_and_handed_on(stubborn: bool, word: str) -> None:
    """Of this deployment and of others: a restart's next launch takes it for its census."""
    one = Engine("dgx1", [row("dgx1", "d1"), row("dgx1", "other")], stubborn=stubborn)
    two = Engine("dgx2", [row("dgx2", "d1")])
    engines = {"dgx1": one, "dgx2": two}

    async def quick(node: str) -> list[Any] | None:
        return list(engines[node].rows)

    stop = stop_of([one, two], quick)
    results = await stop.run()
    assert (results["dgx1"][0], results["dgx2"][0]) == (word, "stopped")
    left = stop.left["dgx1"]
    assert isinstance(left, tuple) and {f.deployment for f in left} == ({"d1", "other"} if stubborn else {"other"})
    assert stop.left["dgx2"] == ()


async def test_a_removal_without_an_answer_is_unknown_and_so_is_what_is_left() -> None:
    one, two = Engine("dgx1", [row("dgx1", "d1")]), Engine("dgx2", [])

    async def cut(argv: Sequence[str], **_: Any) -> Completed:
        if "rm" in argv:
            raise TransportError(Trouble.LOST, "the connection broke", node="dgx1")
        return Completed(0, b"", b"")

    one.run = cut  # type: ignore[method-assign, assignment]
    rows = {"dgx1": one.rows, "dgx2": two.rows}

    async def quick(node: str) -> list[Any] | None:
        return list(rows[node])

    stop = stop_of([one, two], quick)
    assert (await stop.run())["dgx1"] == ("unknown", "the connection broke")
    assert stop.left["dgx1"] == Absent("the connection broke")


async def test_where_no_probe_can_say_one_command_removes_and_looks() -> None:
    one, two = Engine("dgx1", [row("dgx1", "d1")]), Engine("dgx2", [])

    async def nothing(_node: str) -> list[Any] | None:
        return None

    before = {"dgx1": found_in("dgx1", one.rows), "dgx2": ()}
    stop = Stop(FakeFleet([one, two]), CLUSTER, ManualClock(), lambda _e: None, deployment="d1", quick=nothing)
    await stop.run(before)
    assert [argv[0] for argv in one.asked] == ["docker", "sh"], "the stop, then one command"


def test_several_containers_are_removed_one_by_one() -> None:
    """podman removes none of them where one is gone already."""
    assert purge_argv("docker", ["a"]) == ["docker", "rm", "-f", "-v", "a"]
    argv = purge_argv("podman", ["a", "$(reboot)"])
    assert argv[:2] == ["sh", "-c"] and argv[4:] == ["podman", "a", "$(reboot)"] and "reboot" not in argv[2]


# -- facts


def facts(node: str, *, available: int, boot: str = "b1") -> NodeFacts:
    box = ContainerFact("id", "nd-x", "img", "running", ours=True)
    launch = LaunchFacts(mounts={"/x": PathFact("dir")}, containers=(box,), engines=())
    return NodeFacts(node, 1.0, boot_id=boot, mem_available_bytes=available, home="/root", launch=launch)


def test_what_passes_is_as_it_is_now_and_the_rest_as_it_was() -> None:
    old = facts("n", available=5)
    launch = LaunchFacts(containers=(), engines=())
    now = replace(facts("n", available=90), at=9.0, home=Absent("not asked"), launch=launch)
    new = renewed(old, now)
    assert isinstance(new, NodeFacts) and isinstance(new.launch, LaunchFacts)
    assert (new.at, new.mem_available_bytes, new.home) == (9.0, 90, "/root")
    assert new.launch.mounts == {"/x": PathFact("dir")} and new.launch.containers == ()
    assert renewed(old, facts("n", available=90, boot="b2")) is None
    assert renewed(old, Absent("gone")) == Absent("gone")


async def test_the_book_asks_whole_once_then_only_what_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    boot = "b1"

    async def gather(*_: Any, only: tuple[str, ...] = (), **__: Any) -> Mapping[str, NodeFacts | Absent]:
        asked.append(only)
        return {n.name: facts(n.name, available=len(asked), boot=boot) for n in CLUSTER.nodes}

    monkeypatch.setattr(facts_book, "gather_facts", gather)
    clock = ManualClock()
    book = FactsBook(FakeFleet([]), CLUSTER, clock)
    recipe = tiny()
    await book.ask(recipe, fresh_s=15)
    await book.ask(recipe, fresh_s=15)
    assert asked == [()]
    new = await book.renew(recipe, fresh_s=15)
    assert len(asked) == 2 and "containers" in asked[1]
    assert isinstance(new["dgx1"], NodeFacts) and new["dgx1"].mem_available_bytes == 2
    boot = "b2"  # a node that booted between is asked whole
    await book.renew(recipe, fresh_s=15)
    assert len(asked) == 4 and asked[3] == ()
    clock.now += 16
    await book.renew(recipe, fresh_s=15)
    assert asked[4:] == [()]
    book.forget()
    await book.ask(recipe, fresh_s=15)
    assert asked[5:] == [()]


async def test_only_the_nodes_of_the_launch_are_asked_and_others_only_for_a_missing_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = tuple(Node(name=f"dgx{i}", host=f"dgx{i}", fabric_address=f"10.0.0.{i}") for i in range(1, 129))
    cluster = Cluster(name="c", file="", nodes=nodes)
    asked: list[tuple[list[str], tuple[str, ...], list[int]]] = []
    image: dict[str, str] = {}

    async def gather(
        *_: Any, nodes: Sequence[str], asks: Mapping[str, Any], only: tuple[str, ...] = (), **__: Any
    ) -> Mapping[str, NodeFacts | Absent]:
        asked.append((list(nodes), only, [len(asks[name]["peers"]) for name in nodes]))
        return {name: replace(facts(name, available=1, boot="b"), image_ids=dict(image)) for name in nodes}

    monkeypatch.setattr(facts_book, "gather_facts", gather)
    book = FactsBook(FakeFleet([]), cluster, ManualClock())
    recipe = replace(tiny(), required_nodes=2)
    image[recipe.docker_image] = "sha256:1"
    assert set(await book.ask(recipe, fresh_s=15, ranks=["dgx1", "dgx2"])) == {"dgx1", "dgx2"}
    await book.ask(recipe, fresh_s=15, ranks=["dgx1", "dgx2"])
    assert asked == [(["dgx1", "dgx2"], (), [1, 1])], "ways are tried between the nodes of the launch alone"
    await book.ask(recipe, fresh_s=15, ranks=["dgx3", "dgx2"])
    assert [a[0] for a in asked[1:]] == [["dgx3", "dgx2"]], "other nodes: what is remembered is not of them"
    image.clear()
    found = await book.ask(recipe, fresh_s=0, ranks=["dgx1", "dgx2"])
    assert [(len(a[0]), a[1]) for a in asked[2:]] == [(2, ()), (126, facts_book.AT_A_GIVER)] and len(found) == 128
    renewed_facts = await book.renew(recipe, fresh_s=15, ranks=["dgx1", "dgx2"])
    assert asked[-1][0] == ["dgx1", "dgx2"] and len(renewed_facts) == 128
