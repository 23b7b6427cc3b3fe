"""Patterns that look away from which digits, and how many, stand in a text: they find all that the exact ones find."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"(?P<open>\(\?(?:P<\w+>|:))|(?P<atom>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[\d.])"
    r"(?:(?P<count>\{\d*,?\d*\}|[*+?])(?P<how>[?+]?))?|(?P<counted>\{\d*,?\d*\}[?+]?)|(?P<never>\(\?|\^)"
)
_IN_CLASS: Final = re.compile(r"\\.|(?P<range>[^\\]-[^\]\\])|\d")
_OPENS: Final = re.compile(r"\(\?(?:P<\w+>|:)$")
_RUN: Final = re.compile("[0-9]+")
# Escapes that any digit matches, and those that say nothing of digits.
_TAKES: Final = frozenset("dwS")
_PLAIN: Final = frozenset("DWsbZnrtfv")


def collapsed(text: str) -> str:
    """The text with one zero for each run of digits."""
    return _RUN.sub("0", text)


def any_digits(pattern: str) -> str:
    """The pattern with any digits, and also none, for digits: where it finds something in a text, the result finds
    something in the collapsed text.

    Raises ValueError for what cannot be loosened: looking around, anchors at the start, references back."""
    return _TOKEN.sub(_loosened, pattern)


def takes_digits(pattern: str) -> bool:
    """Whether a part of the pattern may match digits: else it finds the same whatever the digits are."""
    return any(_takes(found["atom"]) for found in _TOKEN.finditer(pattern) if found["atom"])


def _loosened(found: re.Match[str]) -> str:
    atom, count = found["atom"], found["count"] or ""
    if found["never"]:
        raise ValueError(f"cannot be loosened: {found[0]} in {found.string}")
    if atom is None:
        return found[0]
    if not _takes(atom):
        return atom + count + (found["how"] or "").replace("+", "")
    if atom.isdigit():
        atom = r"\d"
    elif atom[0] == "[":
        atom = _loosened_class(atom)
    least = _alone(found)
    if count.startswith("{"):
        most = count[1:-1].rpartition(",")[2]
        count = f"{{{int(least and not count.startswith(('{0', '{,')))},{most}}}"
    elif not least:
        count = "*" if count in ("*", "+") else "?"
    return atom + count + ("?" if found["how"] == "?" else "")


def _alone(found: re.Match[str]) -> bool:
    """Whether what stands beside an atom must match, and matches no digit: then at least one is left for the atom."""
    text, start, end = found.string, *found.span()
    before, after = text[:start], text[end : end + 3]
    if before and before[-1] != "|":
        if _OPENS.search(before):
            return False
        if before[-2:-1] == "\\":
            if before[-1] in _TAKES or before[-3:-2] == "\\":
                return False
        elif before[-1] in ").]}*+?(^$" or before[-1].isdigit():
            return False
    if not after or after[0] == "|":
        return True
    escaped = after[0] == "\\"
    beside, then = (after[1:2], after[2:3]) if escaped else (after[0], after[1:2])
    may = beside in _TAKES if escaped else beside in ".[()^$*+?" or beside.isdigit()
    return not may and then not in ("*", "?", "{")


def _takes(atom: str) -> bool:
    if atom[0] == "\\":
        if atom[1].isalnum() and atom[1] not in _TAKES | _PLAIN:
            raise ValueError(f"cannot be loosened: {atom}")
        return atom[1] in _TAKES
    if atom[0] != "[":
        return True
    if atom[1] == "^":
        return not any(all_of in atom for all_of in ("0-9", r"\d", r"\w"))
    return any(all_of in atom for all_of in (r"\d", r"\w", r"\S")) or any(
        _digit_in(p) for p in _IN_CLASS.finditer(atom)
    )


def _digit_in(part: re.Match[str]) -> bool:
    if part[0][0] == "\\":
        if part[0][1] in "xuUN":
            raise ValueError(f"cannot be loosened: {part.string}")
        return False
    return part[0][0] <= "9" and part[0][-1] >= "0"


def _loosened_class(atom: str) -> str:
    if atom[1] == "^":
        return r"[\s\S]" if any(_digit_in(part) for part in _IN_CLASS.finditer(atom)) else atom
    return "[" + _IN_CLASS.sub(lambda part: r"\d" if _of_digits(part) else part[0], atom[1:-1]) + "]"


def _of_digits(part: re.Match[str]) -> bool:
    """Whether a part of a class is a digit, or a range of them; a wider range keeps what it has."""
    if not _digit_in(part):
        return False
    if part["range"] and not (part[0][0].isdigit() and part[0][2].isdigit()):
        if part[0][0] > "0" or part[0][2] < "9":
            raise ValueError(f"cannot be loosened: {part[0]}")
        return False
    return True
