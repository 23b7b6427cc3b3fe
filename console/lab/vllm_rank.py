"""One rank of a simulated engine: from its arguments to its last line."""

from __future__ import annotations

import asyncio
import contextlib
import random

from console.lab.containers import Container
from console.lab.vllm_api import ApiServer
from console.lab.vllm_args import EngineArgs
from console.lab.vllm_ends import Exit, PeerLeft
from console.lab.vllm_faults import Faults
from console.lab.vllm_finish import profile, warm_up
from console.lab.vllm_load import build, weights
from console.lab.vllm_start import arguments, rendezvous
from console.lab.vllm_text import SHUTDOWN, Printer
from console.lab.world import Group, LabNode, World


class Rank:
    """The program in a rank's container. Times are lab seconds."""

    def __init__(self, world: World, node: LabNode, container: Container, args: EngineArgs) -> None:
        self.world = world
        self.node = node
        self.container = container
        self.args = args
        self.rank = args.rank
        self.clock = world.clock
        self.say = Printer(container.logs, args.rank)
        self.group: Group | None = None
        self.ended = False
        self.serving = False
        self.loading = False
        self.key = f"{container.id[:12]}:{args.rank}"
        self.load = node.machine.load(self.key)
        self.load.pid, self.load.name = container.pid, f"VLLM::Worker_TP{args.rank}"
        self.faults = Faults(world, self)
        self.api: ApiServer | None = None
        self.graphs_gib = 0.0
        self.rng = random.Random(f"rank {args.rank} of {args.world}")
        self._poke = asyncio.Event()
        self._term = False
        self._left: list[int] = []
        self.bound: list[int] = []

    # -- what others do to it

    def terminate(self) -> None:
        # A head that is still loading takes SIGTERM without a line and boots on until it is killed.
        if self.rank == 0 and self.loading:
            return
        self._term = True
        self._poke.set()

    def peer_left(self, rank: int) -> None:
        self._left.append(rank)
        self._poke.set()

    # -- the process

    async def run(self) -> int:
        try:
            await self._boot()
            await self._serve()
        except Exit as e:
            return e.code
        except PeerLeft as e:
            return await self._after_loss(e.rank)
        finally:
            self.ended = True
            self.node.machine.loads.pop(self.key, None)
            if self.api is not None:
                await self.api.close()
            for port in self.bound:
                self.node.bound.discard(port)
            if self.group is not None and self.group.members.get(self.rank) is self:
                if self.rank == 0:
                    self.node.close_port(self.node.machine.fabric_address, self.args.number("master-port", 29501))
                self.group.leave(self.rank)
        return 0

    async def wait(self, lab_s: float) -> None:
        """Time passes; raises when the process is told to end or must notice that a peer is gone."""
        end = self.clock.now() + lab_s
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._poke.wait(), max(0.0, self.clock.wall(end - self.clock.now())))
            await self.node.moving.wait()
            await self._react()
            if self.clock.now() >= end:
                return

    async def _react(self) -> None:
        self._poke.clear()
        if self._term:
            await self._shutdown()
        for rank in self._left:
            # A worker only notices its head; the head, while loading, everyone.
            if rank == 0 or (self.rank == 0 and not self.serving):
                self._left.remove(rank)
                raise PeerLeft(rank)
        self._left.clear()

    async def until(self, event: asyncio.Event) -> None:
        """Wait for something that other ranks bring about."""
        while not event.is_set():
            waits = [asyncio.create_task(event.wait()), asyncio.create_task(self._poke.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for w in waits:
                    w.cancel()
            await self.node.moving.wait()
            if not event.is_set():
                await self._react()
        await self.node.moving.wait()

    async def _boot(self) -> None:
        for step in (arguments, rendezvous, build, weights, profile, warm_up):
            await step(self)

    async def _serve(self) -> None:
        self.serving = True
        await self.faults.while_serving()
        if self.api is None:
            await self.until(asyncio.Event())
            return
        serving = asyncio.create_task(self.api.report())
        try:
            await self.until(self.api.dead)
            self.faults.engine_dead()
            raise Exit(0)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _shutdown(self) -> None:
        """SIGTERM: the head says a good deal, a worker little."""
        self._term = False
        if self.rank == 0:
            for proc, level, text in SHUTDOWN:
                self.say.log(proc, text, level)
        else:
            self.say.log("WORKER", "[multiproc_executor.py:843] Parent process exited, terminating worker queues")
        await asyncio.sleep(self.clock.wall(1.5))
        raise Exit(0)

    async def _after_loss(self, rank: int) -> int:
        """What a rank does when it notices: a worker without its head ends with 0, a head without a worker with 1."""
        if rank == 0:
            self.faults.head_gone()
            await asyncio.sleep(self.clock.wall(4))
            return 0
        self.faults.peer_gone(rank)
        await asyncio.sleep(self.clock.wall(2))
        self.say.engine_failed()
        return 1

    def set(self, util: float = 0, rx: float = 0, tx: float = 0, disk: float = 0, cpu: float = 0) -> None:
        load = self.load
        load.util, load.rx, load.tx, load.disk, load.cpu = util, rx, tx, disk, cpu
