"""The image as a step of a launch: where it comes from, and how far it is on each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from console.base.absent import Absent
from console.base.units import rate_text, size_text
from console.cluster.facts import NodeFacts
from console.plan.model import Plan
from console.plan.references import found_id
from console.services.image_sync import NodeImage

TELL_EVERY: Final = 10  # percent: each is an event of the journal


class CopyStep:
    """Told of every change of a copy; tells on what belongs in the journal: (node, state, detail)."""

    def __init__(self, tell: Callable[[str, str, str], None]) -> None:
        self._tell = tell
        self._told: dict[str, tuple[str, int]] = {}

    def told(self, row: NodeImage) -> None:
        share = self.percent(row) // TELL_EVERY
        if self._told.get(row.node) == (row.state, share):
            return
        self._told[row.node] = (row.state, share)
        if row.good:
            size = f"{size_text(row.moved_bytes)} from {row.via}" if row.via else row.state.replace("_", " ")
            self._tell(row.node, "done", size)
        elif row.state in ("waiting", "copying", "verifying"):
            detail = row.state
            if row.state == "copying" and row.moved_bytes:
                detail = f"{self.share(row)} from {row.via} at {rate_text(row.rate)}"
            self._tell(row.node, "running", detail)
        else:
            self._tell(row.node, "unknown" if row.state == "unknown" else "failed", row.detail)

    def ended(self, why: str) -> None:
        """The copies under way end without a word of their own."""
        for node, (state, _) in self._told.items():
            if state in ("waiting", "copying", "verifying"):
                self._tell(node, "failed", why)

    @classmethod
    def share(cls, row: NodeImage) -> str:
        """How far it is, in words."""
        return f"{cls.percent(row)} %" if row.total_bytes else size_text(row.moved_bytes)

    @staticmethod
    def percent(row: NodeImage) -> int:
        """0-99; `docker save` writes a little more than the engine's figure of an image's size."""
        return min(99, 100 * row.moved_bytes // row.total_bytes) if row.total_bytes else 0


def image_source(plan: Plan, facts: Mapping[str, NodeFacts | Absent], lacking: Sequence[str]) -> str | None:
    """A node whose image counts: of what most nodes of this launch have; None where none of them has it."""
    there: dict[str, str] = {}
    for rank in plan.ranks:
        fact = facts.get(rank.node)
        if isinstance(fact, NodeFacts) and rank.node not in lacking and (found := found_id(plan.image, fact)):
            there[rank.node] = found
    if not there:
        return None
    most = Counter(there.values()).most_common(1)[0][0]
    return next(node for node, image in there.items() if image == most)
