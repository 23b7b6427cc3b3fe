"""What a replay plays: the rows of a recording, or a boot's folder told as such rows, in the order of time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from console.base.errors import NightdeckError, UsageError
from console.base.text import clean_line
from console.cluster.model import Cluster, Node
from console.cluster.parse import parse_cluster
from console.enginelog.board import BoardTracker
from console.files.archive import log_files, read_json, read_lines, read_log, read_small
from console.files.event_codec import decode_event
from console.files.journal import read_events
from console.files.recording import checkpoints, read_from, read_recording
from console.services.guard_log import read_guard_log
from console.services.replay_marks import Row

CHUNK: Final = 500
LONGEST_S: Final = 366 * 86400.0  # a time beyond it is damage, not a recording of a year
_PIECE: Final = 32 << 10  # bytes of a log that are taken apart at once: some milliseconds


@dataclass(frozen=True, slots=True)
class Source:
    """title: for people. started: epoch seconds of the row time 0. rows: opens the rows anew, to go back.

    checkpoints: (seconds, place) of those of a recording, in order; rows_at: opens the rows at such a place, of which
    the first is the checkpoint."""

    title: str
    cluster: Cluster
    started: float
    rows: Callable[[], Iterator[Row]]
    checkpoints: Sequence[tuple[float, int]] = ()
    rows_at: Callable[[int], Iterator[Row]] | None = None


def recording(path: Path) -> Source:
    """A recording made by `record`. Raises UsageError, DiskError."""
    head = next(read_recording(path))
    started = head.get("started")
    try:
        cluster = parse_cluster(str(head.get("cluster") or ""), str(path))
    except NightdeckError as error:
        raise UsageError(f"its cluster cannot be read: {error}", where=str(path)) from error
    if isinstance(started, bool) or not isinstance(started, (int, float)):
        raise UsageError("does not say when it was made", where=str(path))

    return Source(
        path.name,
        cluster,
        float(started),
        lambda: _rows_of(path, 0),
        checkpoints(path),
        lambda place: _rows_of(path, place),
    )


def _rows_of(path: Path, place: int) -> Iterator[Row]:
    """Rows from a member on; what cannot be read is a row of kind `damage` where it would have come."""
    said: list[str] = []
    last = 0.0
    for line in read_from(path, place, told=said.append):
        if said:
            yield last, "damage", [said.pop()]
        if (
            isinstance(line, list)
            and len(line) >= 2
            and isinstance(line[0], (int, float))
            and isinstance(line[1], str)
            and 0 <= line[0] < LONGEST_S
        ):
            last = float(line[0])
            values = line[2:]
            if line[1] == "log" and len(values) == 2:
                values[1] = _clean_rows(values[1])
            elif line[1] == "checkpoint" and len(values) == 1 and isinstance(values[0], dict):
                _clean_checkpoint(values[0])
            yield last, line[1], values
    if said:
        yield last, "damage", [said.pop()]


def _clean_checkpoint(stored: dict[str, Any]) -> None:
    logs = stored.get("log")
    for log in logs.values() if isinstance(logs, dict) else ():
        if isinstance(log, dict):
            log["lines"] = _clean_rows(log.get("lines"))


def _clean_rows(rows: Any) -> list[tuple[Any, ...]]:
    return [clean for row in rows if (clean := _clean(row)) is not None] if isinstance(rows, list) else []


def _clean(row: Any) -> tuple[Any, ...] | None:
    """A line of a log as a file has it, made safe to draw; None for what is none."""
    if not isinstance(row, list) or len(row) != 7 or not all(isinstance(row[i], (int, float)) for i in (0, 2, 3)):
        return None
    rank, node, index, at, *words = row
    return (rank, clean_line(str(node)), index, at, *(clean_line(str(w)) for w in words))


def boot(path: Path) -> Source:
    """A boot's folder in the journal: its events, logs by docker's stamps, what its guards did, and the lows and highs
    of its telemetry.

    Raises UsageError where it holds no opening of a boot, DiskError."""
    opening = next((e.event for e in read_events(path) if e.event and e.event.get("type") == "BootOpened"), None)
    event = decode_event(opening) if opening is not None else None
    if event is None or opening is None:
        raise UsageError("this boot kept no events", where=str(path))
    ranks = getattr(event, "ranks", ())
    deployment = str(getattr(event, "deployment", ""))
    names = dict.fromkeys(r.node for r in ranks if r.node)
    started = float(getattr(event, "launched_at", event.at))
    nodes = {r.rank: r.node for r in ranks}

    def rows() -> Iterator[Row]:
        parts = [_events(path, deployment, started), _telemetry(path, started)]
        parts += [_guard(path, rank, deployment, started) for rank in nodes]
        parts += [
            _log(file, rank, nodes.get(rank, ""), len(ranks), deployment, started)
            for rank, file in log_files(path).items()
            if rank < len(ranks)
        ]
        yield from heapq.merge(*parts, key=lambda row: row[0])

    name = str((read_json(path / "boot.json") or {}).get("cluster") or "") or path.name
    cluster = Cluster(name=name, file=str(path), nodes=tuple(Node(n, n) for n in names))
    number, recipe = getattr(event, "number", 0), getattr(event, "recipe", "")
    return Source(f"boot {number} of {recipe}", cluster, started, rows)


def _events(path: Path, deployment: str, started: float) -> Iterator[Row]:
    last = 0.0
    for line in read_events(path):
        at = line.event.get("at") if line.event is not None else None
        if line.event is not None and isinstance(at, (int, float)):
            last = max(last, at - started)  # rows never go back
            yield last, "event", [deployment, line.event]


def _telemetry(path: Path, started: float) -> Iterator[Row]:
    last = 0.0
    for row in read_lines(path / "telemetry.jsonl"):
        at, node = row.get("at"), row.get("node")
        if isinstance(at, (int, float)) and isinstance(node, str):
            last = max(last, at - started)
            yield last, "window", [node, row]


def _guard(path: Path, rank: int, deployment: str, started: float) -> Iterator[Row]:
    """What the memory guard beside a rank did, where the boot kept it."""
    last = 0.0
    for at, node, guard in read_guard_log(read_small(path / f"rank{rank}.guard"), deployment, rank):
        last = max(last, at - started)
        yield last, "guard", [node, guard]


def _log(file: Path, rank: int, node: str, world: int, deployment: str, started: float) -> Iterator[Row]:
    """Lines of one rank, clean as the engine's reader makes them; one without a stamp keeps the place of the one
    before. Tuples of words and figures, which cost the collector of garbage nothing however many they are."""
    board = BoardTracker(world, frozenset())
    last = 0.0
    for block in (b[i : i + _PIECE] for b in read_log(file) for i in range(0, len(b), _PIECE)):
        rows: list[tuple[Any, ...]] = []
        at = last
        for record in board.feed(rank, block):
            stamp = record.docker_at if record.docker_at is not None else started + last
            last = max(last, stamp - started)
            if len(rows) >= CHUNK or last - at > 1.0:
                if rows:
                    yield at, "log", [deployment, rows]
                rows, at = [], last
            rows.append((rank, node, record.index, stamp, record.level or "", record.process or "", record.text))
        if rows:
            yield at, "log", [deployment, rows]


__all__ = ["Row", "Source", "boot", "recording"]
