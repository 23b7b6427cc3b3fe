"""A fleet of links: none waits for another, one jump host is not stormed, and closing ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import asyncssh
import pytest

from console.base.absent import Absent
from console.base.errors import UsageError
from console.cluster.facts import NodeFacts
from console.cluster.model import Cluster, Node
from console.services.facts import gather_facts
from console.transport.base import Link, TransportError
from console.transport.framing import peeled
from console.transport.pool import ConnectGate, LinkFleet, make_fleet
from console.transport.ssh_config import resolve
from tests.transport.sshd import Sshd
from tests.transport.tools import RealClock


async def test_names_and_links(sshd: Sshd) -> None:
    nodes = (Node("one", "spark-1"), Node("here", "local"))
    fleet = make_fleet(Cluster("c", "f", nodes, ssh_config=str(sshd.config())), RealClock())
    assert fleet.names == ("one", "here")
    for name in fleet.names:
        assert (await fleet.link(name).run(["true"], timeout=20)).ok
    with pytest.raises(UsageError) as caught:
        fleet.link("two")
    assert "one, here" in caught.value.remedy
    await fleet.close()
    assert not fleet.link("one").connected


async def test_sixty_four_hosts_half_of_them_wedged() -> None:
    """In-process servers; the wedged half never speaks, and the others do not notice."""

    class Server(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return False

    async def handle(process: asyncssh.SSHServerProcess[str]) -> None:
        mark, _ = peeled(process.command or "")
        process.stdout.write(f"{mark.decode()}ok")
        process.exit(0)

    key = asyncssh.generate_private_key("ssh-ed25519")
    acceptors = [
        await asyncssh.create_server(Server, "127.0.0.1", 0, server_host_keys=[key], process_factory=handle)
        for _ in range(32)
    ]
    with ExitStack() as stack:
        wedged = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(32)]
        ports = [a.get_port() for a in acceptors]
        known = Path.home() / ".ssh" / "known_hosts"
        _write(known, "".join(f"[127.0.0.1]:{p} {key.export_public_key().decode()}" for p in ports))
        nodes = [Node(f"w{i}", "127.0.0.1", port=s.getsockname()[1]) for i, s in enumerate(wedged)]
        nodes += [Node(f"n{i}", "127.0.0.1", port=p) for i, p in enumerate(ports)]
        fleet = make_fleet(Cluster("c", "f", tuple(nodes)), RealClock())
        tasks = {n: asyncio.create_task(fleet.link(n).run(["x"], timeout=60)) for n in fleet.names}
        done = await asyncio.gather(*(t for n, t in tasks.items() if n.startswith("n")))
        assert [d.stdout for d in done] == [b"ok"] * 32
        assert not any(t.done() for n, t in tasks.items() if n.startswith("w"))
        await fleet.close()
        failed = await asyncio.gather(*(t for n, t in tasks.items() if n.startswith("w")), return_exceptions=True)
        assert [type(f) for f in failed] == [TransportError] * 32
    for acceptor in acceptors:
        acceptor.close()


async def test_many_nodes_behind_one_jump_host(make_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    jump, far = make_sshd("MaxStartups 10:100:10"), make_sshd("MaxStartups 100")
    text = jump.config("jump").read_text()
    nodes = []
    for i in range(16):
        text += far.config(f"n{i}", "ProxyJump jump").read_text()
        nodes.append(Node(f"n{i}", f"n{i}"))
    config = tmp_path / "config"
    config.write_text(text)
    fleet = make_fleet(Cluster("c", "f", tuple(nodes), ssh_config=str(config)), RealClock())
    done = await asyncio.gather(*(fleet.link(n).run(["true"], timeout=60) for n in fleet.names))
    assert all(d.ok for d in done)
    await fleet.close()


async def test_the_gate_is_one_for_an_address(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host a b\n  ProxyJump op@jump\n")
    gate = ConnectGate(per_host=2)
    hops = [resolve(Node(n, n), str(config)).hops[0] for n in ("a", "b")]
    async with gate(hops[0]), gate(hops[1]):
        third = asyncio.create_task(gate(hops[0]).__aenter__())
        await asyncio.sleep(0)
        assert not third.done()
    await third


async def test_a_link_that_does_not_close_does_not_hold_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck:
        node = "stuck"

        async def close(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("console.transport.pool.CLOSE_LIMIT_S", 0.05)
    link: Link = Stuck()  # type: ignore[assignment]
    await LinkFleet({"stuck": link}).close()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_facts_over_ssh_know_the_address_that_ssh_came_to(sshd: Sshd) -> None:
    nodes = (Node("one", "spark-1"), Node("here", "local"))
    cluster = Cluster("c", "f", nodes, ssh_config=str(sshd.config()))
    fleet = make_fleet(cluster, RealClock())
    facts = await gather_facts(fleet, cluster, timeout=30)
    await fleet.close()
    one, here = facts["one"], facts["here"]
    assert isinstance(one, NodeFacts) and isinstance(here, NodeFacts)
    assert one.control_address == "127.0.0.1"
    assert isinstance(here.control_address, Absent)
    assert one.boot_id == here.boot_id
