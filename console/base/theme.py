"""A theme as plain values: what a theme file holds after it was checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ThemeColours:
    """A theme. colours: Textual's own (`primary`, `background`, ...); status/stage/log/chart: ours, each complete,
    all as `#rrggbb`. Keys of status: fresh late lost ok warn bad idle; of stage: pending active done failed inferred
    laggard; of log: error warning info debug time rank progress search; of chart: memory shmem gpu power network
    temperature grid."""

    name: str
    dark: bool
    colours: Mapping[str, str]
    status: Mapping[str, str] = field(default_factory=dict)
    stage: Mapping[str, str] = field(default_factory=dict)
    log: Mapping[str, str] = field(default_factory=dict)
    chart: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
