"""Where the hub gets recipes and themes from, as they are on disk now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from console.base.theme import ThemeColours
from console.recipe.model import Recipe
from console.services.hub import RecipeProblem


class Shelf(Protocol):
    """Recipes and themes as they are on disk now."""

    def load(self) -> tuple[Sequence[Recipe], Sequence[RecipeProblem]]: ...

    def get(self, name: str) -> Recipe:
        """By name or path, read again. Raises FileError, UsageError."""
        ...

    def themes(self) -> Sequence[ThemeColours]: ...

    def write_log(self, name: str, text: str) -> str:
        """Save text under the state folder; returns the path."""
        ...
