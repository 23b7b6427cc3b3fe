"""Diagnoses that are right, and lines per second with causes on: `python -m tests.bench.bench_causes`."""

from __future__ import annotations

import gc
import time

from console.enginelog.board import BoardTracker
from console.enginelog.causes import find_cause
from console.enginelog.diagnose import diagnose
from console.enginelog.evidence import Evidence, RankEvidence
from console.enginelog.evidence_collect import CauseCollector
from tests.bench.bench_enginelog import (
    CHUNK,
    LOGS,
    RANKS,
    _chatter,
    _nccl,
    _serving,
    boot_streams,
    boots,
    varied,
    varied_streams,
)
from tests.enginelog.excerpts import excerpts
from tests.enginelog.test_causes_logs import EXPECTED

EXCERPTS = LOGS.parent.parent / "enginelog" / "excerpts"
GOAL = 200_000


def wrong() -> tuple[int, list[str]]:
    """How many fixtures and published excerpts there are, and where verdict, class, rank or line is not as it should
    be."""
    cases = [(n, (LOGS / n).read_bytes(), v, c or "", line or 0) for n, (v, c, _, line) in EXPECTED.items()]
    cases += [(e.name, e.data, e.verdict, e.cls, e.line) for e in excerpts()]
    out = []
    for name, data, verdict, cls, line in cases:
        rank = int(name.partition("rank")[2][0]) if name in EXPECTED and "rank" in name else None
        found = diagnose([(name, rank, lambda data=data: [data])])  # type: ignore[misc]
        cause = found.cause
        got = (str(found.verdict), cause.cls if cause else "", cause.line if cause else 0)
        if got != (verdict, cls, line):
            out.append(f"{name}: {got}, expected {(verdict, cls, line)}")
    return len(cases), out


def accuracy() -> None:
    total, bad = wrong()
    print("".join(f"  {line}\n" for line in bad) + f"accuracy {total - len(bad)}/{total}")


def measure(name: str, streams: list[bytes]) -> float:
    """Lines per second of this process's own time, from bytes to records, stages and causes; best of five, since
    others may use the core."""
    pieces = [
        (rank, stream[start : start + CHUNK])
        for start in range(0, max(map(len, streams)), CHUNK)
        for rank, stream in enumerate(streams)
        if start < len(stream)
    ]
    lines = sum(stream.count(b"\n") for stream in streams)
    seconds, asked = min(_once(pieces) for _ in range(5))
    rate = lines / seconds
    note = "" if rate >= GOAL else "below the goal"
    print(f"{name:<28} {lines:>9,} lines {rate:>11,.0f} lines/s, asked in {asked * 1000:.1f} ms {note}")
    return rate


def _once(pieces: list[tuple[int, bytes]]) -> tuple[float, float]:
    """Seconds to read, and to ask once for the cause."""
    board = BoardTracker(RANKS)
    collectors = [CauseCollector(rank) for rank in range(RANKS)]
    gc.collect()
    begin = time.process_time()
    for rank, piece in pieces:
        collectors[rank].feed(board.feed(rank, piece))
    seconds = time.process_time() - begin
    begin = time.process_time()
    ranks = tuple(
        RankEvidence(r, trail=c.trail(), cells=board.ranks[r].tracker.cells()) for r, c in enumerate(collectors)
    )
    find_cause(Evidence(ranks))
    return seconds, time.process_time() - begin


def main() -> None:
    accuracy()
    real = (LOGS / "real-cpu-tp8-rank0.log").read_bytes()
    failing = (LOGS / "composed-fail-block-size.log").read_bytes()
    measure("warm-up", boot_streams(5))
    measure("engine lines", [_chatter(40_000)] * RANKS)
    measure("serving head, NCCL workers", [_serving(40_000), *[_nccl(40_000)] * (RANKS - 1)])
    measure("boots of eight ranks", boot_streams(100))
    measure("real boots (CPU build)", [boots(real, 100)] * RANKS)
    measure("failing boots", [boots(failing, 100)] * RANKS)
    measure("boots, no two alike", varied_streams(30))
    measure("real boots, no two alike", [varied(real, 30, rank) for rank in range(RANKS)])
    measure("failing boots, no two alike", [varied(failing, 30, rank) for rank in range(RANKS)])
    sglang = (EXCERPTS / "gb10-sgl-serves.log").read_bytes() + b"\n"
    measure("SGLang, no two alike", [varied(sglang, 100, rank) for rank in range(RANKS)])


if __name__ == "__main__":
    main()
