"""A value that is not known, with the reason why: never 0, never an empty string."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeGuard, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Absent:
    """An unknown value. `reason` is short text for a person ("nvidia-smi says [N/A]")."""

    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "n/a"


NOT_SAMPLED: Final = Absent("not sampled yet")


def known(value: T | Absent) -> TypeGuard[T]:
    """True when the value is there."""
    return not isinstance(value, Absent)


def or_none(value: T | Absent) -> T | None:
    """The value, or None where it is absent: for JSON, beside `why(value)`."""
    return None if isinstance(value, Absent) else value


def why(value: object) -> str | None:
    """The reason of an absence, or None for a value that is there."""
    return value.reason if isinstance(value, Absent) else None
