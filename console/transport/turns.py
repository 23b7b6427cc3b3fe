"""Many nodes at once without holding the event loop: what becomes ready together is served over several turns of it."""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Served in one turn. A packet of telemetry costs 0.3 ms to decrypt and 1 ms to take in (measured, two virtual cores):
# 128 nodes that spoke while the console was busy would be 160 ms in which no key is answered, 8 are 10 ms.
SOCKETS_A_TURN: Final = 8
BEGINNINGS_A_TURN: Final = 4


class FewAtOnce(selectors.DefaultSelector):
    """At most so many descriptors a call; who was passed over comes first next time (what is ready stays ready)."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_over: list[tuple[int, int]] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout)
        if len(ready) > SOCKETS_A_TURN:
            if self._passed_over:
                place = {which: i for i, which in enumerate(self._passed_over)}
                ready.sort(key=lambda one: place.get((one[0].fd, one[1]), len(place)))
            self._passed_over = [(key.fd, mask) for key, mask in ready[SOCKETS_A_TURN:]]
            return ready[:SOCKETS_A_TURN]
        self._passed_over = []
        return ready


def loop_of_turns() -> asyncio.AbstractEventLoop:
    """An event loop whose turns stay short with many connections."""
    return asyncio.SelectorEventLoop(FewAtOnce())


def run_in_turns(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on such a loop."""
    with asyncio.Runner(loop_factory=loop_of_turns) as runner:
        return runner.run(work)


class Turnstile:
    """Lets what begins for every node at once begin a few a turn. It never waits for what went through: a node that
    hangs holds nobody back. Of one event loop."""

    def __init__(self, a_turn: int = BEGINNINGS_A_TURN) -> None:
        self._a_turn = a_turn
        self._left = a_turn
        self._renewing = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._renewing:
            self._renewing = True
            loop.call_soon(self._renew)
        if self._left > 0 and not self._waiting:
            self._left -= 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _renew(self) -> None:
        """In the next turn."""
        self._left = self._a_turn
        while self._waiting and self._left > 0:
            waiter = self._waiting.popleft()
            if not waiter.done():  # one that was cancelled has no place to give up
                waiter.set_result(None)
                self._left -= 1
        self._renewing = self._left < self._a_turn
        if self._renewing:
            asyncio.get_running_loop().call_soon(self._renew)
