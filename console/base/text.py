"""Bytes and text from nodes made safe to show: hostile until proven otherwise."""

from __future__ import annotations

import re
from typing import Final

# CSI, OSC (to BEL or ST), DCS/PM/APC strings, and two-byte escapes.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?|\x9b[0-?]*[ -/]*[@-~]"
)
# C0 but tab, DEL, C1, and the direction overrides that make text read as something else.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
CUT_MARK: Final = " …[cut]"


def strip_escapes(text: str) -> str:
    """Text without terminal escape sequences; other control characters stay."""
    return _ESCAPES.sub("", text) if "\x1b" in text or "\x9b" in text else text


def clean_line(text: str, *, limit: int = 2000) -> str:
    """One line safe to draw: no escapes, no control codes, tabs as spaces, cut at `limit` characters with a mark."""
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text  # nearly every line: nothing in it has to go
    if len(text) > limit * 8:
        text = text[: limit * 8]
    text = _CONTROL.sub("", strip_escapes(text).replace("\t", "    "))
    return text if len(text) <= limit else text[: limit - len(CUT_MARK)] + CUT_MARK


def decode(data: bytes) -> str:
    """Bytes as text, whatever the encoding: what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", errors="replace")


def clean_bytes(data: bytes, *, limit: int = 2000) -> str:
    """`clean_line` for bytes; reads no more than it may show."""
    return clean_line(decode(data[: limit * 16]), limit=limit)
