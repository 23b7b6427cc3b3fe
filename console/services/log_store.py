"""The newest lines of all ranks, merged as they came, bounded; the whole logs are in the journal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from console.enginelog.records import Record
from console.services.hub import LogBatch, LogLine

DEFAULT_LIMIT = 200_000


class LogStore:
    """A ring of lines with ever growing positions; trims a tenth at a time, so that appending stays cheap."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._lines: list[LogLine] = []
        self._first = 0
        self._begins = 0  # where the log on show begins: lines before it were never of it

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
        lost = max(0, self._first - max(since_seq, self._begins))
        return LogBatch(lines, self._first + start + len(lines), lost)

    def skip(self, lines: int) -> None:
        """Count lines that were before what is held; only while nothing is."""
        if not self._lines:
            self._first += max(0, lines)

    def clear(self) -> None:
        """Forget the lines, not the count: a reader's position stays valid. What was before is another log's."""
        self._first += len(self._lines)
        self._begins = self._first
        self._lines.clear()

    def held(self, rank: int | None = None) -> list[LogLine]:
        return [line for line in self._lines if rank is None or line.rank == rank]


class RecentRecords:
    """The newest records of one deployment in the batches that they came in; about `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._batches: deque[tuple[int, str, Sequence[Record]]] = deque()
        self._count = 0

    def add(self, rank: int, node: str, records: Sequence[Record]) -> None:
        self._batches.append((rank, node, records))
        self._count += len(records)
        while self._count - len(self._batches[0][2]) >= self._limit:
            self._count -= len(self._batches.popleft()[2])

    def __iter__(self) -> Iterator[tuple[int, str, Sequence[Record]]]:
        return iter(tuple(self._batches))

    def __len__(self) -> int:
        return self._count
