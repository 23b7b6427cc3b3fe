"""The one place where an argv becomes a command line; the far login shell only ever sees quoted words after `exec`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from console.base.errors import UsageError

# Linux gives one argument 128 KiB (MAX_ARG_STRLEN), and sshd hands the whole line to the login shell as one argument.
MAX_LINE_BYTES: Final = 120 * 1024
# No value of a recipe that may be secret is so long as a rule; what is kept is in memory as long as the console is.
PROGRAM_LENGTH: Final = 1000


def quote(word: str) -> str:
    """One word that every POSIX shell, and fish, reads as itself.

    `shlex.quote` alone is not enough: fish takes `\\\\` and `\\'` inside single quotes as escapes, so a backslash
    stands in double quotes."""
    return _program(word) if len(word) >= PROGRAM_LENGTH else _quoted(word)


@lru_cache(maxsize=64)
def _program(word: str) -> str:
    """Programs are few, long, and sent to every node: quoting one takes a third of a millisecond."""
    return _quoted(word)


def _quoted(word: str) -> str:
    if "\\" not in word:
        return shlex.quote(word)
    return "".join('"\\\\"' if part == "\\" else shlex.quote(part) for part in _around_backslashes(word))


def _around_backslashes(word: str) -> list[str]:
    parts: list[str] = []
    for i, part in enumerate(word.split("\\")):
        if i:
            parts.append("\\")
        if part:
            parts.append(part)
    return parts


def command_line(argv: Sequence[str]) -> str:
    """`exec word word ...` for the far login shell. Raises UsageError: empty, NUL, not UTF-8, longer than 120 KiB."""
    if not argv or not argv[0]:
        raise UsageError("an empty command cannot be run")
    for word in argv:
        if "\0" in word:
            raise UsageError("a command's word holds a NUL byte", remedy="remove the NUL byte from the value")
    line = "exec " + " ".join(quote(word) for word in argv)
    try:
        size = len(line.encode("utf-8"))
    except UnicodeEncodeError:
        raise UsageError("a command's word is not text that UTF-8 can carry") from None
    if size > MAX_LINE_BYTES:
        raise UsageError(
            f"a command line of {size} bytes is longer than a node takes ({MAX_LINE_BYTES})",
            remedy="send long text on the command's standard input",
        )
    return line
