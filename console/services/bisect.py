"""A bisect between two boots: its state on disk, and the next recipe to try as a folder that can be launched."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from console.base.errors import NightdeckError, UsageError
from console.boot.bisect_model import Bisect, answer, begin, between, changes_between
from console.files.archive import read_json
from console.files.atomic import trouble, write_whole
from console.files.boot_index import BootIndex
from console.files.journal import BootEntry
from console.recipe.diff import diff_recipes
from console.recipe.model import Recipe
from console.recipe.override import unmasked, with_source
from console.services.compare import recipe_as_run

STATE: Final = "bisect.json"
FAILED: Final = ("failed", "serving_bad", "degraded")
GetRecipe = Callable[[str], Recipe]


@dataclass(frozen=True, slots=True)
class Trial:
    """What stands now. recipe: the folder's recipe.toml to launch, None once the search is over. changed: what the
    culprit changed, as `--max-num-seqs 8 -> 16`. warning: the boot that was called bad failed in another way."""

    search: Bisect
    recipe: Path | None
    changed: str = ""
    warning: str = ""


class Bisecting:
    """One search at a time in a state folder. get: a recipe's file as it is now, for the secrets that the journal does
    not keep."""

    def __init__(self, folder: Path, index: BootIndex, get: GetRecipe) -> None:
        self._folder = folder
        self._index = index
        self._get = get

    def start(self, good: str, bad: str, *, one_by_one: bool = False, by_hand: bool = False) -> Trial:
        """by_hand: good and bad are the operator's own words, so what the ledger says of the ends does not count.

        Raises UsageError: a search is under way, a boot is unknown, its recipe is not kept, nothing differs, or the
        ledger says the opposite of an end."""
        if (self._folder / STATE).exists() and self._read().culprit is None:
            raise UsageError("a bisect is under way", remedy="`nightdeck bisect status`, or `nightdeck bisect reset`")
        first, second = self._index.find(good).entry, self._index.find(bad).entry
        if not by_hand:
            _believable(first, second)
        search = begin(
            first.id,
            second.id,
            changes_between(self._recipe(first.id), self._recipe(second.id)),
            one_by_one=one_by_one,
        )
        return self._keep(search)

    def verdict(self, word: str) -> Trial:
        before = self._read()
        trial = self._keep(answer(before, word))
        return replace(trial, warning=self._other_way(before)) if word == "bad" else trial

    def status(self) -> Trial:
        return self._trial(self._read())

    def _trial(self, search: Bisect) -> Trial:
        if search.culprit is None:
            return Trial(search, self._file(search))
        good, bad = self._recipe(search.good), self._recipe(search.bad)
        lines = [c.line for c in diff_recipes(good, between(good, bad, (search.culprit,)))]
        return Trial(search, None, "; ".join(lines))

    def _other_way(self, search: Bisect) -> str:
        """A trial that fails for a reason of its own says nothing of the change that is looked for."""
        bad = self._index.find(search.bad).entry
        last = next((r.entry for r in self._index.boots() if r.entry.recipe == bad.recipe), bad)
        first, now = _cause(bad), _cause(last)
        if last.id == bad.id or not first or not now or first == now:
            return ""
        return (
            f"boot {last.number} failed in another way ({now}) than boot {bad.number} ({first}): is it the same fault?"
        )

    def reset(self) -> None:
        (self._folder / STATE).unlink(missing_ok=True)

    def _recipe(self, boot: str) -> Recipe:
        entry = self._index.find(boot).entry
        recipe = recipe_as_run(entry.path, entry.recipe)
        if recipe is None:
            raise UsageError(f"the recipe of boot {entry.number} is not kept, so it cannot be searched from")
        return recipe

    def _file(self, search: Bisect) -> Path:
        slug = self._index.find(search.good).entry.recipe
        return self._folder / "bisect" / f"step{len(search.history) + 1}" / slug / "recipe.toml"

    def _keep(self, search: Bisect) -> Trial:
        """Write the recipe first, then the state that names it."""
        if search.culprit is None:
            path = self._file(search)
            recipe = between(self._recipe(search.good), self._recipe(search.bad), (*search.base, *search.trying))
            clear, left = self._clear(recipe)
            if left:
                raise UsageError(
                    f"secrets of the boots are not kept, and no recipe of today has them: {', '.join(left)}",
                    remedy=f"put them into the recipe {recipe.slug}",
                )
            comment = [
                f"bisect of {search.good} (good) and {search.bad} (bad), step {len(search.history) + 1}",
                f"with: {', '.join((*search.base, *search.trying)) or 'nothing'}",
            ]
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise trouble("cannot be made", path.parent, error) from error
            write_whole(path, with_source(clear, comment).source.encode("utf-8", "replace"))
        write_whole(self._folder / STATE, json.dumps(asdict(search), indent=1).encode())
        return self._trial(search)

    def _clear(self, recipe: Recipe) -> tuple[Recipe, list[str]]:
        try:
            today = self._get(recipe.slug)
        except NightdeckError:
            return unmasked(recipe, recipe)  # there is no such recipe any more: what is masked stays masked
        return unmasked(recipe, today)

    def _read(self) -> Bisect:
        row = read_json(self._folder / STATE)
        if row is None:
            raise UsageError("no bisect is under way", remedy="`nightdeck bisect GOOD BAD` begins one")
        try:
            return _bisect(row)
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{STATE} is damaged", remedy="`nightdeck bisect reset`") from error


def _believable(good: BootEntry, bad: BootEntry) -> None:
    """Raises UsageError: whatever such a search ended with, it would be no cause of a failure."""
    remedy = "--by-hand where you judge by something else, as a speed or an answer"
    if bad.summary.get("ready_s") is not None and bad.summary.get("state") not in FAILED:
        raise UsageError(f"boot {bad.number} served, so nothing broke it", remedy=remedy)
    if good.summary.get("ready_s") is None and good.summary.get("state") in FAILED:
        raise UsageError(f"boot {good.number} never served, so it is no good end", remedy=remedy)


def _cause(entry: BootEntry) -> str:
    cause = entry.summary.get("cause")
    return str(cause.get("class") or "") if isinstance(cause, dict) else ""


def _bisect(row: dict[str, Any]) -> Bisect:
    words = {k: tuple(str(w) for w in row[k]) for k in ("units", "base", "left", "trying")}
    history = tuple((str(v), tuple(str(u) for u in units)) for v, units in row["history"])
    return Bisect(str(row["good"]), str(row["bad"]), **words, history=history, one_by_one=row["one_by_one"] is True)
