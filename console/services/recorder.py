"""Recording a session: what nodes, engines and logs said, when, into one file that replay reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from console.base.clock import Clock
from console.base.errors import NightdeckError
from console.boot.events import Event
from console.cluster.model import Cluster
from console.cluster.render import render_cluster
from console.files.event_codec import encode_event
from console.files.recording import RecordingWriter
from console.services.hub import LogLine
from console.telemetry.frames import Frame

# A night of eight nodes at one frame a second would be half a gigabyte; deaths are recorded at once in any case.
FRAME_EVERY_S: Final = 5.0


class Recorder:
    """Rows: [seconds since the start, kind, ...]. Nothing raises: the first failure is told, and then it is silent."""

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

    def trouble(self, node: str, trouble: str, why: str) -> None:
        self._row("trouble", node, trouble, why)

    def event(self, deployment: str, event: Event) -> None:
        self._row("event", deployment, encode_event(event))

    def lines(self, deployment: str, lines: Sequence[LogLine]) -> None:
        rows = [[line.rank, line.node, line.index, line.at, line.level, line.process, line.text] for line in lines]
        if rows:
            self._row("log", deployment, rows)

    def _row(self, kind: str, *values: Any) -> None:
        if self._broken:
            return
        now = self._clock.monotonic()
        try:
            self._writer.write([round(now - self._start, 3), kind, *values], now)
        except NightdeckError as error:
            self._broken = True
            self._told(f"the recording ends here: {error}")

    def close(self) -> None:
        try:
            self._writer.close()
        except NightdeckError as error:
            self._told(f"the recording may lack its end: {error}")
