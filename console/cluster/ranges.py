"""Names of many nodes in one: `dgx[1-8]`, `dgx[01-08]`, `dgx[1,3,5]`."""

from __future__ import annotations

import itertools
import re
from typing import Final

MOST_NAMES: Final = 512
_PIECE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class RangeError(ValueError):
    """A range that cannot be read; the message says why."""


def expand(pattern: str) -> list[str]:
    """All names that a pattern stands for, in order; a name without brackets is itself.

    Several brackets multiply: `rack[1-2]-dgx[1-4]`. Leading zeros set the width: `[01-08]`.
    Raises RangeError for brackets that do not pair, a range that runs backwards, or more than 512 names.
    """
    parts: list[list[str]] = []
    rest = pattern
    while rest:
        head, bracket, tail = rest.partition("[")
        if "]" in head:
            raise RangeError("has a ] without a [")
        parts.append([head])
        if not bracket:
            break
        inner, closing, rest = tail.partition("]")
        if not closing:
            raise RangeError("has a [ that is not closed")
        parts.append(_numbers(inner))
        count = 1
        for part in parts:
            count *= len(part)
        if count > MOST_NAMES:
            raise RangeError(f"stands for more than {MOST_NAMES} names")
    return ["".join(combination) for combination in itertools.product(*parts)] if parts else [""]


def _numbers(inner: str) -> list[str]:
    out: list[str] = []
    for piece in inner.split(","):
        match = _PIECE.fullmatch(piece.strip())
        if match is None:
            raise RangeError(f'has "{piece[:40]}" in brackets, where a number or a range such as 1-8 belongs')
        first, last = match.group(1), match.group(2) or match.group(1)
        low, high = int(first), int(last)
        if high < low:
            raise RangeError(f"runs backwards: {first}-{last}")
        if high - low >= MOST_NAMES or len(out) >= MOST_NAMES:
            raise RangeError(f"stands for more than {MOST_NAMES} names")
        width = len(first) if first.startswith("0") else 0
        out.extend(str(n).zfill(width) for n in range(low, high + 1))
    return out
