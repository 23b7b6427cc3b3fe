"""From a night's file to what is run: every recipe read before the night begins, overrides written down as recipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from console.base.errors import NightdeckError, UsageError
from console.boot.night_model import Night, Rules, Run, expand
from console.files.atomic import write_whole
from console.files.night_queue import NightQueue
from console.files.night_store import NightStore, night_of
from console.recipe.args import canonical, flags
from console.recipe.model import Recipe
from console.recipe.override import Override, apply_override, with_source
from console.services.measure import MeasureSpec
from console.services.night import Plan


class GetRecipe(Protocol):
    def __call__(self, name: str) -> Recipe: ...


def set_up(queue: NightQueue, text: str, store: NightStore, get: GetRecipe, now: float) -> tuple[Night, Plan]:
    """A night's folder with the recipes of all its steps. Raises UsageError for the first recipe that cannot be read:
    at dusk, not at three in the morning."""
    for name in _names(queue):
        try:
            get(name)
        except NightdeckError as error:
            raise UsageError(f"{name}: {error}", where=queue.file) from error
    check_changes(queue, get)
    night = store.create(text, now)
    recipes = [_recipe(queue, i, store, night, get) for i in range(len(queue.steps))]
    runs = expand(queue.steps, recipes, queue.rules.baseline)
    spec = MeasureSpec(queue.concurrency, queue.repeats, queue.max_tokens)
    return Night(night), Plan(queue.name, queue.rules, runs, queue.override, spec)


def check_changes(queue: NightQueue, get: GetRecipe) -> None:
    """Raises UsageError for a step that takes out what its recipe does not have: it would measure the recipe itself."""
    for step in queue.steps:
        gone = [f"flag {name}" for name, values in step.flags.items() if values is None]
        gone += [f"env {name}" for name, value in step.env.items() if value is None]
        if not gone:
            continue
        recipe = get(step.recipe)
        has = {f"flag {canonical(f.name)}" for f in flags(recipe.args)} | {f"env {name}" for name in recipe.env}
        lacks = [g for g in gone if (f"flag {canonical(g[5:])}" if g.startswith("flag ") else g) not in has]
        if lacks:
            raise UsageError(f"{step.label}: {step.recipe} has no {', '.join(lacks)} to take out", where=queue.file)


def _names(queue: NightQueue) -> list[str]:
    names = [queue.rules.baseline, *(s.recipe for s in queue.steps), *(s.otherwise for s in queue.steps)]
    return [n for n in dict.fromkeys(names) if n]


def _recipe(queue: NightQueue, index: int, store: NightStore, night: str, get: GetRecipe) -> str:
    step = queue.steps[index]
    change = Override(step.flags, step.env)
    if change.empty:
        return step.recipe
    base = get(step.recipe)
    changed = apply_override(base, change)
    written = with_source(replace(changed, slug=base.slug), [f"{step.label}: {base.slug} with the changes of {night}"])
    path = store.recipe_file(night, index + 1, base.slug)
    write_whole(path, written.source.encode("utf-8", "replace"))
    return str(path)


def go_on(store: NightStore, night: str) -> tuple[Night, Plan]:
    """A night that a dead controller left, to be resumed. Raises UsageError where it is over, or damaged."""
    row = store.read(night)
    state, rules, runs = night_of(row)
    if str(state.phase) == "done":
        raise UsageError(f"the night {night} is over: {state.why}", remedy="`nightdeck report` tells of it")
    return state, _plan(row, rules, runs)


def _plan(row: dict[str, object], rules: Rules, runs: Sequence[Run]) -> Plan:
    found = row.get("measure")
    measure = found if isinstance(found, dict) else {}
    override = row.get("override")
    default = MeasureSpec()
    spec = MeasureSpec(
        tuple(int(n) for n in measure.get("concurrency") or default.concurrency),
        int(measure.get("repeats") or default.repeats),
        int(measure.get("max_tokens") or default.max_tokens),
    )
    codes = tuple(str(c) for c in override) if isinstance(override, list) else ()
    return Plan(str(row.get("name") or ""), rules, tuple(runs), codes, spec)
