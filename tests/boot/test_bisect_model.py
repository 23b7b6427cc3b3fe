"""A search finds the one change that breaks a recipe, in as few boots as halves allow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.base.errors import UsageError
from console.boot.bisect_model import answer, begin, between, changes_between
from console.recipe.diff import diff_recipes
from console.recipe.model import Mount, Recipe

GOOD = Recipe(
    slug="x", file="", title="t", engine="vllm", docker_image="i:1", model="m", required_nodes=8,
    tensor_parallel_size=8, args=("--a", "1", "--b", "--c", "3"), env={"X": "1", "Y": "2"},
)  # fmt: skip
BAD = replace(
    GOOD, docker_image="i:2", required_nodes=4, tensor_parallel_size=4, mounts=(Mount("/h", "/c"),),
    args=("--a", "2", "--c", "3", "--d", "4", "--d", "5"), env={"X": "1", "Z": "9"},
)  # fmt: skip


def test_changes_are_named_and_can_be_taken_one_by_one() -> None:
    units = changes_between(GOOD, BAD)
    assert units == [
        "docker_image", "mounts", "nodes and parallel sizes", "flag --a", "flag --b", "flag --d", "env Y", "env Z",
    ]  # fmt: skip
    assert diff_recipes(between(GOOD, BAD, units), BAD) == []
    assert between(GOOD, BAD, []) == GOOD
    assert [c.line for c in diff_recipes(GOOD, between(GOOD, BAD, ["flag --b"]))] == ["- --b"]


@given(st.integers(1, 40), st.data(), st.booleans())
def test_the_culprit_is_found(count: int, data: st.DataObject, one_by_one: bool) -> None:
    units = [f"env V{n}" for n in range(count)]
    culprit = data.draw(st.sampled_from(units))
    search = begin("g", "b", units, one_by_one=one_by_one)
    trials = 0
    while search.culprit is None:
        with_them = {*search.base, *search.trying}
        search = answer(search, "bad" if culprit in with_them else "good")
        trials += 1
    assert search.culprit == culprit
    assert trials <= (count - 1 if one_by_one else math.ceil(math.log2(count)) if count > 1 else 0)
    with pytest.raises(UsageError, match=r"over"):
        answer(search, "good")


def test_two_changes_that_break_only_together_end_at_the_last_of_them() -> None:
    search = begin("g", "b", ["p", "q", "r", "s"])
    while search.culprit is None:
        search = answer(search, "bad" if {"q", "s"} <= {*search.base, *search.trying} else "good")
    assert (search.culprit, set(search.base) >= {"q"}) == ("s", True)


def test_nothing_to_search() -> None:
    with pytest.raises(UsageError, match="nothing differs"):
        begin("g", "b", changes_between(GOOD, GOOD))
