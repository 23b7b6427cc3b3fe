"""A recorded boot for the tests of the replay: three ranks, one dies in its weights; two hundred seconds."""

from __future__ import annotations

import time

from console.boot.events import (
    BootFailed,
    BootOpened,
    CauseFound,
    ContainerSeen,
    Event,
    NodeBack,
    NodeLost,
    RankProgress,
    RankRef,
)
from console.cluster.model import Cluster, Node
from console.enginelog.causes_model import Cause
from console.enginelog.stages_model import Cell, CellState, Stage
from console.files.event_codec import encode_event
from console.services.replay import ReplayHub
from console.services.replay_rows import Row, Source

START = 1_790_128_261.0
NODES = ("dgx1", "dgx2", "dgx3")
DEPLOYMENT = "glm-b7-aa"
GIB = 1024**3
CAUSE = Cause(
    "memory-gate", "Free memory on dgx3 is less than asked for.", "Ask for less.", 2, "dgx3", "weights", "rank2.log", 5
)


class RealClock:
    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def events() -> list[Event]:
    ranks = tuple(RankRef(i, node, f"nightdeck-glm-b7-r{i}") for i, node in enumerate(NODES))
    out: list[Event] = [
        BootOpened(START, DEPLOYMENT, 7, "glm-5-3x", "GLM-5", "d", "dgx1", ranks, START, 3600.0, 8000, "glm"),
        *(ContainerSeen(START + 2 + i / 10, i, "running") for i in range(3)),
    ]
    for at, stage in ((10.0, Stage.RENDEZVOUS), (20.0, Stage.MODEL), (30.0, Stage.WEIGHTS)):
        for i in range(3):
            cells = tuple(
                Cell(s, CellState.ACTIVE if s == stage else CellState.DONE, line=0) for s in Stage if s <= stage
            )
            now = START + at + i / 10
            out.append(RankProgress(now, i, cells, stage, 0.2 if stage == Stage.WEIGHTS else None, 3, now))
    out += [
        ContainerSeen(START + 150.0, 2, "exited", 1),
        CauseFound(START + 151.0, CAUSE),
        BootFailed(START + 151.0, "rank 2 exited 1", 2, "dgx3"),
        *(NodeLost(START + 160.0 + i, "dgx2", "silent", "") for i in range(0, 20, 5)),
        NodeBack(START + 185.0, "dgx2"),
    ]
    return out


def rows() -> list[Row]:
    """Events, a window of telemetry in ten seconds (least memory at 100 s), two lines a second of each rank."""
    out: list[Row] = [(e.at - START, "event", [DEPLOYMENT, encode_event(e)]) for e in events()]
    for at in range(0, 200, 10):
        for i, node in enumerate(NODES):
            left = (2 if (at, i) == (100, 1) else 30 - at // 10) * GIB
            window = {"mem_available": [left, left], "mem_used": [0, 121 * GIB - left], "gpu_util": [1.0, 90.0]}
            out.append((float(at), "window", [node, window]))
    for at in range(3, 150):
        lines = [[0, "dgx1", at * 2 + k, START + at, "info", "Worker", f"line {at * 2 + k} of rank 0"] for k in (0, 1)]
        out.append((float(at), "log", [DEPLOYMENT, lines]))
    return sorted(out, key=lambda row: row[0])


def replay_hub() -> ReplayHub:
    """Stands still until it is told to play."""
    kept = rows()
    cluster = Cluster("b0007-glm", "b0007-glm", tuple(Node(n, n) for n in NODES))
    hub = ReplayHub(Source("boot 7 of glm-5-3x", cluster, START, lambda: iter(kept)), RealClock())
    hub.pause(True)
    return hub
