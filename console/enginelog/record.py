"""One message of one rank, as every reader of engine logs takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from console.enginelog import lineformat as shape
from console.enginelog.pieces import headless

if TYPE_CHECKING:
    from console.enginelog.hints import Hints

TEXT_LIMIT: Final = 8192
EARLIER_LIMIT: Final = 16 * 1024
NOWHERE: Final = (-1, -1)
Span = tuple[int, int]


class Spans(NamedTuple):
    """Where in a line, before its text, the fields stand that few readers ask for; a negative offset: nowhere.

    stamp: the engine's own time. odd: a head that is not the engine's own, which tells time and source, and where it
    ends. steps: earlier states of a progress bar, and where the last begins. ip: the address beside
    the process. who: all that tells the writer."""

    process: Span = NOWHERE
    pid: Span = NOWHERE
    stamp: int = -1
    source: Span = NOWHERE
    odd: Span = NOWHERE
    steps: Span = NOWHERE
    ip: Span = NOWHERE
    who: Span = NOWHERE


class _Line:
    """A line of a known shape, as text or as it came, for the fields that are worked out when they are asked for: most
    never are."""

    # All slots stand here: a class that adds some to those of its base is slow to change into another.
    __slots__ = (
        "_line", "_spans", "continuation", "docker_at", "earlier", "hints", "index", "kind", "level", "log_at", "pid",
        "process", "rank", "source", "text",
    )  # fmt: skip
    _line: str | bytes
    _spans: Spans


def cut(line: str | bytes, begin: int, end: int) -> str:
    part = line[begin:end]
    return part.decode("utf-8", "replace") if isinstance(part, bytes) else part


@dataclass(frozen=True, slots=True)
class Record(_Line):
    """One message of one rank.

    index: 0-based physical line in that rank's stream; two records split from one line share it.
    docker_at: epoch seconds of the `docker logs -t` stamp. log_at: the engine's own time, which has neither year nor
    zone: seconds from the start of an unnamed leap year, to be compared by `lineformat.elapsed`.
    level: DEBUG INFO WARNING ERROR CRITICAL, or None where the line says none.
    process: "APIServer", "EngineCore", "Worker_TP3", "MainProcess"; the innermost where launchers stack prefixes;
    "name ip=address" where Ray says on which node it runs.
    source: "file.py:123"; it changes with every build, so nothing may match on it.
    text: the message: no escapes, no control codes, secrets masked, at most TEXT_LIMIT characters.
    continuation: a further line of the message before it (traceback lines; header lines after a `\\r\\n`).
    kind: engine, nccl, torch, uvicorn, progress, raw.
    earlier: what a progress line overwrote by `\\r`, raw, for `progress.steps`; empty elsewhere.
    hints: what the text can say, where its shape is known; None: nobody has looked.
    """

    rank: int | None
    index: int
    docker_at: float | None
    log_at: float | None
    level: str | None
    process: str | None
    pid: int | None
    source: str | None
    text: str
    continuation: bool
    kind: str
    earlier: str = ""
    hints: Hints | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Draft(_Line):
    """Record's mutable twin, with the same slots in the same order: it becomes a Record by changing its class, which is
    four times as fast as a frozen dataclass's own constructor. What it leaves unset of `LATER` is worked out then."""

    rank: int | None
    index: int
    docker_at: float | None
    log_at: float | None
    level: str | None
    process: str | None
    pid: int | None
    source: str | None
    text: str
    continuation: bool
    kind: str
    earlier: str = ""
    hints: Hints | None = None


def _process(line: str | bytes, spans: Spans) -> str | None:
    name = cut(line, *spans.process) if spans.process[0] >= 0 else None
    if name and name[0] == " ":
        return name.strip().replace(" ", "_")  # SGLang's ranks: " TP3", " DP0 TP3"
    return f"{name} ip={cut(line, *spans.ip)}" if spans.ip[0] >= 0 else name


def _pid(line: str | bytes, spans: Spans) -> int | None:
    return int(cut(line, *spans.pid)) if spans.pid[0] >= 0 else None


def writer_of(line: str | bytes, spans: Spans) -> tuple[str | None, int | None]:
    return _process(line, spans), _pid(line, spans)


def _log_at(line: str | bytes, spans: Spans) -> float | None:
    if spans.odd[0] >= 0:
        return headless(cut(line, *spans.odd), None, None)[1]
    return shape.log_seconds(cut(line, spans.stamp, spans.stamp + 14)) if spans.stamp >= 0 else None


def _source(line: str | bytes, spans: Spans) -> str | None:
    if spans.odd[0] >= 0:
        return headless(cut(line, *spans.odd), None, None)[5]
    return cut(line, *spans.source) if spans.source[0] >= 0 else None


def _earlier(line: str | bytes, spans: Spans) -> str:
    if spans.steps[0] < 0:
        return ""
    steps = [step for step in cut(line, *spans.steps).split("\r") if step and not step.isspace()]
    return "\r".join(steps)[-EARLIER_LIMIT:]


LATER: Final[dict[str, Callable[[str | bytes, Spans], Any]]] = {
    "log_at": _log_at,
    "process": _process,
    "pid": _pid,
    "source": _source,
    "earlier": _earlier,
}


def _later(name: str) -> property:
    """The field as it was given, or else worked out once."""
    slot, work_out = getattr(Record, name), LATER[name]

    def get(record: Record) -> Any:
        try:
            return slot.__get__(record)
        except AttributeError:
            value = work_out(record._line, record._spans)
            slot.__set__(record, value)
            return value

    return property(get, slot.__set__)


for _name in LATER:
    setattr(Record, _name, _later(_name))


def docker_lag(record: Record) -> float | None:
    """Seconds by which the docker stamp is later than the line's own time, taking the container's clock for UTC (engine
    images set no zone); minutes of it mean a node that thrashes. None where either time is missing."""
    if record.docker_at is None or record.log_at is None:
        return None
    day, seconds = divmod(record.docker_at, shape.DAY)
    begins = shape.day_of_year(day)
    return None if begins is None else shape.elapsed(record.log_at, begins + seconds)
