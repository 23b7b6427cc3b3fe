"""Values taken out of a node's JSON and text with care: the wrong shape is an absence, never an error."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from console.base.absent import Absent
from console.base.text import clean_line
from console.telemetry.sample import Float, Int, Text

_NOTHING: Final[Mapping[str, Any]] = {}
# More than any counter of a real machine: a number beyond it is noise, and would not fit what is computed from it.
_HUGE: Final = 1 << 64
# What a program prints for a number. Python reads more than that: `1_000`, digits of other scripts, `infinity`.
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,24}(?:\.\d{0,24})?|\.\d{1,24})(?:[eE][+-]?\d{1,3})?", re.ASCII)


def table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object inside an object; an empty one where there is none."""
    value = data.get(key)
    return value if isinstance(value, dict) else _NOTHING


def rows(data: Mapping[str, Any], key: str = "rows") -> list[Any]:
    value = data.get(key)
    return value[:512] if isinstance(value, list) else []


def text(value: object, *, limit: int = 300) -> str:
    """A string safe to show; "" for anything else."""
    if not isinstance(value, str):
        return ""
    # JSON may hold half of a surrogate pair, which no terminal and no file can be given.
    return clean_line(value[: limit * 8].encode("utf-8", "replace").decode("utf-8"), limit=limit)


def raw(data: Mapping[str, Any], key: str) -> str:
    """Text of several lines, as the node sent it."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """A finite number out of a JSON number or a decimal string."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and (len(value) > 60 or not _NUMBER.fullmatch(value.strip())):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and abs(found) <= _HUGE else None


def whole(value: object) -> int | None:
    """A whole number out of a JSON number or a decimal string; exact beyond 2**53."""
    if isinstance(value, str):
        value = value.strip()
        if not value.removeprefix("-").isdecimal() or not value.isascii() or len(value) > 20:
            return None
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) <= _HUGE else None


def amount(value: object) -> float | None:
    """A number that is not below 0."""
    found = number(value)
    return None if found is None or found < 0 else found


def count(value: object) -> int | None:
    """A whole number that is not below 0: sizes, counters, identifiers."""
    found = whole(value)
    return None if found is None or found < 0 else found


def amount_or(value: object, why: str) -> Float:
    found = amount(value)
    return Absent(why) if found is None else found


def count_or(value: object, why: str) -> Int:
    found = count(value)
    return Absent(why) if found is None else found


def whole_or(value: object, why: str) -> Int:
    found = whole(value)
    return Absent(why) if found is None else found


def number_or(value: object, why: str) -> Float:
    found = number(value)
    return Absent(why) if found is None else found


def text_or(value: object, why: str) -> Text:
    return text(value) or Absent(why)


FIRST: Final = Absent("a rate needs two samples")


def rate(before: Int | None, now: Int, seconds: float) -> Float:
    """Growth of a counter per second. A counter that went back (reset, wrap, reboot) gives an absence, not a rate."""
    grown = growth(before, now)
    if isinstance(grown, Absent):
        return grown
    if seconds <= 0:
        return Absent("no time passed between two samples")
    return grown / seconds


def growth(before: Int | None, now: Int) -> Int:
    """How far a counter grew since the sample before."""
    if isinstance(now, Absent):
        return now
    if before is None or isinstance(before, Absent):
        return FIRST
    return Absent("the counter went back") if now < before else now - before
