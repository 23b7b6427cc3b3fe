"""What the simulated nodes share: time, the faults, who listens where, and the stores that ranks meet in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from console.lab.clock import LabClock
from console.lab.containers import ContainerEngine
from console.lab.http import Reader, Writer
from console.lab.machine import Machine
from console.lab.scenarios import SCENARIOS, Scenario

Service = Callable[[Reader, Writer, str], Awaitable[None]]


class Member(Protocol):
    """A rank, as the others of its group see it."""

    rank: int
    node: LabNode
    ended: bool

    def peer_left(self, rank: int) -> None: ...


class LabNode:
    """One node: what it is, what runs on it, and whether it still moves."""

    def __init__(self, name: str, machine: Machine, folder: Path) -> None:
        self.name = name
        self.machine = machine
        self.folder = folder
        self.engine: ContainerEngine  # set once by the lab: the engine's programs need the node
        self.moving = asyncio.Event()
        self.moving.set()
        self.services: dict[tuple[str, int], Service] = {}
        self.bound: set[int] = set()
        self.cut = False
        self.on_change: Callable[[], None] = lambda: None
        self.on_command: Callable[[], None] = lambda: None

    @property
    def silent(self) -> bool:
        return not self.moving.is_set()

    def listen(self, address: str, port: int, service: Service) -> None:
        self.services[address, port] = service
        self.machine.listening.add((address, port))

    def close_port(self, address: str, port: int) -> None:
        self.services.pop((address, port), None)
        self.machine.listening.discard((address, port))

    def service(self, host: str, port: int) -> Service | None:
        """Who answers there. `host` as a program on this node would name it."""
        own = ("127.0.0.1", "localhost", "::1", "0.0.0.0")
        addresses = ["0.0.0.0", "127.0.0.1"] if host in own else ["0.0.0.0", host]
        return next((self.services[a, port] for a in addresses if (a, port) in self.services), None)

    def freeze(self) -> None:
        """From now on nothing on this node moves: SSH accepts and says nothing."""
        self.moving.clear()
        self.on_change()

    def cut_off(self) -> None:
        """SSH connections drop and new ones are refused; what runs on the node runs on."""
        self.cut = True
        self.on_change()

    def heal(self) -> None:
        self.cut = False
        self.moving.set()
        self.on_change()


class Group:
    """The store that the ranks of one boot meet in: one head, `world` members."""

    def __init__(self, clock: LabClock, world: int) -> None:
        self.clock = clock
        self.world = world
        self.members: dict[int, Member] = {}
        self.lost: set[int] = set()
        self._barriers: dict[str, tuple[set[int], asyncio.Event]] = {}

    def join(self, member: Member) -> bool:
        """False when this rank's number is taken: then, as in the real thing, it waits for ever."""
        if member.rank in self.members:
            return False
        self.members[member.rank] = member
        return True

    def arrive(self, name: str, rank: int) -> asyncio.Event:
        """The event is set when all ranks have arrived at the barrier."""
        arrived, event = self._barriers.setdefault(name, (set(), asyncio.Event()))
        arrived.add(rank)
        if len(arrived) >= self.world:
            event.set()
        return event

    def arrived(self, name: str) -> int:
        return len(self._barriers.get(name, (set(), None))[0])

    def leave(self, rank: int) -> None:
        """The others notice after some seconds: the head's end sooner, through the store's sockets."""
        self.lost.add(rank)
        delay = self.clock.wall(6.0 if rank == 0 else 14.0)
        loop = asyncio.get_running_loop()
        for other in self.members.values():
            if not other.ended:
                loop.call_later(delay, other.peer_left, rank)

    @property
    def whole(self) -> bool:
        """All ranks are there and move: then a request is answered."""
        return (
            len(self.members) >= self.world and not self.lost and not any(m.node.silent for m in self.members.values())
        )


class World:
    """All nodes of one lab and its faults."""

    def __init__(self, clock: LabClock, scenario: Scenario | None = None) -> None:
        self.clock = clock
        self.scenario = scenario or SCENARIOS["healthy"]
        self.nodes: dict[str, LabNode] = {}
        self.groups: dict[tuple[str, int], Group] = {}
        self.models: set[str] = set()

    def by_address(self, address: str) -> LabNode | None:
        return next((n for n in self.nodes.values() if address in (n.name, n.machine.fabric_address)), None)

    def strikes(self, name: str, node: LabNode | None = None) -> bool:
        """Whether the fault `name` is on, and meant for this node."""
        if self.scenario.name != name:
            return False
        return node is None or node.machine.number == self.scenario.target(len(self.nodes))

    def strikes_rank(self, name: str, node: LabNode, rank: int, ranks: int, used: frozenset[int] = frozenset()) -> bool:
        """Whether the fault is meant for this rank: the one on the fault's node, and the last one of a boot that does
        not use that node. used: the numbers of the nodes that the boot is known to use; none: not known yet."""
        target = self.scenario.target(len(self.nodes))
        if self.scenario.name != name or not target:
            return False
        beyond = target not in used if used else target > ranks
        return node.machine.number == target or (beyond and rank == ranks - 1)

    def group(self, address: str, port: int, world: int) -> Group:
        """The store at this address; a new one where the old one's head is gone."""
        found = self.groups.get((address, port))
        if found is None or (0 in found.lost):
            found = self.groups[address, port] = Group(self.clock, world)
        return found
