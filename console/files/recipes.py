"""The shelf of recipes: every good file, and every bad one as an error beside it."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from console.base.errors import FileError, UsageError
from console.base.text import clean_line
from console.base.toml_check import FileErrors, did_you_mean
from console.files.places import BUNDLED, Place, Places
from console.files.read import read_text
from console.recipe.model import Recipe
from console.recipe.parse import parse_recipe

RECIPE_FILE: Final = "recipe.toml"
_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,62}")


@dataclass(frozen=True, slots=True)
class RecipeShelf:
    """Recipes by name, sorted, and the errors of the files that are none. `failed` maps a name to its errors."""

    recipes: tuple[Recipe, ...]
    errors: tuple[FileError, ...]
    failed: dict[str, tuple[FileError, ...]]

    def get(self, slug: str) -> Recipe:
        """The recipe of this name. Raises FileErrors where its file is bad or its name stands twice, or UsageError."""
        for recipe in self.recipes:
            if recipe.slug == slug:
                return recipe
        if errors := self.failed.get(slug):
            raise FileErrors(errors)
        names = [r.slug for r in self.recipes]
        known = ", ".join(names) or "none"
        hint = did_you_mean(slug, [*names, *self.failed])
        raise UsageError(f'no recipe is called "{clean_line(slug, limit=80)}"; there are: {known}', remedy=hint)


# What was read of a file, while it is that file: the console reads its recipes again at many a key, and to parse one
# takes some milliseconds. Frozen values, so that they may be shared.
_Kept = tuple[tuple[int, ...], Recipe]
_kept: dict[tuple[str, str], _Kept] = {}
_MOST_KEPT: Final = 500
_SETTLED_S: Final = 3.0


def load_recipe(path: Path, *, slug: str | None = None) -> Recipe:
    """One file. Raises FileErrors (RecipeErrors for what stands in it)."""
    name = slug or path.parent.name
    stamp = _stamp(path)
    kept = _kept.get((str(path), name))
    if kept is not None and stamp is not None and kept[0] == stamp:
        return kept[1]
    try:
        text = read_text(path)
    except FileError as error:
        raise FileErrors([error]) from error
    recipe = parse_recipe(text, slug=name, file=str(path))
    if stamp is not None:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[str(path), name] = (stamp, recipe)
    return recipe


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What changes with a file's text; None where that is not certain: a file written a moment ago may be written once
    more within the clock's step, which is some milliseconds on some file systems and two seconds on others."""
    try:
        found = path.stat()
    except OSError:
        return None
    if time.time() - max(found.st_mtime, found.st_ctime) < _SETTLED_S:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def load_recipes(places: Places, extra_dir: Path | None = None) -> RecipeShelf:
    """All recipes of all places. Never raises for a bad file: its errors stand on the shelf beside the good ones.

    Two recipes of one name are an error that names both files, unless the later is bundled and says the same.
    """
    good: dict[str, list[tuple[Place, Recipe]]] = {}
    failed: dict[str, tuple[FileError, ...]] = {}
    loose: list[FileError] = []
    for place in places.recipe_folders(extra_dir):
        if place.label == "--recipes" and not place.folder.is_dir():
            loose.append(FileError("no such folder (given with --recipes)", file=str(place.folder)))
        for folder in _folders(place.folder, loose):
            path = folder / RECIPE_FILE
            if not path.exists() and not path.is_symlink():
                continue
            slug = folder.name
            if not _SLUG.fullmatch(slug):
                allowed = "up to 63 letters, digits, _ . -, and not . or - first"
                loose.append(FileError(f"the folder's name is the recipe's name; allowed: {allowed}", file=clean(path)))
                continue
            try:
                recipe = load_recipe(path)
            except FileErrors as bad:
                failed[slug] = (*failed.get(slug, ()), *bad.errors)
            else:
                good.setdefault(slug, []).append((place, recipe))
    recipes: list[Recipe] = []
    for slug, found in good.items():
        if (clash := _clash(found)) is not None:
            failed[slug] = (*failed.get(slug, ()), clash)
        elif slug not in failed:
            recipes.append(found[0][1])
        else:  # a bad file of the same name elsewhere: which one is meant is not clear
            first = failed[slug][0]
            failed[slug] = (*failed[slug], _both(slug, found[0][1].file, first.file))
    recipes.sort(key=lambda r: r.slug)
    errors = [*loose, *(e for slug in sorted(failed) for e in failed[slug])]
    return RecipeShelf(tuple(recipes), tuple(errors), failed)


def clean(path: Path) -> str:
    """A path as text that can be shown, whatever its name holds."""
    return clean_line(str(path).encode("utf-8", "replace").decode(), limit=400)


def _folders(place: Path, errors: list[FileError]) -> list[Path]:
    try:
        return sorted(p for p in place.iterdir() if p.is_dir() and not p.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        errors.append(FileError(f"cannot be read: {error.strerror or type(error).__name__}", file=str(place)))
        return []


def _clash(found: Sequence[tuple[Place, Recipe]]) -> FileError | None:
    place, first = found[0]
    for other_place, other in found[1:]:
        if other_place.label == BUNDLED and place.label != BUNDLED and _meaning(first) == _meaning(other):
            continue  # the operator's own copy of a bundled recipe
        return _both(first.slug, first.file, other.file)
    return None


def _both(slug: str, first: str, second: str) -> FileError:
    remedy = "rename one folder, or give the path of the one that is meant"
    return FileError(f'two recipes are called "{slug}": {first} and {second}', file=first, remedy=remedy)


def _meaning(recipe: Recipe) -> Recipe:
    return dataclasses.replace(recipe, file="", source="", digest="", findings=())
