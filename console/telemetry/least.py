"""The least memory of a cluster: which nodes count, whose value is old, and who is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from console.base.absent import Absent
from console.cluster.model import Node
from console.telemetry.sample import Float, Sample
from console.telemetry.trend import Lowest, lowest


class View(Protocol):
    """What a hub shows of a node, as far as it is asked here."""

    @property
    def node(self) -> Node: ...

    @property
    def state(self) -> str: ...

    @property
    def age_s(self) -> float | Absent: ...

    @property
    def sample(self) -> Sample | Absent: ...


def lowest_of(
    views: Iterable[View],
    empty: Mapping[str, Float] | None = None,
    slopes: Mapping[str, Float] | None = None,
) -> Lowest | None:
    """A late node counts with its last value, marked with its age, and without a trend. A lost one does not count: what
    it had is not what it has; nor one whose memory is not known. None where no node counts."""
    available: dict[str, int] = {}
    ages: dict[str, float] = {}
    left_out: list[str] = []
    for view in views:
        name = view.node.name
        left = view.sample if isinstance(view.sample, Absent) else view.sample.memory.available_bytes
        if isinstance(left, Absent) or view.state not in ("fresh", "late"):
            left_out.append(name)
            continue
        available[name] = left
        if view.state == "late":
            ages[name] = 0.0 if isinstance(view.age_s, Absent) else view.age_s
    fresh = {n: s for n, s in (empty or {}).items() if n not in ages}
    moves = {n: s for n, s in (slopes or {}).items() if n not in ages}
    return lowest(available, fresh, moves, ages=ages, not_counted=left_out)
