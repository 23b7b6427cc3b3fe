"""Is an answer sane text? The signs of garble that public bisects met, none of which /health shows."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

# Thresholds of published garble gates (night-trials 6.6): one word over 40 %, over 10 % of another script, loops.
_REPEAT_SHARE: Final = 0.40
_FOREIGN_SHARE: Final = 0.10
_LOOP: Final = re.compile(r"(.{12,}?)\1{3,}", re.DOTALL)
_RUN: Final = re.compile(r"(\S{1,6}?)\1{11,}")
_WORDS: Final = re.compile(r"\w+")
_MARKS: Final = re.compile(r"\S")
_FOREIGN: Final = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u0400-\u052f\u0600-\u06ff\u0900-\u0dff]")


def judge_text(text: str, *, prompt: str = "") -> str:
    """Empty when the text is sane, else what is wrong with it, as a short phrase for a person.

    Short answers get the benefit of the doubt: a share needs at least twelve words to mean anything."""
    body = text.strip()
    if not body:
        return "the answer is empty"
    if body.count("\ufffd") * 10 > len(body):
        return "the answer is mostly bytes that are no text"
    run = _RUN.search(body)
    if run is not None:
        return f"the answer repeats {run.group(1)[:12]!r} over and over"
    # Commas between numbers are no garble; a text of marks alone is told by its marks.
    words = _WORDS.findall(body.lower()) or _MARKS.findall(body)
    if len(words) >= 12:
        word, count = Counter(words).most_common(1)[0]
        if count > _REPEAT_SHARE * len(words):
            return f"one word, {word[:20]!r}, is {100 * count // len(words)} % of the answer"
    loop = _LOOP.search(body)
    if loop is not None:
        return f"the answer loops: {' '.join(loop.group(1).split())[:40]!r} four times and more"
    letters = [c for c in body if c.isalpha()]
    if len(letters) >= 20 and not _FOREIGN.search(prompt):
        foreign = sum(1 for c in letters if _FOREIGN.match(c))
        if foreign > _FOREIGN_SHARE * len(letters):
            return f"{100 * foreign // len(letters)} % of the letters are of another script than the question"
    return ""
