"""Shell words without a shell: quotes and backslashes are read, nothing is ever expanded."""

from __future__ import annotations

import json
import re
from typing import Final

_SPACE: Final = " \t\r\n"
# What a shell would act on; here it stays text, so the operator is told.
_SHELL: Final = re.compile(r"\$[A-Za-z_({]|`|^(?:[|;&]{1,2}|[0-9]?[<>]{1,2}&?[0-9]?)$|;$")


class WordError(ValueError):
    """A fragment that is no shell word; `offset` is where the open quote stands, in characters."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


def split_words(text: str) -> list[str]:
    """The words of a fragment of a POSIX shell command line, all other text literal.

    `$`, backquotes, globs, `~`, `;`, `|` and `#` have no meaning. Raises WordError for a quote that is not closed,
    a backslash at the end, or a NUL (no argument can hold one).
    """
    if (nul := text.find("\0")) >= 0:
        raise WordError("holds a NUL, which no argument can carry", nul)
    words: list[str] = []
    word: list[str] | None = None
    at = 0
    while at < len(text):
        char = text[at]
        if char in _SPACE:
            if word is not None:
                words.append("".join(word))
                word = None
            at += 1
            continue
        if char == "\\":
            if at + 1 == len(text):
                raise WordError("ends with a backslash that escapes nothing", at)
            if text[at + 1] != "\n":  # a backslash before a line's end joins two lines
                word = word if word is not None else []
                word.append(text[at + 1])
            at += 2
            continue
        word = word if word is not None else []
        if char == "'":
            end = text.find("'", at + 1)
            if end < 0:
                raise WordError("a single quote (') is not closed", at)
            word.append(text[at + 1 : end])
            at = end + 1
        elif char == '"':
            at = _double(text, at, word)
        else:
            word.append(char)
            at += 1
    if word is not None:
        words.append("".join(word))
    return words


def _double(text: str, start: int, word: list[str]) -> int:
    at = start + 1
    while at < len(text):
        char = text[at]
        if char == '"':
            return at + 1
        if char == "\\" and at + 1 < len(text) and text[at + 1] in '$`"\\\n':
            if text[at + 1] != "\n":
                word.append(text[at + 1])
            at += 2
        else:
            word.append(char)
            at += 1
    raise WordError('a double quote (") is not closed', start)


def is_json(text: str) -> bool:
    """True for a JSON object or list."""
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: brackets by the thousand
        return False
    return True


def read_entry(text: str) -> list[str]:
    """The words of one entry of `args`: JSON without shell quotes is one word as it stands, else shell words.

    Raises WordError as `split_words` does.
    """
    stripped = text.strip(_SPACE)
    if "\0" not in stripped and is_json(stripped):
        return [stripped]
    return split_words(text)


def shell_meaning(text: str) -> str | None:
    """The first piece outside single quotes that a shell would act on (`$HOME`, `|`), or None."""
    outside = re.sub(r"'[^']*'", "", text)
    for piece in outside.split():
        if _SHELL.search(piece):
            return piece
    return None
