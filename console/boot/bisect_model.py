"""Which of several changes broke a recipe: halves of them at a time, as values alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from console.base.errors import UsageError
from console.recipe.args import flags, positionals
from console.recipe.model import Recipe
from console.recipe.override import set_flag

# Fields that are one change each, whatever stands in them.
_FIELDS: Final = (
    "engine", "docker_image", "docker_image_dir", "model", "required_nodes", "tensor_parallel_size",
    "pipeline_parallel_size", "distributed_backend", "shm_size", "entrypoint", "port", "master_port",
    "ready_timeout_s", "gpus", "mounts", "memory", "nodes", "smoke", "extra",
)  # fmt: skip
# What the engine is asked to be in parallel must agree with the number of nodes: they change together.
_TOGETHER: Final = frozenset({"required_nodes", "tensor_parallel_size", "pipeline_parallel_size", "nodes"})


@dataclass(frozen=True, slots=True)
class Bisect:
    """A search. units: all changes from good to bad, by name. base: those proven harmless so far. left: those among
    which the culprit is. trying: those of `left` that the present trial has, on top of `base`. one_by_one: a single
    change at a time, for when a boot is cheap and halves break for reasons of their own."""

    good: str
    bad: str
    units: tuple[str, ...]
    base: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    trying: tuple[str, ...] = ()
    history: tuple[tuple[str, tuple[str, ...]], ...] = ()
    one_by_one: bool = False

    @property
    def culprit(self) -> str | None:
        """The change that is to blame, once one is left: with all that is in `base`, it breaks the recipe."""
        return self.left[0] if len(self.left) == 1 else None

    @property
    def steps_left(self) -> int:
        """Trials that are needed yet, at most."""
        n = len(self.left)
        return max(0, n - 1 if self.one_by_one else (n - 1).bit_length())


def begin(good: str, bad: str, units: Sequence[str], *, one_by_one: bool = False) -> Bisect:
    """Raises UsageError where nothing differs."""
    if not units:
        raise UsageError("nothing differs between the two recipes, so there is nothing to search")
    return _next(Bisect(good, bad, tuple(units), left=tuple(units), one_by_one=one_by_one))


def answer(search: Bisect, verdict: str) -> Bisect:
    """verdict: `good` or `bad`, of the recipe with `base` and `trying`. Raises UsageError when the search is over."""
    if search.culprit is not None:
        raise UsageError(f"the search is over: it is {search.culprit}", remedy="`nightdeck bisect reset`")
    history = (*search.history, (verdict, search.trying))
    if verdict == "bad":
        left = search.trying
        return _next(replace(search, left=left, history=history))
    left = tuple(u for u in search.left if u not in search.trying)
    return _next(replace(search, base=(*search.base, *search.trying), left=left, history=history))


def _next(search: Bisect) -> Bisect:
    half = 1 if search.one_by_one else len(search.left) // 2
    return replace(search, trying=search.left[:half] if len(search.left) > 1 else ())


def changes_between(good: Recipe, bad: Recipe) -> list[str]:
    """The changes from good to bad, one name each: `engine`, `flag --max-num-seqs`, `env NCCL_DEBUG`."""
    found: list[str] = []
    together = False
    for name in _FIELDS:
        if getattr(good, name) != getattr(bad, name):
            if name in _TOGETHER:
                together = True
            else:
                found.append(name)
    if together:
        found.append("nodes and parallel sizes")
    if positionals(good.args) != positionals(bad.args):
        found.append("arguments before the flags")
    before, after = _values(good), _values(bad)
    found += [f"flag {n}" for n in dict.fromkeys([*before, *after]) if before.get(n) != after.get(n)]
    names = dict.fromkeys([*good.env, *bad.env])
    found += [f"env {n}" for n in names if good.env.get(n) != bad.env.get(n)]
    return found


def between(good: Recipe, bad: Recipe, units: Sequence[str]) -> Recipe:
    """`good` with these changes taken from `bad`."""
    out = good
    for unit in units:
        kind, _, name = unit.partition(" ")
        if unit == "nodes and parallel sizes":
            out = replace(out, **{f: getattr(bad, f) for f in sorted(_TOGETHER)})
        elif unit == "arguments before the flags":
            rest = out.args[len(positionals(out.args)) :]
            out = replace(out, args=(*positionals(bad.args), *rest))
        elif kind == "flag":
            out = replace(out, args=_take_flag(out.args, bad.args, name))
        elif kind == "env":
            env: dict[str, Any] = {k: v for k, v in out.env.items() if k != name}
            out = replace(out, env={**env, **({name: bad.env[name]} if name in bad.env else {})})
        else:
            out = replace(out, **{unit: getattr(bad, unit)})
    return out


def _take_flag(args: Sequence[str], bad: Sequence[str], name: str) -> tuple[str, ...]:
    given = [f for f in flags(bad) if f.name == name]
    if not given:
        return tuple(set_flag(args, name, None))
    out = set_flag(args, name, given[0].values)
    for more in given[1:]:  # a flag that may stand several times
        out += [more.written, *more.values]
    return tuple(out)


def _values(recipe: Recipe) -> dict[str, list[tuple[str, ...]]]:
    out: dict[str, list[tuple[str, ...]]] = {}
    for flag in flags(recipe.args):
        out.setdefault(flag.name, []).append(flag.values)
    return out
