"""Why a boot failed, as a value: what the logs, the states and the launch add up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a boot failed. cls: a name of the vocabulary of classes. file/line point at the evidence where there is a
    log line (line: 1-based), else None. victims: ranks that fell because of it. ranks: where several say the same of
    themselves, all of those, none of whom is another's victim; `rank` is the first of them in time. of: how many ranks
    there are, where that is known."""

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
    ranks: tuple[int, ...] = ()
    of: int | None = None

    @property
    def who(self) -> str:
        """`rank 6 on dgx7`, `all 8 ranks, first rank 6 on dgx7`, or nothing where no rank is known."""
        return who_of(self.rank, self.node, self.ranks, self.of)


def who_of(rank: int | None, node: str | None, ranks: Sequence[int] = (), of: int | None = None) -> str:
    """`Cause.who`, also of one that was kept in a file."""
    first = "" if rank is None else f"rank {rank}" + (f" on {node}" if node else "")
    if len(ranks) < 2:
        return first
    return f"{f'all {of} ranks' if of == len(ranks) else f'ranks {runs(ranks)}'}, first {first}"


def runs(numbers: Iterable[int]) -> str:
    """`0, 2-7`."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in found)


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
        "ranks": list(cause.ranks or (() if cause.rank is None else (cause.rank,))),
        "of": cause.of,
    }
