"""Lines that differ in their digits alone have one shape: it is read once, remembered, and applied to all of them."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from console.enginelog import lineformat as shape
from console.enginelog import phrases
from console.enginelog.conceal import SECRET_HINTS
from console.enginelog.digits import any_digit
from console.enginelog.pieces import SEARCH_LIMIT, headless
from console.enginelog.telltale import touches

# Every digit as a zero: two lines with one skeleton have every field in the same place.
DIGITS: Final = bytes(48 if 48 <= code < 58 else code for code in range(256))
LONGEST: Final = 4096
_MOST_BYTES: Final = 4 << 20


@cache
def _stages() -> tuple[re.Pattern[str], dict[str, re.Pattern[str]]]:
    """All phrases at once, and each: made at the first need, since most commands read no log."""
    each = {name: re.compile(any_digit(phrase)) for name, phrase in phrases.PHRASES.items()}
    return re.compile("|".join(found.pattern for found in each.values())), each


class Hints(NamedTuple):
    """What a text can say, whatever its digits are. phrases: names of `phrases` that stand in it, in their order.
    fault: it may matter to the causes by itself."""

    phrases: tuple[str, ...]
    fault: bool


def hints_of(text: str) -> Hints:
    """text: its digits replaced by zeros or not."""
    anything, each = _stages()
    names = (next(n for n, p in each.items() if p.fullmatch(found[0])) for found in anything.finditer(text))
    return Hints(tuple(dict.fromkeys(names)), touches(text))


class Plan(NamedTuple):
    """Where the fields of a line stand, as offsets; a negative offset: there is none. kind, level: as in `Record`.

    flags: whether a carriage return ends the line; whether its text may go on with the message before it, or begin a
    message of several lines; its hints."""

    stamped: bool
    paren: int
    paren_end: int
    stamp: int
    source: int
    source_end: int
    pid: int
    pid_end: int
    start: int
    end: int
    level: str | None
    kind: str
    flags: tuple[bool, bool, Hints]


class Plans:
    """Plans by skeleton, made at the second sight of one: a line that comes once is not worth it. Bounded."""

    def __init__(self) -> None:
        self.known: dict[bytes, Plan | None] = {}
        self._seen: set[bytes] = set()
        self._known_bytes = 0
        self._seen_bytes = 0

    def meet(self, skeleton: bytes) -> None:
        """A line without a plan was read the long way."""
        size = len(skeleton)
        if size > LONGEST or skeleton in self.known:
            return
        if skeleton not in self._seen:
            self._seen_bytes += size
            if self._seen_bytes > _MOST_BYTES:
                self._seen.clear()
                self._seen_bytes = size
            self._seen.add(skeleton)
            return
        self._known_bytes += size
        if self._known_bytes > _MOST_BYTES:
            self.known.clear()
            self._known_bytes = size
        self.known[skeleton] = plan_of(skeleton)


def plan_of(skeleton: bytes) -> Plan | None:
    """The plan of all lines with this skeleton; None for those that must be read the long way."""
    line = skeleton.decode("utf-8", "replace")
    if any(hint in line for hint in SECRET_HINTS):
        return None
    found = shape.STAMPED_LINE.match(line)
    if found is None:
        return None
    said, start = found[7], found.start(7)
    cr = said.endswith("\r")
    text = said[:-1] if cr else said
    bar = text[:1] == "\r" and found[4] is None
    if bar:
        text = text.lstrip("\r")
        start += len(said) - len(said.lstrip("\r"))
        if not shape.BAR.search(text[-SEARCH_LIMIT:]) or shape.LEVELS.search(text):
            return None
    level, kind, source, pid, stamp = found[4], "engine", found.span(6), (-1, -1), found.start(5)
    if not text.isprintable() or (level is not None and ".py:" in text and shape.HEAD.search(text)):
        return None
    if bar:
        kind = "progress"
    elif level is None:
        if text[:1] == "(" or " | " in text or (found[1] is None and text[10:11] == "T") or shape.HEAD.search(text):
            return None
        piece = headless(text, None, None)
        level, kind = piece[2], piece[6]
        skipped = len(text) - len(piece[0])
        if kind == "nccl" and (nccl := shape.NCCL.search(text, 0)):
            stamp = start + nccl.start(1) if nccl[1] else -1
            pid = (start + nccl.start(2), start + nccl.end(2))
            source = (start + nccl.start(3), start + nccl.end(3)) if nccl[3] else (-1, -1)
        elif kind not in ("raw", "uvicorn", "progress", "nccl"):
            return None
        start += skipped
        text = piece[0]
    return Plan(
        found[1] is not None,
        found.start(3),
        found.end(3),
        stamp,
        *source,
        *pid,
        start,
        start + len(text),
        level,
        kind,
        (cr, text[:1] in " T", hints_of(text)),
    )
