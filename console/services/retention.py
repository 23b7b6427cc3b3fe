"""Which boots go when there are too many: never one that runs, never one that somebody noted or starred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from console.files.boot_index import Listed

# What the sizes are taken of: a boot's folder of some MB does not change once it is over.
RULE: Final = (
    "the oldest go first until both limits hold; a boot that runs, and one with a note or a star, stays whatever the "
    "limits say"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """keep: boots at most (0: any number). keep_bytes: bytes of all folders at most (0: any). marked_too: noted and
    starred boots may go as well (the operator asked for it)."""

    keep: int = 0
    keep_bytes: int = 0
    marked_too: bool = False


def is_marked(row: Listed) -> bool:
    return bool(row.marks.note or row.marks.starred or row.entry.summary.get("note"))


def to_remove(newest_first: Sequence[Listed], limits: Limits, size: Callable[[Listed], int]) -> list[Listed]:
    """The boots that go, oldest first. Every boot counts towards the limits, also one that may not go."""
    going: list[Listed] = []
    count = len(newest_first)
    sizes = {row.entry.id: size(row) for row in newest_first} if limits.keep_bytes else {}
    total = sum(sizes.values())
    for row in reversed(newest_first):
        too_many = bool(limits.keep) and count > limits.keep
        too_large = bool(limits.keep_bytes) and total > limits.keep_bytes
        if not (too_many or too_large):
            break
        if row.entry.live or (is_marked(row) and not limits.marked_too):
            continue
        going.append(row)
        count -= 1
        total -= sizes.get(row.entry.id, 0)
    return going
