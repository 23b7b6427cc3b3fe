"""Boots and recipes by the names that an operator gives them, as records that can be compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from console.base.errors import NightdeckError, UsageError
from console.base.text import clean_line
from console.boot.compare import Comparison, Record, compare
from console.files.archive import read_json, read_lines
from console.files.boot_index import BootIndex, Listed
from console.recipe.mask import masked_source
from console.recipe.model import Recipe

MEASURE = "measure.json"


def record_of(listed: Listed) -> Record:
    """What is kept of a boot. Never raises for a file that is damaged: it is then not there."""
    path = listed.entry.path
    note = "; ".join(n for n in (str(listed.entry.summary.get("note") or ""), listed.marks.note) if n)
    return Record(
        id=listed.entry.id,
        number=listed.entry.number,
        recipe_slug=listed.entry.recipe,
        summary={**listed.entry.summary, "note": note},
        recipe=recipe_as_run(path, listed.entry.recipe),
        plan=read_json(path / "plan.json") or {},
        facts=read_json(path / "facts.json") or {},
        measure=read_json(path / MEASURE) or {},
        memory=memory_curve(path, listed.entry.summary.get("started_at") or listed.entry.opened_at),
    )


def memory_curve(path: Path, started: object) -> tuple[tuple[float, float], ...]:
    """(seconds since the launch, bytes) of a boot's kept telemetry: the least that any node had available in each
    window. Empty where none is kept, or it cannot be read. started: epoch seconds."""
    if isinstance(started, bool) or not isinstance(started, (int, float)):
        return ()
    least: dict[float, float] = {}
    try:
        for row in read_lines(path / "telemetry.jsonl"):
            at, pair = row.get("at"), row.get("mem_available")
            if not isinstance(at, (int, float)) or not isinstance(pair, list) or not pair:
                continue
            if isinstance(pair[0], (int, float)) and pair[0] < least.get(at - started, math.inf):
                least[at - started] = float(pair[0])
    except NightdeckError:
        return ()
    return tuple(sorted((max(0.0, at), value) for at, value in least.items()))


def recipe_as_run(path: Path, slug: str) -> Recipe | None:
    """The recipe in a boot's folder, secrets masked; None where it is not kept or cannot be read."""
    from console.recipe.parse import parse_recipe  # pydantic's models: not for a boot that is only named

    file = path / "recipe.toml"
    try:
        return parse_recipe(file.read_text("utf-8", "replace"), slug=slug, file=str(file))
    except (OSError, NightdeckError):
        return None


def record_of_recipe(recipe: Recipe) -> Record:
    """A recipe's file as it is now, as a record that has not run."""
    from console.recipe.parse import parse_recipe

    masked = parse_recipe(masked_source(recipe), slug=recipe.slug, file=recipe.file)
    return Record("", 0, recipe.slug, {}, masked)


def find_pair(index: BootIndex, recipes: Sequence[Recipe], names: Sequence[str]) -> tuple[Record, Record]:
    """Two records for what was named. Raises UsageError.

    Two names: boots by number, id, `last` or `served`, or recipes by name (the file as it is now).
    One name: a recipe against its last boot; a boot against the last one before it that served.
    None: the last boot against the last one before it that served."""
    if len(names) > 2:
        raise UsageError("at most two boots or recipes can be compared")
    if len(names) == 2:
        return _one(index, recipes, names[0]), _one(index, recipes, names[1])
    name = names[0] if names else "last"
    recipe = next((r for r in recipes if r.slug == name), None)
    if recipe is not None:
        last = next((b for b in index.boots() if b.entry.recipe == recipe.slug), None)
        if last is None:
            raise UsageError(f"the recipe {name} has no boot in the ledger yet")
        return record_of(last), record_of_recipe(recipe)
    boot = index.find(name)
    before = served_before(index, boot)
    if before is None:
        raise UsageError(f"no boot before {boot.entry.number} has served", remedy="name two: `nightdeck diff A B`")
    return record_of(before), record_of(boot)


def served_before(index: BootIndex, boot: Listed) -> Listed | None:
    """The newest boot before this one that came to ready: of the same recipe if there is one."""
    older = [
        b for b in index.boots() if b.entry.number < boot.entry.number and b.entry.summary.get("ready_s") is not None
    ]
    return next((b for b in older if b.entry.recipe == boot.entry.recipe), older[0] if older else None)


def _one(index: BootIndex, recipes: Sequence[Recipe], name: str) -> Record:
    recipe = next((r for r in recipes if r.slug == name), None)
    if recipe is not None:
        return record_of_recipe(recipe)
    try:
        return record_of(index.find(name))
    except UsageError as error:
        known = ", ".join(r.slug for r in recipes) or "none"
        raise UsageError(
            f"{clean_line(name, limit=80)} is no boot and no recipe", remedy=f"{error.remedy}; recipes: {known}"
        ) from error


def compared(index: BootIndex, recipes: Sequence[Recipe], names: Sequence[str]) -> Comparison:
    return compare(*find_pair(index, recipes, names))
