"""Python's search for garbage in small portions: a full one stops everything for as long as there are objects."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Measured on two virtual cores: 60 to 90 ms for the console's modules and widgets, 110 ms more for 200,000 log lines.
JOINED_S: Final = 20.0
STEP_S: Final = 1.0
# Middle collections between two steps, each after 7,000 new objects: some 10 ms for a step.
PORTION: Final = 3
# What was put aside and became garbage later is found when all is looked through, once in so many steps: some hours of
# a log of 2,000 lines a second, for ever where little is written.
WHOLE_EVERY: Final = 2_000
_NEVER: Final = 1 << 30


@contextmanager
def kept_for_good() -> Iterator[None]:
    """What is loaded in this block is never looked through, and nothing is while it is loaded."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Portions:
    """Instead of full collections: what came since the last step is looked through, and what stays is put aside.

    Whatever has no cycles is freed as ever. For a process that is a console and nothing else: `begin` changes how the
    whole interpreter collects, `end` gives it back."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        self._steps = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """In the loop that is to keep its turns short."""
        gc.set_threshold(self._before[0], self._before[1], _NEVER)
        self._timer = asyncio.get_running_loop().call_later(JOINED_S, self._first)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def _first(self) -> None:
        """What came while the nodes joined stays as a rule: their connections, the widgets. Nothing is looked at."""
        gc.freeze()
        self._again()

    def _again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(STEP_S, self.step)

    def step(self) -> None:
        if gc.get_count()[2] >= PORTION:
            self._steps += 1
            if self._steps % WHOLE_EVERY == 0:
                gc.unfreeze()
            gc.collect()
            gc.freeze()
        self._again()
