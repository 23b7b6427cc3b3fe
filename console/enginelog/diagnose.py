"""Saved evidence into a diagnosis: streams of bytes by name, and what states.json says, in any shape it may have."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from console.enginelog.parting import Parting, parting_of, ranks_by_name, says_rank
from console.enginelog.records import Record
from console.enginelog.unwrap import (
    Plain,
    has_stamp,
    host_of,
    in_json,
    inside,
    of_json,
    stamp_and_rest,
    unwrapped,
    wrapping_of,
)

_MAX_RANKS: Final = 512
# A service manager's lines around compose's around a launcher's.
_MOST_LAYERS: Final = 3
# An engine core of a further data-parallel rank is not the head's.
_OF_THE_HEAD: Final = re.compile(r"APIServer(?:_0)?|EngineCore(?:_(?:DP)?0)?")


class LogReader:
    """One stream of a rank's bytes, read once. A stream of several ranks is parted by the names that compose, kubectl,
    pdsh, srun or a log server put before their lines."""

    def __init__(self, name: str, rank: int | None, world_size: int | None = None) -> None:
        self.name = name
        self.rank = rank
        self._world = world_size
        self._logs: dict[bytes, tuple[RankLog, CauseCollector, array[int]]] = {}
        self._held = b""
        self._decided = False
        self._parting: Parting | None = None
        self._line = 0
        self._heads: set[bytes] = set()
        self._plain = Plain()
        self._node = ""
        self._unwraps: list[Callable[[bytes], bytes]] = []

    def feed(self, data: bytes) -> None:
        data = self._plain.feed(data)
        if not self._decided:
            self._held += data
            if len(self._held) < 65536 and self._held.count(b"\n") < 20:
                return
            data, self._held = self._held, b""
            self._decide(data)
        self._take(data)

    def finish(self) -> list[RankEvidence]:
        self._held += self._plain.finish()
        if not self._decided:
            data, self._held = self._held, b""
            self._decide(data)
            self._take(data)
        if self._held:
            data, self._held = self._held + b"\n", b""
            self._take(data)
        out = []
        named = ranks_by_name(self._logs) if self._parting is not None else {}
        for name, (log, collector, lines) in self._logs.items():
            collector.feed(log.finish())
            numbers = log.numbers
            known = self.rank if self.rank is not None else _own_rank(log)
            if known is None or says_rank(name) is not None:
                known = named.get(name, known)
            guessed = known is None and self._heads == {name}
            if guessed:
                known = 0
            evidence = RankEvidence(
                known,
                self._node if says_rank(name) is not None or not name else name.decode("utf-8", "replace")[:120],
                trail=collector.trail(),
                cells=log.tracker.cells(),
                numbers=numbers,
                file=self.name,
                guessed=guessed,
            )
            out.append(_relined(evidence, lines) if self._parting is not None else evidence)
        if not out:
            out.append(RankEvidence(self.rank, trail=CauseCollector().trail(), file=self.name))
        return out

    def _decide(self, data: bytes) -> None:
        """What carried the lines here, and whether there are several ranks in what it carried."""
        self._decided = True
        for _ in range(_MOST_LAYERS):
            data = b"\n".join(stamp_and_rest(line)[1] for line in data.split(b"\n"))
            if self.rank is None:
                self._parting = parting_of(data)
            if in_json(data):
                unwrap: Callable[[bytes], bytes] = of_json
            elif self._parting is None and (wrapping := wrapping_of(data)) is not None:
                unwrap = partial(unwrapped, wrapping=wrapping)
                self._node = self._node or host_of(data, wrapping)
            else:
                return
            self._unwraps.append(unwrap)
            data = b"\n".join(map(unwrap, data.split(b"\n")))

    def _take(self, data: bytes) -> None:
        if self._parting is None and not self._unwraps:
            self._give(b"", data)
            return
        data = self._held + data
        end = data.rfind(b"\n") + 1
        self._held = data[end:]
        if len(self._held) > 1 << 20:
            self._held = self._held[: 1 << 20]
        lines = data[:end].split(b"\n")
        for unwrap in self._unwraps:
            lines = [inside(line, unwrap) for line in lines]
        if self._parting is None:
            self._give(b"", b"\n".join(lines))
            return
        shares: dict[bytes, tuple[list[bytes], list[int]]] = {}
        for line in lines[:-1]:
            stamp, rest = stamp_and_rest(line)
            name, rest = self._parting.part(rest)
            name = name if name in shares or len(self._logs) + len(shares) < _MAX_RANKS or name in self._logs else b""
            said, places = shares.setdefault(name, ([], []))
            said.append(rest if not stamp or has_stamp(rest) else stamp + rest)
            places.append(self._line)
            self._line += 1
        for name, (said, places) in shares.items():
            said.append(b"")
            self._give(name, b"\n".join(said), places)

    def _give(self, name: bytes, data: bytes, places: Iterable[int] = ()) -> None:
        """places: at which line of the whole stream each of these stands, where it is parted."""
        entry = self._logs.get(name)
        if entry is None:
            own = self.rank if self.rank is not None else says_rank(name)
            entry = self._logs[name] = (RankLog(own, self._world), CauseCollector(own), array("Q"))
        log, collector, lines = entry
        lines.extend(places)
        records: list[Record] = log.feed(data)
        collector.feed(records)
        if name in self._heads or collector.rank is not None:
            return
        # Only the head has an API server and an engine core.
        if any(r.process is not None and _OF_THE_HEAD.fullmatch(r.process) for r in records):
            self._heads.add(name)


def _own_rank(log: RankLog) -> int | None:
    """The rank that the log itself names."""
    numbers = log.numbers
    for value in (numbers.log_rank, numbers.node_rank):
        if not isinstance(value, Absent):
            return int(value)
    return None


def _relined(where: RankEvidence, lines: Sequence[int]) -> RankEvidence:
    """Lines as the whole stream counts them, not the rank's share of it."""
    trail = where.trail
    if trail is None:
        return where

    def at(index: int) -> int:
        return lines[index] if 0 <= index < len(lines) else index

    hits = tuple(replace(h, index=at(h.index)) for h in trail.hits)
    traces = tuple(replace(t, index=at(t.index), start=at(t.start)) for t in trail.traces)
    orphans = tuple(replace(t, index=at(t.index), start=at(t.start)) for t in trail.orphans)
    marks: dict[str, Any] = {}
    for name in ("first", "last", "ready", "stop", "still_from", "lag_grew"):
        mark = getattr(trail, name)
        marks[name] = None if mark is None else replace(mark, index=at(mark.index))
    cells = tuple(replace(c, line=at(c.line)) if c.line is not None else c for c in where.cells)
    return replace(where, trail=replace(trail, hits=hits, traces=traces, orphans=orphans, **marks), cells=cells)


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
