"""Which boots go when there are too many: never one that runs, never one that somebody noted or starred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from console.files.boot_index import Listed

RULE: Final = (
    "the oldest go first until both limits hold; a boot that runs, and one with a note or a star, stays and does not "
    "count; the newest never goes"
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
    """The boots that go, oldest first. What may not go does not count, or a shelf of starred boots would cost the last
    night's; the newest boot never goes."""
    free = [r for r in newest_first if not r.entry.live and (limits.marked_too or not is_marked(r))]
    count = len(free)
    sizes = {r.entry.id: size(r) for r in free} if limits.keep_bytes else {}
    total = sum(sizes.values())
    going: list[Listed] = []
    for row in reversed(free):
        too_many = bool(limits.keep) and count > limits.keep
        too_large = bool(limits.keep_bytes) and total > limits.keep_bytes
        if row is newest_first[0] or not (too_many or too_large):
            break
        going.append(row)
        count -= 1
        total -= sizes.get(row.entry.id, 0)
    return going
