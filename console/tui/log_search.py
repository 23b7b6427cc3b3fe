"""A search in the log: every match with its place, found in slices, and where the reader stood when it began."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from console.tui.log_store import LogStore

SLICE: Final = 200  # lines between two looks at the clock


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a reader is: first and last line on the screen by their numbers, and whether he follows."""

    top: int
    bottom: int
    follow: bool


class LogSearch:
    """All matches among the lines that pass the store's filter, as numbers in order. `scan` does the work and goes on
    as lines come; `place` and `step` answer once it is through.

    wrapped: `start` or `end` where the last step went round, else empty."""

    def __init__(self, store: LogStore, pattern: re.Pattern[str], stand: Stand) -> None:
        self.pattern = pattern
        self.stand = stand
        self.wrapped = ""
        self._store = store
        self._filter = store.filter
        self._found: list[int] = []
        self._next = store.base

    @property
    def complete(self) -> bool:
        return self._next >= self._store.end and self._filter is self._store.filter

    @property
    def count(self) -> int:
        """Matches that are still held."""
        self._trim()
        return len(self._found)

    def _refit(self) -> None:
        """Another filter: what is shown is another log, and what was found in the one before counts no more."""
        if self._filter is not self._store.filter:
            self._filter, self._found, self._next = self._store.filter, [], self._store.base

    def _trim(self) -> None:
        self._refit()
        if self._found and self._found[0] < self._store.base:
            del self._found[: bisect_left(self._found, self._store.base)]

    def scan(self, budget_s: float) -> bool:
        """Go on for at most `budget_s`; True when every line that is held was looked at."""
        store = self._store
        self._refit()
        until = perf_counter() + budget_s
        search, wants, every = self.pattern.search, store.filter.wants, store.filter.passes_all
        at = max(self._next, store.base)
        while at < store.end:
            stop = min(store.end, at + SLICE)
            for number in range(at, stop):
                line = store.line(number)
                if line is not None and search(line.text) is not None and (every or wants(line)):
                    self._found.append(number)
            at = stop
            if perf_counter() > until:
                break
        self._next = at
        return self.complete

    def place(self, number: int | None) -> int:
        """1 for the first match, 0 where `number` is none."""
        self._trim()
        at = bisect_left(self._found, number) if number is not None else len(self._found)
        return at + 1 if at < len(self._found) and self._found[at] == number else 0

    def nearest(self) -> int | None:
        """From where the search began: one on that screen (the newest where the reader follows), else the nearest
        before it, else the nearest after it. Never round."""
        self._trim()
        found, stand = self._found, self.stand
        if not found:
            return None
        first, past = bisect_left(found, stand.top), bisect_right(found, stand.bottom)
        if first < past:
            return found[past - 1] if stand.follow else found[first]
        return found[first - 1] if first else found[past]

    def step(self, number: int, by: int) -> int | None:
        """The match after (by=1) or before (by=-1) a line, going round at the ends."""
        self._trim()
        found = self._found
        if not found:
            return None
        at = bisect_right(found, number) if by > 0 else bisect_left(found, number) - 1
        self.wrapped = "start" if at >= len(found) else "end" if at < 0 else ""
        return found[at % len(found)]

    def words(self, number: int | None) -> str:
        """`3/17`, `0/17` while on none of them, `no match`; with a mark while lines are still looked at."""
        more = "" if self.complete else "…"
        if not self.count:
            return more or "no match"
        return f"{self.place(number)}/{self.count}{more}"
