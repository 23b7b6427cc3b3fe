"""What a signature of a failure is: a shape of words, and what it means."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """cause: says why. symptom: a cause unless another rank explains it. victim: complains of another rank's end.
    wrapper: says that something failed, not what. benign: looks like a fault and is none; nothing else on its line
    counts. hint: adds to other signs, alone too weak. recovered: an earlier complaint of its class, about what both
    call `who`, is over."""

    CAUSE = "cause"
    SYMPTOM = "symptom"
    VICTIM = "victim"
    WRAPPER = "wrapper"
    BENIGN = "benign"
    HINT = "hint"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True)
class Signature:
    """A shape by which a fault is known.

    keys: literal words one of which stands in every text that `pattern` finds: cheap to look for. pattern: searched,
    never anchored, and blind to file names and line numbers, which change with every build. sentence: for a person,
    with the pattern's named groups as `{name}`. weight: how much it explains; the greater of two on one failure names
    it. follow: lines after it from the same writer that belong to it. alone: a bare line of it, without a level and in
    no traceback, is the whole of what is said of a failure.
    """

    cls: str
    keys: tuple[str, ...]
    pattern: re.Pattern[str]
    sentence: str
    action: str
    kind: Kind = Kind.CAUSE
    weight: int = 50
    follow: int = 0
    stage: str | None = None
    name: str = field(default="", compare=False)
    alone: bool = False


def sig(
    cls: str,
    keys: str | tuple[str, ...],
    pattern: str,
    sentence: str = "",
    action: str = "",
    *,
    kind: Kind = Kind.CAUSE,
    weight: int = 50,
    follow: int = 0,
    stage: str | None = None,
    alone: bool = False,
) -> Signature:
    """A signature; an empty pattern is its keys themselves."""
    words = (keys,) if isinstance(keys, str) else keys
    shape = pattern or "|".join(re.escape(word) for word in words)
    return Signature(cls, words, re.compile(shape), sentence, action, kind, weight, follow, stage, alone=alone)


class _Said(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"


_SHOWN: Final = 160
_EMPTY: Final = re.compile(r" ?\([^()]{0,40}\?[^()]{0,40}\)")


def said(found: re.Match[str] | None) -> dict[str, str]:
    """What a pattern's named groups caught; `name2`, `name3` are other places of `name`. Bounded and stripped."""
    if found is None:
        return {}
    return {k.rstrip("0123456789"): v.strip()[:_SHOWN] for k, v in found.groupdict().items() if v and v.strip()}


def filled(sentence: str, values: dict[str, str]) -> str:
    """The sentence with what the pattern caught; text of the log stays text, whatever braces it holds."""
    return _EMPTY.sub("", sentence.format_map(_Said(values)))
