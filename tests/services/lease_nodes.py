"""Nodes as the lease and a start find them, without processes: locks, holders, starts under way, containers.

What `console/services/lease_program.py` does on a node is done here by a task, in a time that a seed decides; the
locks of real nodes are tested in test_controls.py."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from console.services.lease_program import EXPIRE_S, FENCE, FENCED, GO_S, IN_FLIGHT_S, PROGRAM
from console.services.scripts import APART
from console.transport.base import Completed, Stream, TransportError, Trouble


@dataclass
class Holder:
    """A process on a node that has the lock, or asks for it, or takes it."""

    pid: int
    who: str
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    told_to_go: asyncio.Event = field(default_factory=asyncio.Event)


class Machine:
    """One node. fence, run_lock: parts of the program that a test can leave out, to see what they are for."""

    def __init__(self, name: str, rng: random.Random, *, fence: bool = True, run_lock: bool = True) -> None:
        self.name = name
        self.rng = rng
        self.fence = fence
        self.run_lock = run_lock
        self.lock: Holder | None = None
        self.asking: list[Holder] = []
        self.taking: list[Holder] = []
        self.starting = 0
        self.containers: dict[str, str] = {}  # id -> deployment
        self.most: set[str] = set()  # deployments that lived at once, where they were several
        self._pid = 100
        self._news = asyncio.Event()

    def changed(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def wait(self, timeout: float) -> None:
        news = self._news
        try:
            async with asyncio.timeout(timeout):
                await news.wait()
        except TimeoutError:
            return

    async def work(self, most: float = 0.05) -> None:
        await asyncio.sleep(self.rng.random() * most)

    def process(self, who: str) -> Holder:
        self._pid += 1
        return Holder(self._pid, who)

    def lives(self, pid: int, token: str) -> bool:
        return self.lock is not None and self.lock.pid == pid and token in self.lock.who

    def free(self, holder: Holder) -> None:
        holder.ended.set()
        if self.lock is holder:
            self.lock = None
        for rows in (self.asking, self.taking):
            if holder in rows:
                rows.remove(holder)
        self.changed()

    async def flock(self, holder: Holder, seconds: float) -> bool:
        limit = asyncio.get_running_loop().time() + seconds
        while self.lock is not None:
            left = limit - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await self.wait(left)
        self.lock = holder
        return True

    async def no_start(self, seconds: float) -> bool:
        limit = asyncio.get_running_loop().time() + seconds
        while self.starting and self.run_lock:
            left = limit - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await self.wait(left)
        return True

    def container(self, deployment: str) -> None:
        self.containers[f"{len(self.containers)}{deployment}"] = deployment
        lives = set(self.containers.values())
        if len(lives) > 1:
            self.most |= lives


class Pipe:
    """Both ends of the program's standard input and output."""

    def __init__(self) -> None:
        self.input: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.output: asyncio.Queue[bytes | None] = asyncio.Queue()

    def say(self, *lines: str) -> None:
        self.output.put_nowait("".join(line + "\n" for line in lines).encode())


async def lease_program(machine: Machine, pipe: Pipe, who: str, mode: str) -> None:
    """`PROGRAM` and `WATCHER`, statement by statement as far as locks and words go."""
    me = machine.process(who)
    try:
        await machine.work()
        if not await _get(machine, pipe, me, mode):
            return
        if not await machine.no_start(0.0):
            pipe.say("wait")
            if not await machine.no_start(IN_FLIGHT_S):
                pipe.say("busy", "a start of an earlier console, which has not ended yet")
                return
        pipe.say(f"held {me.pid}")
        loop = asyncio.get_running_loop()
        heard = loop.time()
        line = asyncio.ensure_future(pipe.input.get())
        go = asyncio.ensure_future(me.told_to_go.wait())
        watching = False
        try:
            while True:
                await asyncio.wait({line, go}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                if go.done() or (watching and machine.taking):
                    pipe.say(*(f"taken {t.who}" for t in machine.taking[:1]))
                    return
                if line.done():
                    if line.result() is None:
                        return
                    heard, watching = loop.time(), True
                    line = asyncio.ensure_future(pipe.input.get())
                    pipe.say("asks", *(f"ask {a.who}" for a in machine.asking), "beat")
                if watching and loop.time() - heard > EXPIRE_S:
                    pipe.say("expired")
                    return
        finally:
            line.cancel()
            go.cancel()
    finally:
        machine.free(me)
        pipe.output.put_nowait(None)


async def _get(machine: Machine, pipe: Pipe, me: Holder, mode: str) -> bool:
    if mode == "hold":
        if not await machine.flock(me, 0.3):
            pipe.say("busy", *([machine.lock.who] if machine.lock else []))
            return False
        return True
    if mode == "ask":
        machine.asking.append(me)
        while not await machine.flock(me, 0.0):
            pipe.say("busy", *([machine.lock.who] if machine.lock else []), "end")
            if await pipe.input.get() is None:
                return False
        machine.asking.remove(me)
        return True
    if not await machine.flock(me, 0.3):
        machine.taking.append(me)
        them = machine.lock
        if them is not None:
            pipe.say(f"from {them.who}", "wait")
            them.told_to_go.set()
        if not await machine.flock(me, GO_S):
            if them is not None:
                machine.free(them)
            if not await machine.flock(me, GO_S):
                pipe.say("busy", *([machine.lock.who] if machine.lock else []))
                return False
        machine.taking.remove(me)
    return True


class VirtualStream:
    def __init__(self, link: VirtualLink, pipe: Pipe) -> None:
        self._link = link
        self._pipe = pipe

    async def blocks(self) -> AsyncIterator[bytes]:
        while True:
            block = await self._pipe.output.get()
            await self._link.way()
            if block is None:
                self._pipe.output.put_nowait(None)
                return
            yield block

    async def send(self, data: bytes) -> None:
        await self._link.way()
        self._pipe.input.put_nowait(data)

    async def end_input(self) -> None:
        await self._link.way()
        self._pipe.input.put_nowait(None)

    def result(self) -> Completed | None:
        return Completed(75, b"", b"")


class VirtualLink:
    """One console's way to a machine. frozen: nothing of this console comes through, and time passes."""

    def __init__(self, machine: Machine, console: VirtualConsole) -> None:
        self.machine = machine
        self.console = console

    @property
    def node(self) -> str:
        return self.machine.name

    @property
    def connected(self) -> bool:
        return True

    async def way(self) -> None:
        await self.machine.work(0.02)
        await self.console.moving.wait()
        if self.console.dead:
            await asyncio.Event().wait()

    async def way_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.way()
        except TimeoutError:
            raise TransportError(Trouble.UNREACHABLE, "no answer", node=self.node) from None

    @asynccontextmanager
    async def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AsyncIterator[Stream]:
        assert argv[2] == PROGRAM
        await self.way_within(open_timeout)
        pipe = Pipe()
        work = asyncio.create_task(lease_program(self.machine, pipe, argv[4], argv[5]))
        self.console.remote.append(work)
        try:
            yield VirtualStream(self, pipe)
        finally:
            # The far side hears of it a moment later, whatever becomes of this end.
            asyncio.get_running_loop().call_later(self.machine.rng.random() * 3.0, pipe.input.put_nowait, None)

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20) -> Completed:
        try:
            async with asyncio.timeout(timeout):
                await self.way()
                work = asyncio.create_task(self._remote(list(argv)))
                self.console.remote.append(work)
                done = await asyncio.shield(work)
                await self.way()
                return done
        except TimeoutError:
            raise TransportError(Trouble.DEADLINE, "too slow", node=self.node) from None

    async def _remote(self, argv: list[str]) -> Completed:
        """What the node does, to its end: a console that is gone does not cut it short."""
        machine = self.machine
        await machine.work()
        if argv[:1] == ["census"]:
            return Completed(0, json.dumps(sorted(set(machine.containers.values()))).encode(), b"")
        if argv[:1] == ["remove"]:
            machine.containers = {i: d for i, d in machine.containers.items() if d not in argv[1:]}
            return Completed(0, b"", b"")
        if argv[2:3] == [APART]:
            argv = argv[5 + int(argv[4]) :]
        if argv[2:3] == [FENCE]:
            machine.starting += 1
            try:
                await machine.work()
                if machine.fence and not machine.lives(int(argv[4]), argv[5]):
                    return Completed(FENCED, b"", b"the controls are not this console's any more")
                await machine.work(4.0)  # docker run
                machine.container(argv[-1])
            finally:
                machine.starting -= 1
                machine.changed()
            return Completed(0, b"", b"")
        return Completed(0, b"[]", b"")  # a census after an abort


@dataclass
class VirtualConsole:
    """A console's fleet over the machines, which may be frozen, and may die."""

    machines: Sequence[Machine]
    dead: bool = False
    moving: asyncio.Event = field(default_factory=asyncio.Event)
    remote: list[asyncio.Task[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.moving.set()
        self._links = {m.name: VirtualLink(m, self) for m in self.machines}

    def link(self, node: str) -> VirtualLink:
        return self._links[node]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._links)

    async def close(self) -> None:
        return None
