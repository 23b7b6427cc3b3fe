"""Pieces of a line that carry no head of the engine's own, and lines too long or too dirty to take as they are."""

from __future__ import annotations

from typing import Final

from console.base.text import clean_line
from console.enginelog import lineformat as shape

# A longer physical line keeps its start and its end, whatever its length: memory stays bounded.
LINE_HEAD: Final = 48 * 1024
LINE_TAIL: Final = 16 * 1024
LINE_LIMIT: Final = LINE_HEAD + LINE_TAIL
# Patterns that a hostile line could make slow look no further than this.
SEARCH_LIMIT: Final = 2048
_CUT: Final = " …[cut]… ".encode()
# (text, log_at, level, process, pid, source, kind)
Piece = tuple[str, float | None, str | None, str | None, int | None, str | None, str]


def headless(text: str, process: str | None, pid: int | None) -> Piece:
    """A piece without the engine's own head: NCCL, torch's C++ logging, uvicorn, a progress bar, or anything."""
    if "NCCL" in text:
        if found := shape.NCCL.search(text, 0, SEARCH_LIMIT):
            at = shape.log_seconds(found[1]) if found[1] else None
            return text[found.end() :], at, shape.LEVEL_OF[found[4]], process, int(found[2]), found[3], "nccl"
        if text.startswith("NCCL version"):
            return text, None, "INFO", process, pid, None, "nccl"
    if "%" in text and shape.BAR.search(text, max(0, len(text) - SEARCH_LIMIT)):
        return text, None, None, process, pid, None, "progress"
    if found := shape.UVICORN.match(text):
        return text[found.end() :], None, found[1], process, pid, None, "uvicorn"
    if text[:1] == "[":
        if found := shape.TORCH.match(text):
            letter, month, day, clock, fraction, source = found.groups()
            at = shape.log_seconds(f"{int(month):02d}-{day} {clock}")
            if at is not None and fraction:
                at += int(fraction) / 10 ** len(fraction)
            return text[found.end() :], at, shape.LEVEL_OF[letter], process, pid, source, "torch"
        if found := shape.SGLANG.match(text):
            owner = found[2].strip().replace(" ", "_") or process
            return text[found.end() :], shape.log_seconds(found[1]), None, owner, pid, None, "engine"
    if text.startswith(("frame #", "Exception raised from ")):
        return text, None, None, process, pid, None, "torch"
    level = "WARNING" if "Warning: " in text and shape.PYTHON_WARNING.search(text) else None
    return text, None, level, process, pid, None, "raw"


def clean(text: str) -> str:
    return text if text.isprintable() else clean_line(text, limit=LINE_LIMIT)


def bounded(line: bytes, dropped: bool) -> bytes:
    if not dropped and len(line) <= LINE_LIMIT:
        return line
    return line[:LINE_HEAD] + _CUT + line[-LINE_TAIL:]


def is_compose(text: str, end: int) -> bool:
    """Whether `name | ` is compose's prefix and not a table's cell: a numbered service, or a known head after it."""
    if shape.COMPOSE_NUMBERED.match(text) is not None:
        return True
    return any(p.match(text, end) is not None for p in (shape.HEAD, shape.PROCESS, shape.STAMP, shape.UVICORN))
