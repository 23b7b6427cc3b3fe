"""A log line as spans: time, rank, level and the words that matter, read only for lines on screen."""

from __future__ import annotations

import re
from typing import Final

from console.services.hub import LogLine
from console.tui.figures import hhmmss
from console.tui.glyphs import Glyphs
from console.tui.log_store import level_of
from console.tui.paint import rank_role
from console.tui.spans import Line, Span, clip, safe

CUT: Final = 2000
LEVEL_ROLES: Final = {0: "log-debug", 1: "text", 2: "log-warning", 3: "log-error", 4: "log-error bold"}
LEVEL_SIGNS: Final = {2: "W", 3: "E", 4: "E"}
# What an eye looks for in a boot's log: percentages, sizes, times.
TELLING: Final = re.compile(r"\b\d+(?:\.\d+)?\s?(?:%|GiB|GB|MiB|MB/s|GB/s|tok/s|seconds|it/s|s/it)|\b\d+/\d+\b")
# What the engine puts before its message: process, level, time, source; the gutter has said most of it.
HEADER: Final = re.compile(
    r"^(?:\([^)]{1,40}\)\s)?(?:INFO|DEBUG|WARNING|ERROR|CRITICAL)\s[\d\- :.]{8,20}\s\[[^\]]{1,60}\]\s"
)


def text_of(line: LogLine) -> str:
    """The line as copied or saved: time, rank, text."""
    return f"{hhmmss(line.at)} r{line.rank} {line.text}"


def gutter(line: LogLine, glyphs: Glyphs, mark: str = "") -> Line:
    """Time, rank and a sign for the level; `mark` names the stage that this line opened."""
    level = level_of(line)
    sign = LEVEL_SIGNS.get(level, " ")
    stamp: list[Span] = [(hhmmss(line.at) + " ", "log-time"), (f"r{line.rank:<2}", f"{rank_role(line.rank)} bold")]
    stamp.append((f"{sign} ", LEVEL_ROLES[level] + (" bold" if level > 1 else "")))
    if mark:
        stamp.append((f"{glyphs.active} {mark}  ", "active bold"))
    return tuple(stamp)


def body(line: LogLine, pattern: re.Pattern[str] | None, *, fold: bool = False) -> Line:
    """The text, cut at CUT characters; matches of a search stand out in reverse. fold: without the engine's header."""
    text = safe(line.text, limit=CUT)
    level = level_of(line)
    role = LEVEL_ROLES[level]
    head = HEADER.match(text)
    spans: list[Span] = []
    at = 0
    if head:
        if fold:
            text = text[head.end() :]
        else:
            spans.append((head.group(0), "dim"))
            at = head.end()
    if level < 2:
        for match in TELLING.finditer(text, at):
            spans += [(text[at : match.start()], role), (match.group(0), "log-progress")]
            at = match.end()
    spans.append((text[at:], role))
    if pattern is not None:
        spans = _marked(spans, text, pattern)
    return tuple(span for span in spans if span[0])


def _marked(spans: list[Span], text: str, pattern: re.Pattern[str]) -> list[Span]:
    hits = [m.span() for m in pattern.finditer(text) if m.end() > m.start()][:50]
    out: list[Span] = []
    at = 0
    for chunk, role in spans:
        end = at + len(chunk)
        cursor = at
        for start, stop in hits:
            lo, hi = max(start, cursor), min(stop, end)
            if lo >= hi:
                continue
            out += [(text[cursor:lo], role), (text[lo:hi], "log-search")]
            cursor = hi
        out.append((text[cursor:end], role))
        at = end
    return out


def wrapped(lead: Line, spans: Line, width: int) -> list[Line]:
    """The line over as many rows as it needs, continued under its text."""
    indent = sum(len(text) for text, _ in lead)
    room = max(10, width - indent)
    rows: list[Line] = []
    current: list[Span] = []
    left = room
    for text, role in spans:
        while text:
            piece = _cells(text, left)
            current.append((piece, role))
            left -= sum(1 for _ in piece) if piece.isascii() else _width(piece)
            text = text[len(piece) :]
            if text:
                rows.append(tuple(current))
                current, left = [], room
    rows.append(tuple(current))
    pad: Span = (" " * indent, "text")
    return [clip((*lead, *row) if i == 0 else (pad, *row), width) for i, row in enumerate(rows)]


def _cells(text: str, width: int) -> str:
    if text.isascii():
        return text[: max(1, width)]
    taken = 0
    for i, char in enumerate(text):
        taken += _width(char)
        if taken > width and i:
            return text[:i]
    return text


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
