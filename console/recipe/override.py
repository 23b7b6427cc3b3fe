"""A recipe with some flags and variables changed, as a night's step or a bisect asks for."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from console.base.secrets import MASK
from console.recipe.args import canonical, flags, is_flag
from console.recipe.model import DEFAULT_READY_TIMEOUT_S, Recipe
from console.recipe.write import recipe_toml

# Where a recipe's text names no ready_timeout_s, this variable gives the deadline (`console.recipe.reconcile`).
DEADLINE: Final = "VLLM_ENGINE_READY_TIMEOUT_S"


@dataclass(frozen=True, slots=True)
class Override:
    """flags: name -> its values as words (empty: a switch), or None to take the flag out. env: the same by name."""

    flags: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not self.flags and not self.env


def apply_override(recipe: Recipe, change: Override) -> Recipe:
    """The changed recipe; a flag that is there keeps its place, a new one comes last."""
    args = list(recipe.args)
    for name, values in change.flags.items():
        args = set_flag(args, name, values)
    env = {k: v for k, v in recipe.env.items() if change.env.get(k, v) is not None}
    env |= {k: v for k, v in change.env.items() if v is not None}
    return with_source(replace(recipe, args=tuple(args), env=env, ready_timeout_s=_deadline(recipe, env, change)))


def _deadline(recipe: Recipe, env: Mapping[str, str], change: Override) -> float:
    """The changed recipe's deadline: the variable that gave it gives the new one, where it is changed."""
    if DEADLINE not in change.env or recipe.ready_timeout_s != _seconds(recipe.env.get(DEADLINE)):
        return recipe.ready_timeout_s
    return _seconds(env.get(DEADLINE))


def _seconds(text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        return DEFAULT_READY_TIMEOUT_S
    return value if 0 < value < math.inf else DEFAULT_READY_TIMEOUT_S


def set_flag(args: Sequence[str], name: str, values: Sequence[str] | None) -> list[str]:
    """Arguments in which the flag stands once with these values, or not at all (None)."""
    want = canonical(name)
    found = flags(args)
    out: list[str] = []
    at = 0
    done = False
    for flag in found:
        if flag.name != want:
            continue
        end = flag.at + 1
        while end < len(args) and not is_flag(args[end]):
            end += 1
        out += args[at : flag.at]
        if values is not None and not done:
            out += [flag.written, *values]
            done = True
        at = end
    out += args[at:]
    if values is not None and not done:
        out += [name, *values]
    return out


def with_source(recipe: Recipe, comment: Sequence[str] = ()) -> Recipe:
    """The recipe with a text that says what its values are."""
    text = recipe_toml(recipe, comment=comment)
    return replace(recipe, source=text, digest=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest())


def unmasked(recipe: Recipe, clear: Recipe) -> tuple[Recipe, list[str]]:
    """A recipe out of the journal, whose secrets are masked, with those of `clear` (the file as it is now) put in.

    Returns what is still masked by name: such a recipe cannot be run."""
    env = {k: (clear.env.get(k, v) if v == MASK else v) for k, v in recipe.env.items()}
    args = list(recipe.args)
    now = {f.name: f.values for f in flags(clear.args)}
    for flag in flags(args):
        if any(v == MASK for v in flag.values) and flag.name in now:
            args = set_flag(args, flag.name, now[flag.name])
    left = [k for k, v in env.items() if v == MASK]
    left += [f.name for f in flags(args) if any(v == MASK for v in f.values)]
    return replace(recipe, env=env, args=tuple(args)), left
