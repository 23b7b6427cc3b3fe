"""What a text can say, whatever its digits are and however many: found once, and true of all texts of its shape."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from console.enginelog import phrases
from console.enginelog.digits import any_digits, collapsed
from console.enginelog.signatures import LONGEST, harmless, suspects
from console.enginelog.signatures_model import Signature
from console.enginelog.telltale import touches

_MOST_BYTES: Final = 4 << 20


class Hints(NamedTuple):
    """phrases: names of `phrases` that stand in it, in their order. ask: those of them that may not, after all. fault:
    it may matter to the causes by itself. signatures: no others can be in it."""

    phrases: tuple[str, ...]
    ask: tuple[str, ...]
    fault: bool
    signatures: tuple[Signature, ...]


@cache
def _stages() -> tuple[re.Pattern[str], dict[str, re.Pattern[str]]]:
    """All phrases at once, and each: made at the first need, since most commands read no log."""
    each = {name: re.compile(any_digits(phrase)) for name, phrase in phrases.PHRASES.items()}
    return re.compile("|".join(found.pattern for found in each.values())), each


def hints_of(text: str) -> Hints:
    """Hints of every text that differs from this one in its digits alone, and in how many there are together."""
    text = collapsed(text)
    anything, each = _stages()
    found = (next(n for n, p in each.items() if p.fullmatch(hit[0])) for hit in anything.finditer(text))
    names = tuple(dict.fromkeys(found))
    may = suspects(text)
    fault = (bool(may) and not harmless(text)) or touches(text)
    return Hints(names, tuple(name for name in names if name in phrases.COUNTING), fault, may)


class HintsMemo:
    """Hints by text, for texts whose digits are zeros. Bounded."""

    def __init__(self) -> None:
        self._known: dict[str, Hints] = {}
        self._bytes = 0

    def of(self, zeroed: str) -> Hints:
        text = zeroed
        while "00" in text:
            text = text.replace("0000", "0").replace("00", "0")
        found = self._known.get(text)
        if found is None:
            self._bytes += len(text) + 400
            if self._bytes > _MOST_BYTES:
                self._known.clear()
                self._bytes = len(text) + 400
            found = self._known[text] = hints_of(text)
        return found if len(zeroed) <= LONGEST else found._replace(fault=True)
