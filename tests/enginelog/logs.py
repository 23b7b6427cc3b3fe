"""Captured and composed engine logs, and ways to read them."""

from __future__ import annotations

from pathlib import Path

from console.enginelog.records import Decoder, Record
from console.enginelog.stages import StageTracker
from console.enginelog.stages_model import CellState, Stage

FOLDER = Path(__file__).parent.parent / "fixtures" / "engine-logs"
LOGS = sorted(p.name for p in FOLDER.glob("*.log"))
WORKERS = {
    "composed-success-rank3-docker-t.log": 3,
    "composed-fail-wedge-rank1-docker-t.log": 1,
    "real-cpu-real-rank1.log": 1,
    "real-cpu-tp8-rank1.log": 1,
    "real-cpu-tp8-rank4.log": 4,
}
READY = (
    "composed-success.log",
    "composed-success-ansi-sample.log",
    "real-cpu-real-boot.log",
    "real-cpu-real-rank0.log",
    "real-cpu-tp8-rank0.log",
)


def data(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def decode(raw: bytes, rank: int | None = 0) -> list[Record]:
    decoder = Decoder(rank)
    return decoder.feed(raw) + decoder.finish()


def track(name: str) -> StageTracker:
    rank = WORKERS.get(name, 0)
    tracker = StageTracker(rank)
    tracker.feed(decode(data(name), rank))
    return tracker


def states(tracker: StageTracker) -> dict[Stage, CellState]:
    return {cell.stage: cell.state for cell in tracker.cells()}
