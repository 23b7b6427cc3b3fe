"""The newest lines of all ranks, merged as they came, bounded; the whole logs are in the journal."""

from __future__ import annotations

from collections.abc import Iterable

from console.services.hub import LogBatch, LogLine

DEFAULT_LIMIT = 200_000


class LogStore:
    """A ring of lines with ever growing positions; trims a tenth at a time, so that appending stays cheap."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._lines: list[LogLine] = []
        self._first = 0

    @property
    def next_seq(self) -> int:
        return self._first + len(self._lines)

    def extend(self, lines: Iterable[LogLine]) -> None:
        """Lines whose `seq` was given by `next_seq` and counts up."""
        self._lines.extend(lines)
        if len(self._lines) > self._limit + self._limit // 10:
            cut = len(self._lines) - self._limit
            del self._lines[:cut]
            self._first += cut

    def read(self, since_seq: int, limit: int) -> LogBatch:
        start = max(0, since_seq - self._first)
        lines = tuple(self._lines[start : start + limit])
        lost = max(0, self._first - since_seq)
        return LogBatch(lines, self._first + start + len(lines), lost)

    def clear(self) -> None:
        """Forget the lines, not the count: a reader's position stays valid."""
        self._first += len(self._lines)
        self._lines.clear()

    def held(self, rank: int | None = None) -> list[LogLine]:
        return [line for line in self._lines if rank is None or line.rank == rank]
