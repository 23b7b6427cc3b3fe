"""Reading engine logs: what a line costs on the way to stages and causes, beside what a plain search costs.

Seconds of one core for a million lines of eight ranks' boots, merged as they come."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from functools import cache
from pathlib import Path

from console.enginelog.board import BoardTracker
from console.enginelog.evidence_collect import CauseCollector
from console.enginelog.signatures import SIGNATURES
from tests.bench.bench_causes import wrong
from tests.bench.bench_enginelog import CHUNK, RANKS, boot_streams
from tests.bench.ground import Ground
from tests.bench.measure import Measure, Unmeasurable

MILLION = 1_000_000


@cache
def _pieces() -> list[tuple[int, bytes]]:
    streams = boot_streams(100)
    return [
        (rank, stream[start : start + CHUNK])
        for start in range(0, max(map(len, streams)), CHUNK)
        for rank, stream in enumerate(streams)
        if start < len(stream)
    ]


@cache
def _lines() -> int:
    return sum(piece.count(b"\n") for _, piece in _pieces())


def _a_million(begun: float) -> float:
    return (time.process_time() - begun) * MILLION / _lines()


async def grep(ground: Ground) -> float:
    """The whole of it in one file, one word counted; the start of the program is in it."""
    with tempfile.NamedTemporaryFile(suffix=".log") as file:
        await asyncio.to_thread(Path(file.name).write_bytes, b"".join(piece for _, piece in _pieces()))
        begun = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            "grep", "-c", "Traceback", file.name, stdout=asyncio.subprocess.DEVNULL
        )
        await process.wait()
        return (time.perf_counter() - begun) * MILLION / _lines()


async def loop(ground: Ground) -> float:
    """A loop over decoded lines that looks for one word and keeps the last lines of each rank."""
    begun = time.process_time()
    held: dict[int, str] = {}
    found = 0
    for rank, piece in _pieces():
        for line in piece.decode("utf-8", "replace").split("\n"):
            found += "Traceback" in line
            held[rank] = line
    return _a_million(begun)


async def each_pattern(ground: Ground) -> float:
    """What a list of patterns costs that is tried line by line, without anything around it."""
    every = re.compile("|".join(f"(?:{re.sub(r'[?]P<[^>]*>', '', s.pattern.pattern)})" for s in SIGNATURES))
    pieces = _pieces()[:8]
    lines = sum(piece.count(b"\n") for _, piece in pieces)
    begun = time.process_time()
    for _, piece in pieces:
        for line in piece.decode("utf-8", "replace").split("\n"):
            every.search(line)
    return (time.process_time() - begun) * MILLION / lines


async def stages(ground: Ground) -> float:
    board = BoardTracker(RANKS)
    begun = time.process_time()
    for rank, piece in _pieces():
        board.feed(rank, piece)
    return _a_million(begun)


async def causes(ground: Ground) -> float:
    board = BoardTracker(RANKS)
    collectors = [CauseCollector(rank) for rank in range(RANKS)]
    begun = time.process_time()
    for rank, piece in _pieces():
        collectors[rank].feed(board.feed(rank, piece))
    return _a_million(begun)


async def diagnoses(ground: Ground) -> float:
    """Every log and excerpt of the tests, verdict, class, rank and line as they should be."""
    begun = time.process_time()
    total, bad = wrong()
    if bad:
        raise Unmeasurable(f"{total - len(bad)} of {total} right")
    return time.process_time() - begun


LOGS = (
    Measure("grep -c, one word, one file (wall)", grep, limit=True),
    Measure("Python, a loop with one word", loop, most=3),
    Measure("Python, all signatures as one pattern", each_pattern, most=1),
    Measure("nightdeck: records and stages", stages, most=3),
    Measure("nightdeck: records, stages and causes", causes, most=3),
    Measure("nightdeck: diagnose all logs of the tests, all right (in all)", diagnoses, most=3),
)
