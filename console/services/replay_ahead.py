"""The rows that a replay plays next, read beside the loop: a damaged or a long part of a file holds nobody up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from time import perf_counter
from typing import Final

from console.base.errors import NightdeckError
from console.base.text import clean_line
from console.services.replay_rows import Row

BATCH: Final = 256
BATCH_S: Final = 0.02  # a thread that reads longer has given what it found by then


class Ahead:
    """Rows in their order. held: they lie in memory, and no thread is asked for them.

    ended: there is none left; why: what ended them before their time. Whoever was cancelled while he waited takes
    nothing away: the next one gets the same row."""

    def __init__(self, rows: Iterator[Row], *, held: bool = False) -> None:
        self._rows = rows
        self._held = held
        self._batch: deque[Row] = deque()
        self._reading: asyncio.Future[list[Row]] | None = None
        self._left = False
        self._last = False
        self.why = ""

    @property
    def ended(self) -> bool:
        return self._last and not self._batch

    async def first(self) -> Row | None:
        """The next row, which stays until it is taken."""
        while not self._batch and not self._last:
            if self._held:
                self._batch.extend(self._read())
                continue
            if self._reading is None:
                self._reading = asyncio.get_running_loop().run_in_executor(None, self._read)
            reading = self._reading
            rows = await asyncio.shield(reading)
            if self._reading is reading:  # two may have waited for it
                self._reading = None
                self._batch.extend(rows)
        return self._batch[0] if self._batch else None

    def take(self) -> None:
        """The first row is played."""
        self._batch.popleft()

    def leave(self) -> None:
        """Another place is played from now on: a thread that still reads here leaves off."""
        self._left = True

    async def close(self) -> None:
        """Wait for the thread too."""
        self._left = True
        if self._reading is not None:
            await asyncio.wait([self._reading])

    def _read(self) -> list[Row]:
        rows: list[Row] = []
        until = perf_counter() + BATCH_S
        try:
            while len(rows) < BATCH and perf_counter() < until and not self._left:
                rows.append(next(self._rows))
        except StopIteration:
            self._last = True
        except NightdeckError as error:
            self._last, self.why = True, clean_line(str(error), limit=300)
        if self._left:
            self._last = True
        return rows
