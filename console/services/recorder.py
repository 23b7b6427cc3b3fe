"""Recording a session: what nodes, engines and logs said, when, into one file that replay reads.

Rows are [seconds since the start, kind, ...]: `frame` node, number, the probe's frame; `trouble` node, word, why;
`event` deployment, event; `log` deployment, lines of [rank, node, index, at, level, process, text]. Rows of kind
`checkpoint` come together and hold what all rows before them come to, each an object with some of it: `frames` node ->
[seconds, number, frame]; `trouble` node -> [word, why]; `states` of the deployments that live and of the newest that
ended, with `ranks` deployment -> ranks apart where they are many; `alarms`; `log` deployment -> {`lines`: the last of
them, `count`: of all before those, `held`: rank -> [index, seconds] of its last}.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from console.base.clock import Clock
from console.base.errors import NightdeckError
from console.boot.events import Event
from console.boot.state import BootState
from console.cluster.model import Cluster
from console.cluster.render import render_cluster
from console.files.event_codec import encode_event
from console.files.recording import RecordingWriter
from console.services.hub import LogLine
from console.services.recorder_kept import Kept, Part
from console.telemetry.alarms import Alarm
from console.telemetry.frames import Frame

# A night of eight nodes at one frame a second would be half a gigabyte; deaths are recorded at once in any case.
FRAME_EVERY_S: Final = 5.0
# Of a log so many lines stand in one row, and so much text: far less than a reader takes of one line.
PIECE_LINES: Final = 500
PIECE_CHARS: Final = 256 << 10
# A checkpoint of many nodes takes a second: so long of it at once, and so long between for other work.
SLICE_S: Final = 0.01
PAUSE_S: Final = 0.02


class Recorder:
    """Nothing raises: the first failure is told, and then it is silent. alarms: asked for at each checkpoint."""

    def __init__(
        self,
        path: Path,
        cluster: Cluster,
        clock: Clock,
        told: Callable[[str], None],
        *,
        every_s: float = FRAME_EVERY_S,
    ) -> None:
        """Raises UsageError where the file is there already, DiskError where it cannot be made."""
        self._clock = clock
        self._told = told
        self._every_s = every_s
        self._start = clock.monotonic()
        self._last: dict[str, float] = {}
        self._broken = False
        self.alarms: Callable[[], Sequence[Alarm]] = tuple
        self._kept = Kept()
        self._parts: deque[Part] = deque()  # of a checkpoint that is being written
        self._parts_at = 0.0
        self._waiting: deque[tuple[list[Any], float]] = deque()  # rows that come after it
        self._timer: asyncio.TimerHandle | None = None
        header = {"started": clock.wall(), "cluster": render_cluster(cluster)}
        self._writer = RecordingWriter(path, header)

    @property
    def path(self) -> Path:
        return self._writer.path

    def frame(self, node: str, frame: Frame) -> None:
        """A probe's frame as it came; full ones are thinned to one in `every_s`."""
        now = self._clock.monotonic()
        if frame.data.get("part") != "containers":
            if now - self._last.get(node, -1e9) < self._every_s:
                return
            self._last[node] = now
        self._row("frame", node, frame.seq, dict(frame.data))
        if frame.data.get("part") != "containers":
            self._kept.frame(node, [round(now - self._start, 3), frame.seq, dict(frame.data)])
        self._kept.trouble(node, "", "")

    def trouble(self, node: str, trouble: str, why: str) -> None:
        self._row("trouble", node, trouble, why)
        self._kept.trouble(node, trouble, why)

    def event(self, deployment: str, event: Event, state: BootState | None = None) -> None:
        """state: the deployment's after the event."""
        self._row("event", deployment, encode_event(event))
        if state is not None:
            self._kept.state(state)

    def lines(self, deployment: str, lines: Sequence[LogLine]) -> None:
        rows = [[line.rank, line.node, line.index, line.at, line.level, line.process, line.text] for line in lines]
        for some in _pieces(rows):
            self._row("log", deployment, some)
            self._kept.lines(deployment, some, round(self._clock.monotonic() - self._start, 3))

    def _row(self, kind: str, *values: Any) -> None:
        if self._broken:
            return
        now = self._clock.monotonic()
        row = [round(now - self._start, 3), kind, *values]
        try:
            if not self._under_way and self._writer.due(now):
                self._begin(now)
            if self._under_way:
                self._waiting.append((row, now))
            else:
                self._writer.write(row, now)
        except NightdeckError as error:
            self._failed(error)

    @property
    def _under_way(self) -> bool:
        return bool(self._parts or self._waiting)

    def _begin(self, now: float) -> None:
        """A checkpoint: its first part at once, the others a slice at a time where a loop runs, else at once too."""
        first, *rest = self._kept.parts(self.alarms())
        self._writer.checkpoint([round(now - self._start, 3), "checkpoint", first()], now)
        self._parts, self._parts_at = deque(rest), now
        try:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._slice)
        except RuntimeError:  # nobody waits for this thread
            self._write_on(math.inf)

    def _slice(self) -> None:
        self._timer = None
        try:
            self._write_on(SLICE_S)
        except NightdeckError as error:
            self._failed(error)
        if self._under_way:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._slice)

    def _write_on(self, seconds: float) -> None:
        """On with the checkpoint, and then with the rows that came meanwhile."""
        until = perf_counter() + seconds
        while self._under_way:
            if self._parts:
                row = [round(self._parts_at - self._start, 3), "checkpoint", self._parts.popleft()()]
                self._writer.write(row, self._parts_at, part=True)
            else:
                self._writer.write(*self._waiting.popleft())
            if perf_counter() > until:
                return

    def _failed(self, error: NightdeckError) -> None:
        self._broken = True
        self._parts.clear()
        self._waiting.clear()
        self._told(f"the recording ends here: {error}")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._write_on(math.inf)
        except NightdeckError as error:
            self._failed(error)
        try:
            self._writer.close()
        except NightdeckError as error:
            self._told(f"the recording may lack its end: {error}")


def _pieces(rows: list[list[Any]]) -> Iterator[list[list[Any]]]:
    piece: list[list[Any]] = []
    chars = 0
    for row in rows:
        if piece and (len(piece) >= PIECE_LINES or chars + len(row[6]) > PIECE_CHARS):
            yield piece
            piece, chars = [], 0
        piece.append(row)
        chars += len(row[6])
    if piece:
        yield piece
