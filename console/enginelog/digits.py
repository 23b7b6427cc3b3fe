"""Patterns that look away from which digits stand in a text: they find all that the exact ones find, and more."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(r"\\.|\(\?P[<=]\w+[>)]|\{[\d,]+\}|\[\^?\]?(?:\\.|[^\]\\])*\]|\d")
_IN_CLASS: Final = re.compile(r"\\.|\d-\d|\d")
_DIGIT: Final = re.compile(r"\d")


def zeroed(text: str) -> str:
    """The text with a zero for each digit."""
    return _DIGIT.sub("0", text)


def any_digit(pattern: str) -> str:
    """The pattern with any digit for each digit that it names: what it finds, the result finds in the zeroed text.

    Raises ValueError for a negative look around: what that shuts out would grow."""
    if "(?!" in pattern or "(?<!" in pattern:
        raise ValueError(f"looks around: {pattern}")
    return _TOKEN.sub(_relaxed, pattern)


def _relaxed(found: re.Match[str]) -> str:
    token = found[0]
    if token.isdigit():
        return r"\d"
    if token[0] != "[" or not _DIGIT.search(token.replace(r"\d", "")):
        return token
    if token[1] == "^":
        return token if "0-9" in token else r"[\s\S]"
    return "[" + _IN_CLASS.sub(lambda part: part[0] if part[0][0] == "\\" else r"\d", token[1:-1]) + "]"
