"""Recipes and themes from the folders of this machine, and the logs that are saved there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from console.base.errors import FileError
from console.files.places import Places

if TYPE_CHECKING:
    from console.base.theme import ThemeColours
    from console.files.recipes import RecipeShelf
    from console.recipe.model import Recipe
    from console.services.hub import RecipeProblem


class DiskShelf:
    """`Shelf` over the folders of this machine."""

    def __init__(self, places: Places, extra: Path | None) -> None:
        self._places = places
        self._extra = extra

    def _read(self) -> RecipeShelf:
        from console.files.recipes import load_recipes

        return load_recipes(self._places, self._extra)

    def load(self) -> tuple[Sequence[Recipe], Sequence[RecipeProblem]]:
        shelf = self._read()
        return shelf.recipes, tuple(_problem(e) for e in shelf.errors)

    def get(self, name: str) -> Recipe:
        path = Path(name)
        if name.endswith(".toml") or os.sep in name:
            from console.files.recipes import load_recipe

            return load_recipe(path / "recipe.toml" if path.is_dir() else path)
        return self._read().get(name)

    def themes(self) -> Sequence[ThemeColours]:
        from console.files.themes import load_themes

        return load_themes(self._places).themes

    def write_log(self, name: str, text: str) -> str:
        folder = self._places.state / "logs"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / Path(name).name
        path.write_text(text, encoding="utf-8", errors="replace")
        return str(path)


def _problem(error: FileError) -> RecipeProblem:
    from console.services.hub import RecipeProblem

    return RecipeProblem(error.file, error.message, error.line, error.column, error.key)
