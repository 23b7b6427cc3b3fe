"""Why a boot failed, as a value: what the logs, the states and the launch add up to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a boot failed. cls: a name of the vocabulary of classes. file/line point at the evidence where there is a
    log line (line: 1-based), else None. victims: ranks that fell because of it."""

    cls: str
    sentence: str
    action: str
    rank: int | None = None
    node: str | None = None
    stage: str | None = None
    file: str | None = None
    line: int | None = None
    evidence: tuple[str, ...] = ()
    victims: tuple[int, ...] = ()
    at: float | None = None


class Verdict(StrEnum):
    """incomplete: no sign of failure, and none that the boot came to its end: a log that goes on, or was cut."""

    FAILED = "failed"
    HUNG = "hung"
    HEALTHY = "healthy"
    SERVING_BAD = "serving_bad"
    INCOMPLETE = "incomplete"

    @property
    def good(self) -> bool:
        return self in (Verdict.HEALTHY, Verdict.INCOMPLETE)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """others: further findings, most telling first."""

    verdict: Verdict
    cause: Cause | None = None
    others: tuple[Cause, ...] = ()


def cause_row(cause: Cause) -> dict[str, Any]:
    """A cause as `--json` gives it everywhere."""
    return {
        "class": cause.cls,
        "sentence": cause.sentence,
        "action": cause.action,
        "rank": cause.rank,
        "node": cause.node,
        "file": cause.file,
        "line": cause.line,
        "stage": cause.stage,
        "evidence": list(cause.evidence),
        "victims": list(cause.victims),
    }
