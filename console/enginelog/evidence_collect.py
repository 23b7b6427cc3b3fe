"""Gathers what a rank's log says of a failure while its records pass by, in bounded memory."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from console.enginelog.evidence import Hit, Mark, Trace, Trail
from console.enginelog.records import Record, docker_lag
from console.enginelog.signatures import matches
from console.enginelog.signatures_model import Kind
from console.enginelog.signatures_neutral import STOPPING
from console.enginelog.telltale import BEFORE, CHAINED, FIRED_UP, MAYBE_BEFORE, ORPHAN, TRACEBACK, said_before

_MAX_HITS: Final = 400
_MAX_EACH: Final = 6
_MAX_TRACES: Final = 64
_MAX_OPEN: Final = 64
_FRAMES: Final = 8
_SHOWN: Final = 1000
_TAIL: Final = 8
# After an exception a hint may follow, a blank line, the same from other ranks.
_LAST_LINES: Final = 6
# A lag that grows by a minute is a node that thrashes; one that only stands is a zone or a clock.
_LAG_GROWS_S: Final = 60.0
_LAG_LOOKS: Final = 5000
# Of ordinary lines one in 64 is looked at: chosen by its number, so that it is the same however the stream is cut.
_LAG_EVERY: Final = 63
_FRAME: Final = re.compile(r'File "([^"]{1,300})", line \d{1,7}, in (\S{1,120})')
_EXCEPTION: Final = re.compile(r"^(?:\[\w+\]: )?[A-Za-z_][\w.]{1,120}(?:: |$)")
_STILL: Final = re.compile(r"generation throughput: 0\.0 tokens/s, Running: [1-9]")
# How the ordinary lines begin that matter all the same.
_TELLING: Final = frozenset({"Applica", "Engine ", "[shutdo", "Shuttin", "Parent ", "No avai", "Waiting"})
_WAITS: Final = "No available shared memory broadcast block"
_Key = tuple[str | None, int | None, bool]


@dataclass(slots=True)
class _Open:
    start: int
    at: float | None
    chained: bool
    process: str | None
    last: int
    code: bool = False
    frames: deque[str] = field(default_factory=lambda: deque(maxlen=_FRAMES))


class CauseCollector:
    """Fed with one rank's records in the order of its log. `trail()` may be asked at any time; records fed afterwards
    go on from there."""

    def __init__(self, rank: int | None = None) -> None:
        self.rank = rank
        self.died = False
        self.records = 0
        self._repeats = 0
        self._hits: list[Hit] = []
        self._counts: dict[int, int] = {}
        self._traces: list[Trace] = []
        self._open: dict[_Key, _Open] = {}
        self._chain: set[_Key] = set()
        self._follow: tuple[_Key, int, int] | None = None
        self._orphans: deque[Trace] = deque(maxlen=4)
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._first: Mark | None = None
        self._last: Mark | None = None
        self._ready: Mark | None = None
        self._stop: Mark | None = None
        self._still = 0
        self._still_from: Mark | None = None
        self._lag_best: float | None = None
        self._lag_worst = 0.0
        self._lag_grew: Mark | None = None
        self._lag_text = ""
        self._looks = 0
        self._lines = 0
        self._log_at: float | None = None
        self._batch: list[Record] = []
        self._told = -1
        self._position = -1

    @property
    def alarming(self) -> bool:
        """Something was seen that deserves a diagnosis now: a cause, a wrapper or the end of a traceback."""
        return self.died

    @property
    def news(self) -> int:
        """Records that say something: a line by which a rank says each minute that it waits, or cannot reach the head's
        store, is none. While this number stands still, so does the rank, as far as its log shows."""
        return self.records - self._repeats

    def feed(self, records: Iterable[Record]) -> None:
        batch = records if isinstance(records, list) else list(records)
        if not batch:
            return
        self._batch, self._told = batch, -1
        telling, every = _TELLING, _LAG_EVERY
        for position, record in enumerate(batch):
            if record.level == "INFO":
                # The way of nearly every line: it must cost next to nothing.
                start = record.text[:7]
                if start in telling:
                    self._position = position
                    self._said(start, record)
                if not record.index & every:
                    self._lag(record)
            elif record.kind != "progress" and record.level != "DEBUG":
                if record.hints is None or record.hints.fault or self._open or self._follow is not None:
                    self._position = position
                    self._look(record)
                self._lag(record)
        self._position = len(batch) - 1
        log_at = self._now()
        self._batch = []
        self.records += len(batch)
        last = batch[-1]
        if self._first is None:
            self._first = Mark(batch[0].index, batch[0].docker_at, batch[0].log_at)
        self._last = Mark(last.index, last.docker_at, log_at)
        self._lines = last.index + 1
        self._tail.extend(record.text[:_SHOWN] for record in batch[-_TAIL:])

    def _now(self) -> float | None:
        """The engine's own time by the record that is looked at: its own, or that of the last one before it that has
        one."""
        for earlier in range(self._position, self._told, -1):
            at = self._batch[earlier].log_at
            if at is not None:
                self._log_at = at
                break
        self._told = self._position
        return self._log_at

    def _mark(self, record: Record) -> Mark:
        return Mark(record.index, record.docker_at, self._now())

    def trail(self) -> Trail:
        return Trail(
            self._lines,
            tuple(self._hits),
            tuple(self._traces),
            bool(self._open),
            self._first,
            self._last,
            self._ready,
            self._stop,
            self._still,
            self._still_from,
            self._lag_grew,
            self._lag_worst,
            self._lag_text,
            tuple(self._tail),
            tuple(o for o in self._orphans if self._lines - o.index <= _LAST_LINES),
            any(trace.last >= self._lines - 1 for trace in self._open.values()),
        )

    def _said(self, start: str, record: Record) -> None:
        """An ordinary line that matters all the same."""
        text = record.text
        if start == "Applica":
            if self._ready is None and "Application startup complete" in text:
                self._ready = self._mark(record)
            return
        if start == "Engine ":
            if _STILL.search(text):
                if self._still == 0:
                    self._still_from = self._mark(record)
                self._still += 1
            elif "generation throughput" in text:
                self._still, self._still_from = 0, None
        elif start == "[shutdo" or start == "Shuttin":
            # A teardown after a failure says the same: only what comes before any failure is a stop. A traceback that
            # is being written is a failure: the teardown's lines stand between its own.
            if self._stop is None and not self.died and not self._open:
                self._stop = self._mark(record)
        else:
            self._match(record, (record.process, record.pid, record.kind == "engine"), False)

    def _look(self, record: Record) -> None:
        text = record.text
        if text[:1] in MAYBE_BEFORE and (before := BEFORE.match(text)):
            level, process = said_before(before[0])
            record = replace(
                record, text=text[before.end() :], level=level or record.level, process=record.process or process
            )
            text = record.text
            if record.level == "INFO" or record.level == "DEBUG":
                if text[:7] in _TELLING:
                    self._said(text[:7], record)
                return
        key = (record.process, record.pid, record.kind == "engine")
        if self._follow is not None and self._follow[0] == key:
            self._followed(text)
        first = text[:1]
        if TRACEBACK in text:
            if len(self._open) >= _MAX_OPEN:
                self._open.clear()
            self._open[key] = opened = _Open(
                record.index, record.docker_at, key in self._chain, record.process, record.index
            )
            self._chain.discard(key)
            if not text.startswith(TRACEBACK):
                # "… hit an exception: Traceback": some writers give the lines that follow no head.
                self._open[(None, None, False)] = opened
                self._match(record, key, False)
            return
        trace = self._open.get(key)
        # Published logs have often lost the spaces that a traceback's lines begin with.
        bare = trace is not None and (text.startswith('File "') or (trace.code and not _EXCEPTION.match(text)))
        if bare or first in (" ", "\t", ""):
            if trace is not None:
                trace.last, trace.code = record.index, False
                if found := _FRAME.search(text):
                    trace.frames.append(f"{found[1]} in {found[2]}")
                    trace.code = first == "F"
            return
        if trace is not None and (record.level in ("ERROR", "CRITICAL", None)):
            self._open = {k: v for k, v in self._open.items() if v is not trace}
            if _EXCEPTION.match(text):
                self._traced(record, trace, key)
                return
        if text.startswith(CHAINED):
            self._chain.add(key)
            return
        if self._ready is None and FIRED_UP in text:
            self._ready = self._mark(record)
            return
        orphan = record.kind == "raw" and record.level is None and ORPHAN.match(text) is not None
        if not self._match(record, key, orphan) and orphan:
            self._orphans.append(self._trace(record, None))

    def _traced(self, record: Record, trace: _Open, key: _Key) -> None:
        if record.process is None and trace.process is not None:
            record = replace(record, process=trace.process)
        known = self._match(record, key, True, trace.frames)
        self.died = True
        if len(self._traces) < _MAX_TRACES:
            self._traces.append(replace(self._trace(record, trace), known=known))

    def _trace(self, record: Record, trace: _Open | None) -> Trace:
        """An exception as it was told of; trace None: of its traceback nothing is at hand."""
        return Trace(
            record.index if trace is None else trace.start,
            record.index,
            record.docker_at,
            self._now(),
            record.level,
            record.process,
            () if trace is None else tuple(trace.frames),
            record.text[:_SHOWN],
            False,
            trace is not None and trace.chained,
        )

    def _match(self, record: Record, key: _Key, traced: bool, frames: Iterable[str] = ()) -> bool:
        """Keep what signatures say of the line; whether a cause, a wrapper or a victim's words are among it."""
        text = record.text
        found = matches(text, None if record.hints is None else record.hints.signatures)
        if traced and any("persistent_topk" in frame for frame in frames):
            found = matches("persistent_topk") + found
        if not found:
            return False
        telling = False
        for signature, values in found[:3]:
            if signature is STOPPING:
                if self._stop is None and not self.died:
                    self._stop = self._mark(record)
                continue
            if signature.cls == "head_gone" or _WAITS in text:
                self._repeats += 1
            telling = telling or signature.kind is not Kind.HINT
            count = self._counts.get(id(signature), 0)
            self._counts[id(signature)] = count + 1
            if count >= _MAX_EACH or len(self._hits) >= _MAX_HITS:
                continue
            if signature.follow:
                self._follow = (key, len(self._hits), signature.follow)
            self._hits.append(
                Hit(
                    signature,
                    values,
                    record.index,
                    record.docker_at,
                    self._now(),
                    record.level,
                    record.process,
                    record.kind,
                    text[:_SHOWN],
                    traced,
                )
            )
            if signature.kind in (Kind.CAUSE, Kind.WRAPPER) and (traced or record.level != "WARNING"):
                self.died = True
        return telling

    def _followed(self, text: str) -> None:
        assert self._follow is not None
        key, number, left = self._follow
        if text.strip():
            hit = self._hits[number]
            self._hits[number] = replace(hit, more=(*hit.more, text.strip()[:_SHOWN]))
        self._follow = (key, number, left - 1) if left > 1 else None

    def _lag(self, record: Record) -> None:
        if self._looks >= _LAG_LOOKS:
            return
        self._looks += 1
        lag = docker_lag(record)
        if lag is None:
            return
        if self._lag_best is None or lag < self._lag_best:
            self._lag_best = lag
        grown = lag - self._lag_best
        self._lag_worst = max(self._lag_worst, grown)
        if grown > _LAG_GROWS_S and self._lag_grew is None:
            self._lag_grew = Mark(record.index, record.docker_at, record.log_at)
            self._lag_text = record.text[:_SHOWN]
