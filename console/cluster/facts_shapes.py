"""Readers of a report's values: each gives the value or raises `Odd`, for a value of the wrong shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from console.base.absent import Absent
from console.base.text import clean_line

T = TypeVar("T")

MAX_ITEMS: Final = 70_000  # a node has at most 65,535 ports; nothing else in the report is longer
_MAX_INT: Final = 1 << 62


class Odd(Exception):
    """A value of the wrong shape."""


def text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise Odd("not text")
    return clean_line(value, limit=1000)


def truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise Odd("not true or false")
    return value


def count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX_INT:
        raise Odd("not a count")
    return value


def number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Odd("not a number")
    try:
        number = float(value)
    except OverflowError:
        raise Odd("too large") from None
    if not math.isfinite(number):
        raise Odd("not finite")
    return number


def items(value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise Odd("not a list")
    return value


def texts(value: object) -> tuple[str, ...]:
    return tuple(text(v) for v in items(value))


def table(value: object, read: Callable[[Any], T]) -> dict[str, T]:
    if not isinstance(value, dict) or len(value) > MAX_ITEMS:
        raise Odd("not a table")
    return {text(k): read(v) for k, v in value.items()}


def row(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Odd("not a table")
    return value


def or_absent(row: Mapping[str, Any], key: str, read: Callable[[Any], T], reason: str) -> T | Absent:
    value = row.get(key)
    if value is None:
        return Absent(reason)
    try:
        return read(value)
    except Odd as odd:
        return Absent(f"unreadable: {odd}")
