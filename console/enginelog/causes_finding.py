"""A possible cause on the way to a diagnosis: where it was found, when, and how much it proves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from console.enginelog.causes_model import Cause
from console.enginelog.evidence import RankEvidence
from console.enginelog.signatures import advice
from console.enginelog.signatures_model import Signature, filled, said
from console.enginelog.stages_model import Cell, Stage

MAX_EVIDENCE: Final = 8


class Tier(IntEnum):
    """How much a finding proves. PROOF: an outside witness (the kernel, the container engine, a guard) or the log's own
    words. STATE: what a container or node is like, with no word why. SYMPTOM: true, but a consequence wherever another
    rank explains it. LOOSE: words on a line that nothing died of. VICTIM: it complains of another. WRAPPER: only that
    something failed."""

    WRAPPER = 0
    VICTIM = 1
    LOOSE = 2
    SYMPTOM = 3
    STATE = 4
    PROOF = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """moment: on the common clock, for order. at: epoch s, where a real date is known. index: 0-based line."""

    cls: str
    sentence: str
    action: str
    tier: Tier
    weight: int = 50
    rank: int | None = None
    node: str = ""
    stage: str | None = None
    file: str | None = None
    index: int | None = None
    moment: float | None = None
    at: float | None = None
    evidence: tuple[str, ...] = ()
    known: bool = True

    @property
    def order(self) -> tuple[float, int]:
        return (self.moment if self.moment is not None else float("inf"), self.index if self.index is not None else -1)

    def cause(self, victims: tuple[int, ...] = (), ranks: tuple[int, ...] = (), of: int | None = None) -> Cause:
        return Cause(
            self.cls,
            self.sentence,
            self.action,
            self.rank,
            self.node or None,
            self.stage,
            self.file if self.index is not None else None,
            self.index + 1 if self.index is not None else None,
            self.evidence[:MAX_EVIDENCE],
            victims,
            self.at,
            ranks if len(ranks) > 1 else (),
            of,
        )


def state_finding(
    where: RankEvidence,
    cls: str,
    sentence: str = "",
    *,
    action: str = "",
    tier: Tier = Tier.STATE,
    weight: int = 50,
    moment: float | None = None,
    evidence: tuple[str, ...] = (),
    stage: str | None = None,
) -> Finding:
    """A finding that no line of the log shows."""
    words, todo = advice(cls)
    return Finding(
        cls,
        sentence or words,
        action or todo,
        tier,
        weight,
        where.rank,
        where.node,
        stage if stage is not None else stage_reached(where),
        moment=moment,
        at=moment,
        evidence=evidence,
    )


def explained(signature: Signature, text: str) -> tuple[str, str]:
    """(sentence, action) of a signature with what it catches in a text."""
    return filled(signature.sentence, said(signature.pattern.search(text))), signature.action


def stage_of(cells: tuple[Cell, ...], index: int) -> str | None:
    """The stage that a line of the log stands in: the furthest one that was opened at or before it."""
    opened = [c.stage for c in cells if c.line is not None and c.line <= index]
    return max(opened).word if opened else None


def stage_reached(where: RankEvidence) -> str | None:
    opened: list[Stage] = [c.stage for c in where.cells if c.line is not None]
    return max(opened).word if opened else None
