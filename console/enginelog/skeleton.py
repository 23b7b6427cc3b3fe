"""Lines that differ in their digits alone have one shape: it is read once, remembered, and applied to all of them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from console.enginelog import lineformat as shape
from console.enginelog.conceal import SECRET_HINTS
from console.enginelog.hints import Hints, HintsMemo
from console.enginelog.pieces import SEARCH_LIMIT, clean, headless, is_compose
from console.enginelog.record import NOWHERE, TEXT_LIMIT, Span, Spans
from console.enginelog.telltale import TRACEBACK

# Every digit as a zero: two lines with one skeleton have every field in the same place.
DIGITS: Final = bytes(48 if 48 <= code < 58 else code for code in range(256))
LONGEST: Final = 16 * 1024
# From here on a line may hold stamps in its middle; see `longway`.
LONG_TEXT: Final = 4096
_MOST_FAMILY_BYTES: Final = 4 << 20
_MOST_PLAN_BYTES: Final = 16 << 20
# What a plan weighs besides its skeleton, and a family besides its bytes, about.
_PLAN_BYTES: Final = 900
_FAMILY_BYTES: Final = 100
# Bits of the flow: the text is indented and so goes on with the message before it; it begins a traceback; a carriage
# return ends the line.
INDENTED, TRACE, CR = 1, 2, 4


class Piece(NamedTuple):
    """One record of a line. more: it goes on with the message before it, whatever that was."""

    start: int
    end: int
    level: str | None
    kind: str
    hints: Hints
    spans: Spans
    more: bool = False


class Plan(NamedTuple):
    """How a line is read. cleaned: offsets are those of the cleaned line; tabs: for which it is enough to replace
    them."""

    stamped: bool
    cr: bool
    cleaned: bool
    tabs: bool
    pieces: tuple[Piece, ...]


# A piece as the reader's loop takes it: (stamped, timed, where the writer begins and ends if it will be asked for,
# where the text begins and ends, level, kind, hints, flow, spans).
Row = tuple[bool, bool, int, int, int, int, str | None, str, Hints, int, Spans]


class Manifold(NamedTuple):
    """A plan whose line must be cleaned first, or has several records; pieces: their rows, and whether each goes on
    with the message before it, whatever that was."""

    plan: Plan
    rows: tuple[tuple[Row, bool], ...]


def row_of(plan: Plan, piece: Piece, text: str, last: bool) -> Row:
    """text: what the piece says."""
    spans = piece.spans
    parts = [part for part in (spans.process, spans.pid, spans.ip) if part[0] >= 0]
    if parts:
        spans = spans._replace(who=(min(parts)[0], max(part[1] for part in parts)))
    timed = spans.stamp >= 0 or spans.odd[0] >= 0
    flow = INDENTED * (text[:1] == " ") | TRACE * text.startswith(TRACEBACK) | CR * (plan.cr and last)
    said = (piece.start, piece.end, piece.level, piece.kind, piece.hints)
    telling = piece.kind != "nccl" and (piece.hints.phrases or piece.hints.fault)
    return (plan.stamped, timed, *(spans.who if telling else NOWHERE), *said, flow, spans)


def rows_of(plan: Plan, line: str, skeleton: bytes) -> Row | Manifold:
    """line: the skeleton as text, cleaned where the plan says so. Offsets of a lone row are those of the bytes."""
    last = len(plan.pieces) - 1
    rows = [row_of(plan, p, line[p.start : p.end], n == last) for n, p in enumerate(plan.pieces)]
    if last or plan.cleaned or plan.pieces[0].more or (plan.stamped and not line[:30].isascii()):
        return Manifold(plan, tuple((row, piece.more) for row, piece in zip(rows, plan.pieces, strict=True)))
    if skeleton.isascii():
        return rows[0]
    try:
        skeleton.decode()
    except UnicodeDecodeError:
        return Manifold(plan, ((rows[0], False),))
    return _in_bytes(rows[0], line)


def _in_bytes(row: Row, line: str) -> Row:
    """The row with offsets into the line's bytes."""

    def at(offset: int) -> int:
        return len(line[:offset].encode()) if offset > 0 else offset

    stamped, timed, who, who_end, start, end, level, kind, hints, flow, spans = row
    moved = Spans(*(tuple(map(at, part)) if isinstance(part, tuple) else at(part) for part in spans))  # type: ignore[arg-type]
    return (stamped, timed, at(who), at(who_end), at(start), at(end), level, kind, hints, flow, moved)


class Plans:
    """Plans by skeleton. A shape is learnt when a second line has it, whatever its digits and how many; from then on
    lines with other numbers of digits cost a fraction of the long way. Bounded."""

    def __init__(self) -> None:
        self.known: dict[bytes, Row | Manifold | None] = {}
        self._families: set[bytes] = set()
        self._memo = HintsMemo()
        self._known_bytes = 0
        self._seen_bytes = 0

    def meet(self, skeleton: bytes) -> Row | Manifold | None:
        """A row for a line that has none in `known`; None: it goes the long way."""
        size = len(skeleton)
        if size > LONGEST or skeleton in self.known:
            return None
        family = skeleton.replace(b"0000", b"0").replace(b"000", b"0").replace(b"00", b"0")
        if family not in self._families:
            self._seen_bytes += len(family) + _FAMILY_BYTES
            if self._seen_bytes > _MOST_FAMILY_BYTES:
                self._families.clear()
                self._seen_bytes = len(family) + _FAMILY_BYTES
            self._families.add(family)
            return None
        self._known_bytes += size + _PLAN_BYTES
        if self._known_bytes > _MOST_PLAN_BYTES:
            self.known.clear()
            self._known_bytes = size + _PLAN_BYTES
        line = skeleton.decode("utf-8", "replace")
        plan = plan_of(line, self._memo)
        row = None if plan is None else rows_of(plan, clean(line.rstrip("\r")) if plan.cleaned else line, skeleton)
        self.known[skeleton] = row
        return row


def plan_of(line: str, memo: HintsMemo) -> Plan | None:
    """The plan of all lines with this skeleton; None for those that must be read the long way."""
    if any(hint in line for hint in SECRET_HINTS):
        return None
    body = line.rstrip("\r")
    cr = len(body) < len(line)
    found = shape.STAMPED_LINE.match(body)
    assert found is not None  # every part of the shape may be missing
    said, level, stamped = found[7], found[4], found[1] is not None
    if "\r" in body:
        return _bar(body, found, cr, memo) if level is None and said[:1] == "\r" else None
    if not said.isprintable():
        cleaned = clean(body)
        return _odd(cleaned, cr, memo, cleaned=True, tabs=cleaned == body.replace("\t", "    "))
    if len(said) > LONG_TEXT:
        return None
    if level is not None:
        if ".py:" in said and shape.HEAD.search(said):
            return _odd(body, cr, memo)
        spans = Spans(*_writer(found.span(3), body), found.start(5), found.span(6))
        return Plan(stamped, cr, False, False, (Piece(*found.span(7), level, "engine", memo.of(said), spans),))
    if said[:1] == "(" or ".py:" in said or " | " in said or (not stamped and said[10:11] == "T"):
        return _odd(body, cr, memo)
    spans = Spans(*_writer(found.span(3), body))
    return Plan(stamped, cr, False, False, (_headless(body, *found.span(7), spans, memo),))


def _writer(paren: Span, line: str) -> tuple[Span, Span]:
    """Where in `(Worker_TP3 pid=324)` name and number stand."""
    begin, end = paren
    if begin < 0:
        return NOWHERE, NOWHERE
    middle = line.rindex(" pid=", begin, end)
    return (begin + 1, middle), (middle + 5, end - 1)


def _bar(body: str, found: re.Match[str], cr: bool, memo: HintsMemo) -> Plan | None:
    """A progress bar alone on its line, in one state or in several."""
    said, begin = found[7], found.start(7)
    if not said.replace("\r", "").isprintable() or shape.LEVELS.search(said):
        return None
    steps = []
    for step in said.split("\r"):
        if step and not step.isspace():
            steps.append((begin, begin + len(step)))
        begin += len(step) + 1
    if not steps:
        return None
    text = body[slice(*steps[-1])]
    if len(text) > TEXT_LIMIT or not shape.BAR.search(text[-SEARCH_LIMIT:]):
        return None
    stamped = found[1] is not None
    spans = Spans(*_writer(found.span(3), body), steps=(found.start(7), steps[-1][0]) if len(steps) > 1 else NOWHERE)
    return Plan(stamped, cr, False, False, (Piece(*steps[-1], None, "progress", memo.of(text), spans),))


def _odd(body: str, cr: bool, memo: HintsMemo, *, cleaned: bool = False, tabs: bool = False) -> Plan | None:
    """A clean line that is not just head and message: several prefixes, several messages; see `longway`."""
    at, stamped, process, pid, ip = 0, False, NOWHERE, NOWHERE, NOWHERE
    for _ in range(5):
        text = body[at:]
        if found := shape.PROCESS.match(text):
            process, pid, ip = ((at + a, at + b) if a >= 0 else NOWHERE for a, b in map(found.span, (1, 2, 3)))
        elif text[10:11] == "T" and shape.STAMP.match(text):
            # Other shapes of a stamp, and one that stands elsewhere, are rare.
            found = shape.STAMPED.match(text) if at == 0 else None
            if found is None:
                return None
            stamped = True
        elif not (found := shape.COMPOSE.match(text)) or not is_compose(text, found.end()):
            break
        at += found.end()
    else:
        return None
    if len(body) - at > LONG_TEXT or (cleaned and not body[at:].strip()):
        return None
    pieces = []
    while True:
        head = shape.HEAD.search(body, at)
        end = len(body) if head is None else head.start()
        if head is None or body[at:end].strip():
            pieces.append(_headless(body, at, end, Spans(process, pid, ip=ip), memo))
        if head is None:
            break
        if head[1] is not None:
            process, pid, ip = head.span(1), head.span(2), NOWHERE
        following = shape.HEAD.search(body, head.end())
        at = len(body) if following is None else following.start()
        spans = Spans(process, pid, head.start(4), head.span(5), ip=ip)
        pieces.append(Piece(head.end(), at, head[3], "engine", memo.of(body[head.end() : at]), spans))
        if following is None:
            break
    return Plan(stamped, cr, cleaned, tabs, tuple(pieces))


def _headless(body: str, begin: int, end: int, spans: Spans, memo: HintsMemo) -> Piece:
    """The piece of a text without the engine's own head."""
    text = body[begin:end]
    said, _, level, _, _, source, kind = headless(text, None, None)
    start = end - len(said)
    if kind == "nccl" and (nccl := shape.NCCL.search(text, 0, SEARCH_LIMIT)):
        spans = spans._replace(
            pid=(begin + nccl.start(2), begin + nccl.end(2)),
            stamp=begin + nccl.start(1) if nccl[1] else -1,
            source=(begin + nccl.start(3), begin + nccl.end(3)) if nccl[3] else NOWHERE,
        )
    elif kind == "engine" and (sglang := shape.SGLANG.match(text)):
        owner = (begin + sglang.start(2), begin + sglang.end(2)) if sglang[2] else spans.process
        spans = spans._replace(process=owner, odd=(begin, start), ip=NOWHERE if sglang[2] else spans.ip)
    elif source is not None:
        spans = spans._replace(odd=(begin, start))
    return Piece(start, end, level, kind, memo.of(said), spans, kind == "torch" and source is None)
