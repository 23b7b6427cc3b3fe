"""The stages of a boot, in order, and what is known of a rank's passage through them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Stage(IntEnum):
    """In the order in which a healthy rank passes them. IMAGE and CONTAINER come from the launch, HTTP is the head's
    alone, SMOKE and SERVING come from the console's own requests; the rest from the rank's log."""

    IMAGE = 0
    CONTAINER = 1
    ARGUMENTS = 2
    RENDEZVOUS = 3
    NCCL = 4
    MODEL = 5
    WEIGHTS = 6
    LOADED = 7
    PROFILE = 8
    KV_CACHE = 9
    WARMUP = 10
    GRAPHS = 11
    HTTP = 12
    SMOKE = 13
    SERVING = 14

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", " ")


class CellState(StrEnum):
    """pending: not reached. active: in it now. done: left. failed: died in it. skipped: this rank has no such stage.
    Unknown is not pending: `unknown` says that nothing can be told (log unreachable)."""

    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Cell:
    """One stage of one rank. at/until: epoch seconds by the node's docker time stamps where there are any, else None.
    progress: 0..1 or None. detail: short text for the cell ("8/8", "23.6 GiB", "63% 5:10"). inferred: not said by this
    rank's own log but concluded. line: 0-based index of the log line that opened the stage, for jumping there."""

    stage: Stage
    state: CellState = CellState.PENDING
    at: float | None = None
    until: float | None = None
    progress: float | None = None
    detail: str = ""
    inferred: bool = False
    line: int | None = None
