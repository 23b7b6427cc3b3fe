"""What the guards of deployments did, in lines: what stands in `rankR.guard` beside a rank's log, and back from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from console.base.absent import Absent
from console.base.text import clean_line
from console.base.units import GIB, gib
from console.boot.to_json import stamp
from console.services.guard import marker_text
from console.telemetry.sample import Guard, GuardTrip

MOST: Final = 4096
_NOT_KEPT: Final = Absent("not kept of this boot")
_LINE: Final = re.compile(r"(?P<at>\d{4}-\d\d-\d\dT[\d:.]{8,16}Z) the guard on (?P<node>\S{1,200}) (?P<rest>.{1,600})")
_RUNS: Final = re.compile(
    r"runs: floor (?P<floor>[\d.]{1,12}) GiB while (?P<stage>\w{1,20}) \((?P<why>.{0,200}?)\), "
    r"lowest so far (?P<lowest>n/a|[\d.]{1,12})(?: GiB)?(?:, but (?P<but>.{1,300}))?"
)
_ENDED: Final = re.compile(r"has ended: (?P<ended>.{1,300}), lowest so far (?P<lowest>n/a|[\d.]{1,12})(?: GiB)?")
_TRIPPED: Final = re.compile(
    r"TRIPPED: the memory guard on \S{1,200} killed rank \d{1,6} (?P<how>.{1,600}?): "
    r"(?P<left>[\d.]{1,12}) GiB available, floor while (?P<stage>\w{0,20}) (?P<floor>[\d.]{1,12}) GiB"
)


class GuardLog:
    """Turns what each frame says of a guard into a line where something about it changed."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, int], tuple[object, ...]] = {}

    def news(self, node: str, guard: Guard, now: float) -> str:
        """Lines with the console's time in front, "" where all is as before; a trip has its marker's lines."""
        key = (node, guard.deployment, guard.rank)
        before = self._told.get(key)
        tripped = guard.trip is not None
        state = (guard.running, guard.stage, guard.floor_bytes, guard.why, guard.ended, tripped)
        if before == state:
            return ""
        if before is None and len(self._told) >= MOST:
            self._told.pop(next(iter(self._told)))
        self._told[key] = state
        lines = []
        if guard.trip is not None and not (before and before[-1]):
            lines.append(marker_text(guard.trip, guard.rank, node))
        lines.append(f"{stamp(now)} the guard on {node} {_words(guard)}")
        return "\n".join(lines) + "\n"


def _words(guard: Guard) -> str:
    lowest = f", lowest so far {gib(guard.lowest_bytes, digits=2)}"
    if guard.running:
        trouble = f", but {guard.why}" if guard.why else ""
        text = (
            f"runs: floor {gib(guard.floor_bytes, digits=2)} while {guard.stage} ({guard.stage_why}){lowest}{trouble}"
        )
    else:
        text = f"has ended: {guard.ended or 'it was killed'}{lowest}"
    return clean_line(text, limit=500)


def read_guard_log(text: str, deployment: str, rank: int) -> Iterator[tuple[float, str, Guard]]:
    """(epoch seconds, node, the guard as it was told then) for each change that a kept file tells; what it does not
    keep is absent, and a line that is no such line is passed over."""
    trip: GuardTrip | None = None
    tripped: re.Match[str] | None = None
    floor, stage = 0.0, ""
    for line in text.splitlines():
        if found := _TRIPPED.search(line):
            tripped = found
            continue
        match = _LINE.fullmatch(line)
        at = _moment(match["at"]) if match is not None else None
        if match is None or at is None:
            continue
        if tripped is not None and trip is None:
            trip = _trip(tripped, at)
        runs, ended = _RUNS.fullmatch(match["rest"]), _ENDED.fullmatch(match["rest"])
        said = runs or ended
        if said is None:
            continue
        if runs is not None:
            floor, stage = _bytes(runs["floor"]), runs["stage"]
        lowest = said["lowest"]
        yield (
            at,
            match["node"],
            Guard(
                deployment,
                rank,
                running=runs is not None,
                since=_NOT_KEPT,
                at=at,
                stage=stage,
                stage_why=runs["why"] if runs is not None else "",
                floor_bytes=int(floor) if stage else _NOT_KEPT,
                available_bytes=_NOT_KEPT,
                # Of a guard that runs on, the lowest by this line is soon out of date; of one that ended it is final.
                lowest_bytes=_NOT_KEPT if runs is not None or lowest == "n/a" else int(_bytes(lowest)),
                oom_score_adj=_NOT_KEPT,
                locked=False,
                why=(runs["but"] or "") if runs is not None else "",
                ended=ended["ended"] if ended is not None else "",
                trip=trip,
            ),
        )


_HOW: Final = {"through the container engine": "engine", "by a signal": "signal", "by the command line": "command"}


def _trip(found: re.Match[str], at: float) -> GuardTrip:
    floor, left = int(_bytes(found["floor"])), int(_bytes(found["left"]))
    return GuardTrip(at, found["stage"], floor, left, _HOW.get(found["how"], ""))


def _bytes(text: str) -> float:
    """GiB as written by `gib`; 0 for what no number is."""
    try:
        return float(text) * GIB
    except ValueError:
        return 0.0


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None
