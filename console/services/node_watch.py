"""Watching one node: one probe over one channel, opened again after every cut, never waiting for another node."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any

from console.base.absent import Absent, known
from console.base.clock import Clock
from console.base.text import clean_bytes
from console.cluster.model import Node
from console.services.hub import NodeView
from console.telemetry.frames import Bad, Frame, FrameReader
from console.telemetry.freshness import Freshness, State, judge
from console.telemetry.launch import ProbeOptions, order_census, probe_argv
from console.telemetry.sample import Sample
from console.telemetry.sampler import Sampler
from console.transport.base import Link, Stream, TransportError, Trouble

_RETRY_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
# A node that accepts and says nothing may be out of memory for half an hour, and each login makes it worse; but most
# silences are short.
_CALM_RETRY_S = (10.0, 20.0, 40.0, 60.0)
_BAD_LIMIT = 20
# A probe that says nothing for this long is given up and started anew; the connection's own keepalive is faster
# where the connection is the trouble.
SILENCE_S = 20.0
# Trouble of no connection: nothing is heard, and nothing is known to be broken.
QUIET = "quiet"
FAULT = "console fault"

# A census by the probe takes milliseconds; the command line, asked after that, has its own limit.
CENSUS_S = 3.0
# A picture counts as whole without GPUs after so long: nvidia-smi takes its time, and some nodes have none.
GPU_WAIT_S = 1.2


class NodeWatch:
    """One node as the console knows it. heard: called with each sample; framed: each frame as it came.
    trouble_changed: when the way to the node breaks (trouble, sentence) or is there again ("", "")."""

    def __init__(
        self,
        node: Node,
        link: Link,
        program: bytes,
        clock: Clock,
        *,
        heard: Callable[[Sample], None],
        trouble_changed: Callable[[str, str], None],
        interval_s: float = 1.0,
        framed: Callable[[str, Frame], None] | None = None,
    ) -> None:
        self.node = node
        self._link = link
        self._program = program
        self._clock = clock
        self._heard = heard
        self._trouble_changed = trouble_changed
        self._framed = framed
        self._options = ProbeOptions(interval_s=interval_s, container_cli=node.container_cli)
        self._sampler = Sampler(node.name)
        self.trouble = ""
        self.why = ""
        self.remedy = ""
        self.answered = asyncio.Event()
        self.whole = asyncio.Event()
        self.bad_frames = 0
        self._stream: Stream | None = None
        self._censuses: dict[int, asyncio.Future[list[Any] | None]] = {}
        self._census_number = 0
        self._first_at = 0.0  # of the probe's first frame, by the node's clock

    @property
    def sample(self) -> Sample | Absent:
        last = self._sampler.last
        return last if last is not None else Absent(self.why or "no sample yet")

    def freshness(self, now: float) -> Freshness:
        """now: the console's monotonic clock."""
        last = self._sampler.last
        return judge(None if last is None else last.received_at, now, trouble=self.why)

    def view(self, now: float, rank: int | None) -> NodeView:
        """now: the console's monotonic clock. Before the first answer a node is `waiting`, which is not `lost`."""
        fresh = self.freshness(now)
        state = "waiting" if fresh.age_s is None and not self.trouble else str(fresh.state)
        age: float | Absent = fresh.age_s if fresh.age_s is not None else Absent(fresh.why)
        return NodeView(
            self.node, state, age, self.sample, self.trouble, fresh.why if state != "waiting" else "", self.remedy, rank
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        tries = silent = 0
        while True:
            before = self._sampler.last
            try:
                await self._once()
            except TransportError as error:
                self._broken(str(error.trouble), error.what, error.remedy)
                calm = error.trouble is Trouble.SILENT
            except Exception as error:  # noqa: BLE001 - whoever hears of a sample may fail over it: it stays watched
                before = self._sampler.last  # with what came it failed: that is no success to start again from
                self._broken(FAULT, f"this console failed over what the node said: {type(error).__name__}: {error}", "")
                calm = False
            else:
                calm = False
            tries = 0 if self._sampler.last is not before else tries + 1
            waits = _CALM_RETRY_S if calm else _RETRY_S
            silent = silent + 1 if calm else 0
            pause = waits[min(silent - 1 if calm else tries, len(waits) - 1)]
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))

    async def _once(self) -> None:
        argv, first = probe_argv(self._program, self._options)
        reader = FrameReader()
        bad = 0
        async with self._link.stream(argv, stdin=first, interactive=True) as stream:
            self._stream = stream
            try:
                blocks = aiter(stream.blocks())
                while True:
                    try:
                        async with asyncio.timeout(SILENCE_S):
                            block = await anext(blocks)
                    except StopAsyncIteration:
                        break
                    except TimeoutError as error:
                        raise TransportError(
                            Trouble.DEADLINE, f"the probe said nothing for {SILENCE_S:.0f} s", node=self.node.name
                        ) from error
                    for frame in reader.feed(block):
                        if isinstance(frame, Bad):
                            bad += 1
                            self.bad_frames += 1
                            continue
                        self._take(frame)
                    if bad > _BAD_LIMIT:
                        raise TransportError(
                            Trouble.TOO_MUCH, "the probe's answers cannot be read", node=self.node.name
                        )
            finally:
                self._stream = None
                for waiting in self._censuses.values():
                    if not waiting.done():
                        waiting.set_result(None)
            result = stream.result()
        said = result.stderr.strip().splitlines() if result is not None else []
        status = result.status if result is not None else None
        words = (clean_bytes(said[-1], limit=200) if said else "") or f"exit status {status}"
        remedy = "python3 must be on the node" if status == 127 or "python3" in words else ""
        raise TransportError(Trouble.LOST, f"the probe ended: {words}", node=self.node.name, remedy=remedy)

    @property
    def can_tell(self) -> bool:
        """A probe is there, and it asks the engine's socket: `census` costs no process then."""
        last = self._sampler.last
        if self._stream is None or last is None or isinstance(last.containers, Absent):
            return False
        return last.containers.how.startswith("socket ")

    async def census(self, label: str = "", *, timeout: float = CENSUS_S) -> list[Any] | None:
        """What of ours is on the node, asked of its engine's socket now: containers as inspected, of any shape. label:
        what carries this instead of a deployment's.

        None where no probe is there to ask, or it cannot say: then the engine's command line has to be asked."""
        stream = self._stream
        if stream is None or not self.can_tell:
            return None
        self._census_number += 1
        number = self._census_number
        answer: asyncio.Future[list[Any] | None] = asyncio.get_running_loop().create_future()
        self._censuses[number] = answer
        try:
            async with asyncio.timeout(timeout):
                await stream.send(order_census(number, label))
                return await answer
        except (TransportError, TimeoutError):
            return None
        finally:
            del self._censuses[number]

    def _census_came(self, data: Mapping[str, Any]) -> None:
        answer = self._censuses.get(data["n"]) if isinstance(data.get("n"), int) else None
        said = data.get("census")
        if answer is None or answer.done():
            return
        rows = said.get("rows") if isinstance(said, dict) and said.get("why") == "" else None
        answer.set_result(rows if isinstance(rows, list) else None)

    def _take(self, frame: Frame) -> None:
        if frame.data.get("part") == "census":
            self._census_came(frame.data)
            return
        if self._framed is not None:
            self._framed(self.node.name, frame)
        sample = self._sampler.step(
            frame,
            received_at=self._clock.monotonic(),
            wall=self._clock.wall(),
        )
        if self.trouble:
            self.trouble, self.why, self.remedy = "", "", ""
            self._trouble_changed("", "")
        self.answered.set()
        # Rates need two samples, and what needs a process of its own on the node is there a moment later.
        if sample.part == "all":
            self._first_at = sample.node_time if sample.seq == 1 else self._first_at
            if sample.seq >= 2 and (known(sample.gpus) or sample.node_time - self._first_at >= GPU_WAIT_S):
                self.whole.set()
        self._heard(sample)

    def _broken(self, trouble: str, why: str, remedy: str) -> None:
        changed = (trouble, why) != (self.trouble, self.why)
        self.trouble, self.why, self.remedy = trouble, why, remedy
        self.answered.set()
        self.whole.set()
        if changed:
            self._trouble_changed(trouble, why)

    def overdue(self, now: float) -> None:
        """Called now and then (monotonic seconds): a node that went quiet is told of long before its connection breaks,
        which takes as long as keepalives do. The next sample takes it back."""
        if not self.trouble and self._sampler.last is not None and self.freshness(now).state is State.LOST:
            self._broken(QUIET, "it went quiet: no sample comes, though its connection has not broken yet", "")
