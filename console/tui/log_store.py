"""The lines that the log view holds: a ring with absolute numbers, and a filter as a second index built in slices."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from console.base.errors import UsageError
from console.services.hub import LogLine

KEEP: Final = 100_000
LEVELS: Final = {"debug": 0, "info": 1, "warning": 2, "warn": 2, "error": 3, "critical": 4, "fatal": 4}
# Words of a line that has no level of its own but says that something broke.
TROUBLE: Final = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|Traceback|panic|NCCL WARN|[A-Za-z]*(?:Error|Exception)\b)")
WARN: Final = re.compile(r"\bWARN(?:ING)?\b")


def level_of(line: LogLine) -> int:
    """0 debug, 1 info, 2 warning, 3 error, 4 critical; read from the text where the line has no level."""
    level = LEVELS.get(line.level.lower()) if line.level else None
    if level is not None:
        return level
    if TROUBLE.search(line.text):
        return 3
    return 2 if WARN.search(line.text) else 1


@dataclass(frozen=True, slots=True)
class Filter:
    """What may be shown: ranks (None: all), the least level, and a regular expression over the text."""

    ranks: frozenset[int] | None = None
    level: int = 0
    pattern: re.Pattern[str] | None = None
    words: str = ""

    @property
    def passes_all(self) -> bool:
        return self.ranks is None and self.level == 0 and self.pattern is None

    def wants(self, line: LogLine) -> bool:
        if self.ranks is not None and line.rank not in self.ranks:
            return False
        if self.level and level_of(line) < self.level:
            return False
        return self.pattern is None or self.pattern.search(line.text) is not None


def compile_pattern(text: str) -> re.Pattern[str]:
    """A regular expression, without regard to case when it has no capitals. Raises UsageError in words."""
    flags = re.IGNORECASE if text == text.lower() else 0
    try:
        return re.compile(text, flags)
    except re.error as error:
        raise UsageError(f"not a regular expression: {error}", remedy="escape ( [ * + ? with a backslash") from error


def read_filter(text: str) -> Filter:
    """`r0,3` ranks, `warn` or `error` least level, anything else a regular expression. Raises UsageError."""
    ranks: set[int] = set()
    level = 0
    rest: list[str] = []
    for word in text.split(" "):
        bare = word.lower()
        if re.fullmatch(r"r(?:ank:)?\d+(?:,r?\d+)*", bare):
            ranks |= {int(n) for n in re.findall(r"\d+", bare)}
        elif bare.removeprefix("level:").rstrip("+") in LEVELS and not rest:
            level = LEVELS[bare.removeprefix("level:").rstrip("+")]
        elif word:
            rest.append(word)
    pattern = compile_pattern(" ".join(rest)) if rest else None
    return Filter(frozenset(ranks) if ranks else None, level, pattern, text.strip())


class LogStore:
    """A ring of the hub's own line values (shared, not copied) under absolute numbers that never change.

    `base` is the number of the oldest line held; `shown` are the numbers that pass the filter, in order."""

    def __init__(self, keep: int = KEEP) -> None:
        self.keep = keep
        self.base = 0
        self.filter = Filter()
        self._lines: list[LogLine] = []
        self._shown: list[int] = []
        self._scanned = 0  # absolute: lines before it went through the filter

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def end(self) -> int:
        """The number after the newest line."""
        return self.base + len(self._lines)

    @property
    def dropped(self) -> int:
        """Lines that made room for newer ones."""
        return self.base

    @property
    def rows(self) -> int:
        """Lines that pass the filter, as far as it got."""
        return len(self._lines) if self.filter.passes_all else len(self._shown)

    @property
    def scanning(self) -> bool:
        return not self.filter.passes_all and self._scanned < self.end

    def clear(self) -> None:
        self.base = 0
        self._lines.clear()
        self._shown.clear()
        self._scanned = 0

    def append(self, lines: Sequence[LogLine]) -> int:
        """Add lines; returns how many rows fell off the top of what is shown."""
        self._lines.extend(lines)
        if len(self._lines) <= self.keep + self.keep // 10:
            return 0
        cut = len(self._lines) - self.keep
        del self._lines[:cut]
        self.base += cut
        if self.filter.passes_all:
            return cut
        gone = bisect_left(self._shown, self.base)
        del self._shown[:gone]
        self._scanned = max(self._scanned, self.base)
        return gone

    def set_filter(self, wanted: Filter) -> None:
        """Begin to build the index anew; `scan` does the work."""
        self.filter = wanted
        self._shown.clear()
        self._scanned = self.base

    def scan(self, budget_s: float) -> bool:
        """Go on with the filter for at most `budget_s`; True when it is through."""
        if self.filter.passes_all:
            return True
        until = perf_counter() + budget_s
        wants, lines, base, shown = self.filter.wants, self._lines, self.base, self._shown
        at = self._scanned
        while at < self.end:
            stop = min(self.end, at + 200)
            shown.extend(n for n in range(at, stop) if wants(lines[n - base]))
            at = stop
            if perf_counter() > until:
                break
        self._scanned = at
        return at >= self.end

    def number(self, row: int) -> int:
        """The absolute number of a shown row."""
        return self.base + row if self.filter.passes_all else self._shown[row]

    def row_of(self, number: int) -> int:
        """The row of a line, or of the next one that is shown."""
        return number - self.base if self.filter.passes_all else bisect_left(self._shown, number)

    def line(self, number: int) -> LogLine | None:
        at = number - self.base
        return self._lines[at] if 0 <= at < len(self._lines) else None

    def find_index(self, rank: int, index: int) -> int | None:
        """The number of line `index` of a rank's own log, or of the first one after it that is held."""
        for at, line in enumerate(self._lines):
            if line.rank == rank and line.index >= index:
                return self.base + at
        return None

    def search(
        self, wanted: Callable[[LogLine], bool], row: int, step: int, *, slice_rows: int = 2000
    ) -> Iterator[int]:
        """Rows that match, from `row` on in direction `step`, once round; -1 after each slice without one."""
        total = self.rows
        for count in range(total):
            at = (row + step * count) % total
            if at >= self.rows:
                continue
            line = self.line(self.number(at))
            if line is not None and wanted(line):
                yield at
            elif count % slice_rows == slice_rows - 1:
                yield -1
