"""A plan as it may be shown: secrets masked, quoted so that it can be copied into a shell."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Mapping
from typing import Final

from console.base.secrets import mask_argv, mask_env, mask_text
from console.plan.flags import is_flag
from console.plan.model import Plan, RankPlan

_ESCAPES: Final = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def shown_argv(plan: Plan, rank: RankPlan) -> tuple[str, ...]:
    """What is executed, with secrets masked."""
    return tuple(mask_text(word, plan.secrets) for word in mask_argv(rank.argv))


def shown_engine_argv(plan: Plan, rank: RankPlan) -> tuple[str, ...]:
    """The engine's arguments, with secrets masked."""
    return tuple(mask_text(word, plan.secrets) for word in mask_argv(rank.engine_argv))


def shown_env(plan: Plan, rank: RankPlan) -> Mapping[str, str]:
    """The environment, with secrets masked."""
    return {name: mask_text(value, plan.secrets) for name, value in mask_env(rank.env).items()}


def shell_word(word: str) -> str:
    """One word as it can be copied: what would not be seen on a screen (a newline, a tab, an escape, a mark that turns
    the text round) stands as an escape in `$'...'`, which bash, zsh, ksh and POSIX of 2024 read as the word itself."""
    if word.isprintable() or not any(_unseen(c) for c in word):
        return shlex.quote(word)
    return "$'" + "".join(_escaped(c) for c in word) + "'"


def visible(text: str) -> str:
    """Text as it is; where it holds what a screen does not show, as `shell_word` writes it."""
    return shell_word(text) if any(_unseen(c) for c in text) else text


def _unseen(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs")


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    # Octal has a fixed length, so that no digit which follows is taken into it.
    return "".join(f"\\{b:03o}" for b in char.encode("utf-8", "surrogatepass")) if _unseen(char) else char


def command_lines(plan: Plan, rank: RankPlan) -> tuple[str, ...]:
    """One rank's command for a POSIX shell, a flag and its values on each line, lines joined by a backslash."""
    lines: list[list[str]] = []
    words = shown_argv(plan, rank)
    engine_at = len(words) - len(rank.engine_argv)
    image_at = max((i for i in range(engine_at) if words[i] == plan.image), default=engine_at)
    for i, word in enumerate(words):
        quoted = shell_word(word)
        if not lines or (i > 2 and is_flag(word)) or i in (image_at, engine_at):
            lines.append([quoted])
        else:
            lines[-1].append(quoted)
    texts = [" ".join(line) for line in lines]
    return tuple(
        ("" if i == 0 else "  ") + text + (" \\" if i + 1 < len(texts) else "") for i, text in enumerate(texts)
    )
