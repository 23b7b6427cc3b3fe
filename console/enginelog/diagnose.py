"""Saved evidence into a diagnosis: streams of bytes by name, and what states.json says, in any shape it may have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from console.base.absent import Absent
from console.enginelog.board import RankLog
from console.enginelog.causes import find_cause
from console.enginelog.causes_model import Cause, Diagnosis, cause_row
from console.enginelog.diagnose_states import read_states
from console.enginelog.evidence import RankEvidence
from console.enginelog.evidence_collect import CauseCollector
from console.enginelog.records import Record
from console.enginelog.unwrap import Plain, of_json, unwrapped, wrapping_of

_MAX_RANKS: Final = 512
# Compose writes `service-3  | `, `rank3 | `, `vllm_rank_3_1 | ` before each line of a stream of several containers.
_COMPOSE: Final = re.compile(
    rb"^(?:\x1b\[[0-9;]{0,8}m)?([A-Za-z0-9][\w.\-]{0,63}?)[ \t]*\|(?:\x1b\[[0-9;]{0,8}m)? ?", re.MULTILINE
)
_OF_THE_HEAD: Final = ("APIServer", "EngineCore")
_NUMBERED: Final = re.compile(rb"rank[-_]?(\d{1,4})|(?:^|[-_])(\d{1,4})$")


class LogReader:
    """One stream of a rank's bytes, read once. A stream of several ranks, told apart by compose's names, is parted."""

    def __init__(self, name: str, rank: int | None, world_size: int | None = None) -> None:
        self.name = name
        self.rank = rank
        self._world = world_size
        self._logs: dict[int | None, tuple[RankLog, CauseCollector, list[int]]] = {}
        self._held = b""
        self._parted: bool | None = None
        self._names: dict[bytes, int | None] = {}
        self._line = 0
        self._is_head = False
        self._plain = Plain()
        self._unwrap: Callable[[bytes], bytes] | None = None

    def feed(self, data: bytes) -> None:
        data = self._plain.feed(data)
        if self._parted is None:
            self._held += data
            if len(self._held) < 65536 and self._held.count(b"\n") < 20:
                return
            data, self._held = self._held, b""
            self._decide(data)
        self._take(data)

    def finish(self) -> list[RankEvidence]:
        self._held += self._plain.finish()
        if self._parted is None:
            data, self._held = self._held, b""
            self._decide(data)
            self._take(data)
        if self._held:
            data, self._held = self._held + b"\n", b""
            self._take(data)
        out = []
        for rank, (log, collector, lines) in self._logs.items():
            collector.feed(log.finish())
            numbers = log.numbers
            known = rank if rank is not None else self.rank
            if known is None:
                known = _own_rank(log)
            if known is None and self._is_head and not self._parted:
                known = 0
            trail = collector.trail()
            evidence = RankEvidence(known, trail=trail, cells=log.tracker.cells(), numbers=numbers, file=self.name)
            out.append(_relined(evidence, lines) if self._parted else evidence)
        if not out:
            out.append(RankEvidence(self.rank, trail=CauseCollector().trail(), file=self.name))
        return out

    def _decide(self, data: bytes) -> None:
        """Several ranks in one stream: at least two compose names with numbers begin its lines."""
        self._parted = self.rank is None and self._several(data)
        if self._parted:
            return
        if data.lstrip().startswith(b'{"log":'):
            self._unwrap = of_json
        elif (wrapping := wrapping_of(data)) is not None:
            self._unwrap = partial(unwrapped, wrapping=wrapping)

    def _several(self, data: bytes) -> bool:
        lines = data.split(b"\n")[:200]
        named = [m[1] for line in lines if (m := _COMPOSE.match(line)) and _NUMBERED.search(m[1])]
        return len(set(named)) > 1 and len(named) * 2 > len([line for line in lines if line.strip()])

    def _take(self, data: bytes) -> None:
        if not self._parted and self._unwrap is None:
            self._give(None, data)
            return
        data = self._held + data
        end = data.rfind(b"\n") + 1
        self._held = data[end:]
        if len(self._held) > 1 << 20:
            self._held = self._held[: 1 << 20]
        if self._unwrap is not None:
            self._give(None, b"\n".join(map(self._unwrap, data[:end].split(b"\n"))))
            return
        for line in data[:end].splitlines(keepends=True):
            found = _COMPOSE.match(line)
            rank = self._rank_of(found[1]) if found else None
            self._give(rank, line[found.end() :] if found else line, self._line)
            self._line += 1

    def _rank_of(self, name: bytes) -> int | None:
        if name not in self._names:
            found = _NUMBERED.search(name)
            rank = int(found[1] or found[2]) if found else None
            self._names[name] = rank if len(self._names) < _MAX_RANKS else None
        return self._names[name]

    def _give(self, rank: int | None, data: bytes, line: int | None = None) -> None:
        entry = self._logs.get(rank)
        if entry is None:
            own = rank if rank is not None else self.rank
            entry = self._logs[rank] = (RankLog(own, self._world), CauseCollector(own), [])
        log, collector, lines = entry
        if line is not None:
            lines.append(line)
        records: list[Record] = log.feed(data)
        collector.feed(records)
        if not self._is_head and collector.rank is None:
            # Only the head has an API server and an engine core.
            self._is_head = any(r.process is not None and r.process.startswith(_OF_THE_HEAD) for r in records)


def _own_rank(log: RankLog) -> int | None:
    """The rank that the log itself names."""
    numbers = log.numbers
    for value in (numbers.log_rank, numbers.node_rank):
        if not isinstance(value, Absent):
            return int(value)
    return None


def _relined(where: RankEvidence, lines: list[int]) -> RankEvidence:
    """Lines as the whole stream counts them, not the rank's share of it."""
    trail = where.trail
    if trail is None:
        return where

    def at(index: int) -> int:
        return lines[index] if 0 <= index < len(lines) else index

    hits = tuple(replace(h, index=at(h.index)) for h in trail.hits)
    traces = tuple(replace(t, index=at(t.index), start=at(t.start)) for t in trail.traces)
    marks: dict[str, Any] = {}
    for name in ("first", "last", "ready", "stop", "still_from", "lag_grew"):
        mark = getattr(trail, name)
        marks[name] = None if mark is None else replace(mark, index=at(mark.index))
    cells = tuple(replace(c, line=at(c.line)) if c.line is not None else c for c in where.cells)
    return replace(where, trail=replace(trail, hits=hits, traces=traces, **marks), cells=cells)


def diagnose(
    logs: Iterable[tuple[str, int | None, Callable[[], Iterable[bytes]]]],
    states: Mapping[str, Any] | None = None,
    kernel: Mapping[int, str] | None = None,
    guard: Mapping[int, str] | None = None,
) -> Diagnosis:
    """logs: (name, rank or None, its pieces), read one after the other. states: states.json's content, of any shape."""
    evidence = read_states(states or {})
    by_rank: dict[int, RankEvidence] = {r.rank: r for r in evidence.ranks if r.rank is not None}
    loose: list[RankEvidence] = []
    for name, rank, pieces in logs:
        reader = LogReader(name, rank, evidence.world_size)
        for piece in pieces():
            reader.feed(piece)
        for found in reader.finish():
            _place(found, by_rank, loose)
    for rank, text in (kernel or {}).items():
        where = by_rank.get(rank, RankEvidence(rank))
        by_rank[rank] = replace(where, kernel=tuple(text.splitlines()[-2000:]))
    for rank, text in (guard or {}).items():
        if told := _tripped(text):
            by_rank[rank] = replace(by_rank.get(rank, RankEvidence(rank)), guard=told)
    ranks = (*(by_rank[r] for r in sorted(by_rank)), *loose)
    return find_cause(replace(evidence, ranks=ranks, world_size=evidence.world_size or _world(ranks)))


def _place(found: RankEvidence, by_rank: dict[int, RankEvidence], loose: list[RankEvidence]) -> None:
    """A rank's log to what its state says. A second log of one rank stays beside it: two files, two streams."""
    if found.rank is None:
        loose.append(found)
        return
    known = by_rank.get(found.rank)
    if known is None:
        by_rank[found.rank] = found
    elif known.trail is None:
        by_rank[found.rank] = replace(
            known, trail=found.trail, cells=found.cells, numbers=found.numbers, file=found.file
        )
    else:
        loose.append(found)


def _world(ranks: Iterable[RankEvidence]) -> int | None:
    sizes = [int(r.numbers.world_size) for r in ranks if r.numbers and not isinstance(r.numbers.world_size, Absent)]
    return max(sizes, default=None)


def cause_json(cause: Cause | None) -> dict[str, Any] | None:
    """As `status` and `diagnose` print it."""
    return None if cause is None else cause_row(cause)


def _tripped(text: str) -> str:
    """A guard's lines from the one that says that it struck; "" where it did not."""
    lines = text.splitlines()
    return "\n".join(lines[next((i for i, line in enumerate(lines) if "TRIPPED" in line), len(lines)) :])
