"""Recording a session: what nodes, engines and logs said, when, into one file that replay reads.

Rows are [seconds since the start, kind, ...]: `frame` node, number, the probe's frame; `trouble` node, word, why;
`event` deployment, event; `log` deployment, lines of [rank, node, index, at, level, process, text]. `checkpoint` holds
what all rows before it come to, as one object: `frames` node -> [seconds, number, frame]; `trouble` node -> [word,
why]; `states` of the deployments; `alarms`; `log` deployment -> {`lines`: the last of them, `count`: of all before
those, `held`: rank -> [index, seconds] of its last}.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from console.base.clock import Clock
from console.base.errors import NightdeckError
from console.boot.events import Event
from console.boot.state import BootState
from console.cluster.model import Cluster
from console.cluster.render import render_cluster
from console.files.boot_folder import jsonable
from console.files.event_codec import encode_event
from console.files.recording import RecordingWriter
from console.services.hub import LogLine
from console.telemetry.alarms import Alarm
from console.telemetry.frames import Frame

# A night of eight nodes at one frame a second would be half a gigabyte; deaths are recorded at once in any case.
FRAME_EVERY_S: Final = 5.0
# Of each deployment's log so many last lines stand in a checkpoint: a screen of them, and some to scroll back.
TAIL_LINES: Final = 300
ALARMS: Final = 50


class _Log:
    """The end of a deployment's log, and how far each rank's has come."""

    def __init__(self) -> None:
        self.lines: deque[list[Any]] = deque(maxlen=TAIL_LINES)
        self.count = 0
        self.held: dict[int, tuple[int, float]] = {}

    def add(self, row: list[Any], now: float) -> None:
        rank, index = row[0], row[2]
        if index > self.held.get(rank, (-1, 0.0))[0]:
            self.held[rank] = (index, now)
            self.lines.append(row)
            self.count += 1

    def value(self) -> dict[str, Any]:
        held = {str(rank): list(last) for rank, last in self.held.items()}
        return {"lines": list(self.lines), "count": self.count - len(self.lines), "held": held}


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
        self._frames: dict[str, list[Any]] = {}
        self._trouble: dict[str, tuple[str, str]] = {}
        self._states: dict[str, BootState] = {}
        self._logs: dict[str, _Log] = {}
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
            self._frames[node] = [round(now - self._start, 3), frame.seq, dict(frame.data)]
        self._trouble.pop(node, None)

    def trouble(self, node: str, trouble: str, why: str) -> None:
        self._row("trouble", node, trouble, why)
        self._trouble[node] = (trouble, why)

    def event(self, deployment: str, event: Event, state: BootState | None = None) -> None:
        """state: the deployment's after the event."""
        self._row("event", deployment, encode_event(event))
        if state is not None:
            self._states[deployment] = state

    def lines(self, deployment: str, lines: Sequence[LogLine]) -> None:
        rows = [[line.rank, line.node, line.index, line.at, line.level, line.process, line.text] for line in lines]
        if rows:
            self._row("log", deployment, rows)
            log, now = self._logs.setdefault(deployment, _Log()), round(self._clock.monotonic() - self._start, 3)
            for row in rows:
                log.add(row, now)

    def _row(self, kind: str, *values: Any) -> None:
        if self._broken:
            return
        now = self._clock.monotonic()
        try:
            if self._writer.due(now):
                self._writer.checkpoint([round(now - self._start, 3), "checkpoint", self._checkpoint()], now)
            self._writer.write([round(now - self._start, 3), kind, *values], now)
        except NightdeckError as error:
            self._broken = True
            self._told(f"the recording ends here: {error}")

    def _checkpoint(self) -> dict[str, Any]:
        return {
            "frames": self._frames,
            "trouble": {node: pair for node, pair in self._trouble.items() if pair[0]},
            "states": [jsonable(state) for state in self._states.values()],
            "alarms": [jsonable(alarm) for alarm in self.alarms()[:ALARMS]],
            "log": {name: log.value() for name, log in self._logs.items()},
        }

    def close(self) -> None:
        try:
            self._writer.close()
        except NightdeckError as error:
            self._told(f"the recording may lack its end: {error}")
