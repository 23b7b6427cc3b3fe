"""A cluster file proposed from facts: the fabric chosen with its reasons, and what stands against the nodes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from console.base.absent import Absent
from console.base.findings import Finding, Severity
from console.cluster.facts import Hca, Interface, NodeFacts
from console.cluster.facts_parse import MARK
from console.cluster.model import Cluster, Node
from console.services.cluster_init import check, discover
from console.services.fabric_choice import choices, is_twin
from console.services.facts import gather_facts
from console.transport.base import Completed, TransportError, Trouble

GID = Absent("no RoCE v2 GID with an IPv4 address")


def lan(i: int) -> Interface:
    return Interface("eno1", (f"192.168.1.{i}",), True, 1500, 10_000, ("192.168.1.0/24",))


def roce(i: int) -> Interface:
    return Interface("enp1s0f0np0", (f"10.0.0.{i}",), True, 9000, 200_000, ("10.0.0.0/24",))


def spark(i: int, **change: Any) -> NodeFacts:
    lo = Interface("lo", ("127.0.0.1",), True, 65536, Absent(""), ("127.0.0.0/8",))
    bridge = Interface("docker0", ("172.17.0.1",), True, 1500, Absent(""), ("172.17.0.0/16",))
    values: dict[str, Any] = {
        "node": f"dgx{i}",
        "at": 0.0,
        "interfaces": (lo, lan(i), bridge, roce(i)),
        "hcas": (
            Hca("rocep1s0f0:1", "enp1s0f0np0", "ACTIVE", 3),
            Hca("roceP2p1s0f0:1", "enP2p1s0f0np0", "ACTIVE", GID),
            Hca("rocep1s0f1:1", "enp1s0f1np1", "DOWN", GID),
        ),
        "control_address": f"192.168.1.{i}",
    }
    return NodeFacts(**{**values, **change})


def test_rdma_and_speed_beat_the_network_that_ssh_uses() -> None:
    best, other = choices({f"dgx{i}": spark(i) for i in (1, 2)})
    assert best.network == "10.0.0.0/24"
    assert best.why() == "RDMA on every node, 200 Gbit/s, apart from the console's SSH"
    assert best.places["dgx2"].address == "10.0.0.2"
    assert best.places["dgx1"].hcas == ("rocep1s0f0:1",)
    assert (other.network, other.control, other.rdma) == ("192.168.1.0/24", True, False)


def test_a_network_that_one_node_lacks_is_no_choice() -> None:
    facts = {"dgx1": spark(1), "dgx2": spark(2, interfaces=(lan(2),))}
    assert [c.network for c in choices(facts)] == ["192.168.1.0/24"]
    assert choices({"dgx1": spark(1), "dgx2": spark(2, interfaces=Absent("no ip"))}) == []


def test_a_twin_with_an_address_is_taken() -> None:
    hcas = (Hca("rocep1s0f0:1", "enp1s0f0np0", "ACTIVE", 3), Hca("roceP2p1s0f0:1", "enP2p1s0f0np0", "ACTIVE", 3))
    best = choices({f"dgx{i}": spark(i, hcas=hcas) for i in (1, 2)})[0]
    assert best.places["dgx1"].hcas == ("rocep1s0f0:1", "roceP2p1s0f0:1")
    assert not is_twin(Hca("x:1", "enp1s0f1np1", "ACTIVE"), "enp1s0f0np0")
    assert not is_twin(Hca("x:1", "enp1s0f0np0", "ACTIVE"), "enp1s0f0np0")


class FakeLink:
    """Answers the facts program's command with a report for the engine that it has."""

    connected = True

    def __init__(self, node: str, i: int, engine: str | None, trouble: TransportError | None) -> None:
        self.node = node
        self._i = i
        self._engine = engine
        self._trouble = trouble

    async def connect(self, *, timeout: float) -> None:
        if self._trouble is not None:
            raise self._trouble

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20) -> Completed:
        assert argv[:4] == ["python3", "-I", "-S", "-"]
        assert b"GATHERERS" in stdin
        request = json.loads(argv[4])
        if self._engine == "no python":
            return Completed(127, b"", b"python3: not found")
        engine: Mapping[str, object] = (
            {"container_cli": {"v": request["cli"]}, "container_version": {"v": "28"}}
            if request["cli"] == self._engine
            else {"container_cli": {"why": f"{request['cli']} is not installed"}}
        )
        i = self._i
        rows = [
            {"name": f.name, "addresses": list(f.addresses), "networks": list(f.networks), "up": True, "mtu": 9000}
            | {"speed_mbit": f.speed_mbit}
            for f in (lan(i), roce(i))
        ]
        hca = {"name": "rocep1s0f0:1", "interface": "enp1s0f0np0", "state": "ACTIVE", "gid_index_rocev2": 3}
        facts: dict[str, object] = {
            "interfaces": {"v": rows},
            "hcas": {"v": [hca]},
            "boot_id": {"v": f"boot-{i}"},
            "hostname": {"v": f"host-{i}"},
            "gpu_names": {"v": ["NVIDIA GB10"]},
            "nofile_limit": {"v": 1024},
            "memlock_unlimited": {"v": True},
            **engine,
        }
        return Completed(0, MARK + json.dumps({"facts": facts, "began": 100.0, "ended": 100.0}).encode(), b"")

    async def close(self) -> None:
        return None


class FakeFleet:
    def __init__(self, links: dict[str, FakeLink]) -> None:
        self._links = links
        self.closed = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._links)

    def link(self, node: str) -> Any:
        return self._links[node]

    async def close(self) -> None:
        self.closed = True


def fleet_of(engines: Mapping[str, str | None], troubles: Mapping[str, TransportError] | None = None) -> FakeFleet:
    links = {n: FakeLink(n, i, e, (troubles or {}).get(n)) for i, (n, e) in enumerate(engines.items(), 1)}
    return FakeFleet(links)


async def proposal(fleet: FakeFleet, cli: str | None = None) -> tuple[Cluster, Sequence[Finding]]:
    return await discover(
        fleet.names, name="c", user="op", ssh_config=None, container_cli=cli, make_fleet=lambda _: fleet
    )


async def test_a_proposal() -> None:
    fleet = fleet_of({"dgx1": "docker", "dgx2": "docker"})
    cluster, findings = await proposal(fleet)
    assert fleet.closed
    assert cluster.nodes == tuple(
        Node(
            f"dgx{i}",
            f"dgx{i}",
            user="op",
            fabric_address=f"10.0.0.{i}",
            fabric_interface="enp1s0f0np0",
            hcas=("rocep1s0f0:1",),
        )
        for i in (1, 2)
    )
    (chosen,) = [f for f in findings if f.code == "fabric-chosen"]
    assert "10.0.0.0/24" in chosen.message and "not 192.168.1.0/24" in chosen.message


async def test_a_node_that_does_not_answer_stays_with_the_remedy() -> None:
    error = TransportError(Trouble.HOST_KEY, "its host key is not known", node="dgx2", remedy="ssh-keyscan dgx2 >> f")
    fleet = fleet_of({"dgx1": "docker", "dgx2": "docker", "dgx3": "docker"}, {"dgx2": error})
    cluster, findings = await proposal(fleet)
    assert [n.fabric_address for n in cluster.nodes] == ["10.0.0.1", None, "10.0.0.3"]
    (gone,) = [f for f in findings if f.code == "unreachable"]
    assert (gone.node, gone.severity, gone.remedy) == ("dgx2", Severity.BLOCK, "ssh-keyscan dgx2 >> f")


async def test_the_container_command_is_found() -> None:
    cluster, findings = await proposal(fleet_of({"dgx1": "docker", "dgx2": "podman", "dgx3": None}))
    assert [n.container_cli for n in cluster.nodes] == ["docker", "podman", "docker"]
    assert [f.node for f in findings if f.code == "container-engine-missing"] == ["dgx3"]


async def test_the_same_machine_twice() -> None:
    fleet = fleet_of({"dgx1": "docker", "dgx2": "docker"})
    fleet._links["dgx2"]._i = 1
    _, findings = await proposal(fleet)
    assert [f.node for f in findings if f.code == "same-machine"] == ["dgx2"]


async def test_check_says_what_stands_against_a_launch() -> None:
    fleet = fleet_of({"dgx1": "docker", "dgx2": "no python"})
    nodes = (Node("dgx1", "dgx1", fabric_address="127.0.0.1"), Node("dgx2", "dgx2"))
    codes = {(f.code, f.node) for f in await check(fleet, Cluster("c", "f", nodes))}
    assert {("python-missing", "dgx2"), ("nofile-low", "dgx1"), ("fabric-loopback", "dgx1")} <= codes
    assert ("clock-offset", "dgx1") in codes  # the fake's clock stands at 100


async def test_facts_of_those_that_answer_are_kept() -> None:
    error = TransportError(Trouble.SILENT, "sent no greeting", node="dgx2")
    fleet = fleet_of({"dgx1": "docker", "dgx2": "docker", "dgx3": "no python"}, {"dgx2": error})
    cluster = Cluster("c", "f", tuple(Node(n, n) for n in fleet.names))
    facts = await asyncio.wait_for(gather_facts(fleet, cluster, timeout=5, wall=lambda: 90.0), 5)
    assert isinstance(facts["dgx1"], NodeFacts)
    assert facts["dgx1"].clock_offset_s == 10.0
    assert facts["dgx2"] == Absent("silent: sent no greeting")
    assert facts["dgx3"] == Absent("python3 is not installed on the node")
