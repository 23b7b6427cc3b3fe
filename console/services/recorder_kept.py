"""What the rows of a recording come to so far, for a checkpoint: of each node, log and deployment the newest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from console.boot.state import BootState, RankState
from console.files.boot_folder import jsonable
from console.telemetry.alarms import Alarm

# Of each deployment's log so many last lines stand in a checkpoint: a screen of them, and some to scroll back.
TAIL_LINES: Final = 300
TAIL_CHARS: Final = 256 << 10
ALARMS: Final = 50
RANKS: Final = 32
Part = Callable[[], dict[str, Any]]


class _Log:
    """The end of a deployment's log, and how far each rank's has come."""

    def __init__(self) -> None:
        self.lines: deque[list[Any]] = deque()
        self.count = 0
        self.held: dict[int, tuple[int, float]] = {}
        self._chars = 0

    def add(self, row: list[Any], now: float) -> None:
        rank, index = row[0], row[2]
        if index <= self.held.get(rank, (-1, 0.0))[0]:
            return
        self.held[rank] = (index, now)
        self.lines.append(row)
        self.count += 1
        self._chars += len(row[6])
        while len(self.lines) > TAIL_LINES or (self._chars > TAIL_CHARS and len(self.lines) > 1):
            self._chars -= len(self.lines.popleft()[6])

    def value(self) -> dict[str, Any]:
        held = {str(rank): list(last) for rank, last in self.held.items()}
        return {"lines": list(self.lines), "count": self.count - len(self.lines), "held": held}


class Kept:
    """Of the deployments that ended only the newest is kept: what is shown begins with it or with a live one."""

    def __init__(self) -> None:
        self._frames: dict[str, list[Any]] = {}
        self._trouble: dict[str, tuple[str, str]] = {}
        self._states: dict[str, BootState] = {}
        self._logs: dict[str, _Log] = {}
        self._left: set[str] = set()

    def frame(self, node: str, row: list[Any]) -> None:
        """row: [seconds since the start, number, frame]; it is not changed any more."""
        self._frames[node] = row

    def trouble(self, node: str, trouble: str, why: str) -> None:
        """trouble: empty where there is none any more."""
        if trouble:
            self._trouble[node] = (trouble, why)
        else:
            self._trouble.pop(node, None)

    def state(self, state: BootState) -> None:
        self._states[state.deployment] = state
        self._left.discard(state.deployment)
        ended = sorted((s for s in self._states.values() if s.phase.over), key=lambda s: s.launched_at)
        for old in ended[:-1]:
            del self._states[old.deployment]
            self._logs.pop(old.deployment, None)
            self._left.add(old.deployment)

    def lines(self, deployment: str, rows: Sequence[list[Any]], now: float) -> None:
        """rows: [rank, node, index, at, level, process, text]. now: seconds since the start."""
        if deployment in self._left:
            return
        log = self._logs.setdefault(deployment, _Log())
        for row in rows:
            log.add(row, now)

    def parts(self, alarms: Sequence[Alarm]) -> list[Part]:
        """The checkpoint of this moment, of which each part is made when it is asked for: some milliseconds each.

        Logs come before the deployments, and of these first the one that is shown, so that nothing is shown twice."""
        states = sorted(self._states.values(), key=lambda s: (s.phase.over, -s.launched_at))
        trouble, some = dict(self._trouble), tuple(alarms[:ALARMS])
        logs = {name: log.value() for name, log in self._logs.items()}
        return [
            lambda: {"trouble": trouble},
            *(_part("log", name, log) for name, log in logs.items()),
            *(_part("frames", node, row) for node, row in self._frames.items()),
            lambda: {"alarms": [jsonable(alarm) for alarm in some]},
            *(part for state in states for part in _state(state)),
        ]


def _part(kind: str, name: str, value: Any) -> Part:
    return lambda: {kind: {name: value}}


def _state(state: BootState) -> Iterator[Part]:
    """A deployment, its ranks apart where they are many: a hundred of them take longer than the loop may stand."""
    ranks = state.ranks
    if len(ranks) <= RANKS:
        yield lambda: {"states": [jsonable(state)]}
        return
    yield lambda: {"states": [jsonable(replace(state, ranks=()))]}
    for at in range(0, len(ranks), RANKS):
        yield _ranks(state.deployment, ranks[at : at + RANKS])


def _ranks(deployment: str, ranks: tuple[RankState, ...]) -> Part:
    return lambda: {"ranks": {deployment: [jsonable(rank) for rank in ranks]}}
