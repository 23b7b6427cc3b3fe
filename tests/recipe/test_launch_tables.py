"""`[guard]` and `[launch]`: read, written again, compared, and known to be keys of a recipe."""

from __future__ import annotations

import pytest

from console.recipe.diff import diff_recipes
from console.recipe.model import GuardHints, LaunchOptions, Recipe
from console.recipe.parse import parse_recipe
from console.recipe.write import recipe_toml

HEAD = 'engine = "vllm"\nname = "x"\ndocker_image = "i:1"\nmodel = "m"\nrequired_nodes = 1\n'
FULL = """
[guard]
enabled = true
loading_floor_mib = 6144
serving_floor_gib = "off"
readings = 5
serving_after_s = 900

[launch]
drop_caches = true
sync_image = "differs"
override = ["gpu-held", "disk-low"]
"""


def read(text: str = "") -> Recipe:
    return parse_recipe(HEAD + text, slug="x", file="recipe.toml")


def test_all_that_the_two_tables_can_say() -> None:
    recipe = read(FULL)
    assert recipe.guard == GuardHints(True, 6.0, 0.0, 5, 900.0)
    assert recipe.launch == LaunchOptions(True, "differs", ("gpu-held", "disk-low"))
    assert recipe.findings == () and recipe.extra == {}


def test_what_is_left_out_changes_nothing() -> None:
    assert (read().guard.changes(), read().launch) == ({}, LaunchOptions())
    assert read('[launch]\nsync_image = "never"\n').launch == LaunchOptions(sync_image="never")


@pytest.mark.parametrize("value, gib", [("4", 4.0), ("1.5", 1.5), ("0", 0.0), ('"off"', 0.0)])
def test_a_floor_of_a_stage(value: str, gib: float) -> None:
    assert read(f"[guard]\nloading_floor_gib = {value}\n").guard.loading_floor_gib == gib


@pytest.mark.parametrize("value", ["true", "nan", "inf", "-1", "1e9", '"4"', "[4]"])
def test_a_floor_that_is_none(value: str) -> None:
    with pytest.raises(Exception, match=r"recipe\.toml:7:21: guard\.loading_floor_gib: must be "):
        read(f"[guard]\nloading_floor_gib = {value}\n")


def test_a_misspelt_key_in_them_is_warned_of_with_its_place() -> None:
    recipe = read("[guard]\nloading_floor_gb = 4\n[launch]\ndrop_cache = true\n")
    said = [(f.message.partition(": unknown")[0], f.remedy) for f in recipe.findings]
    assert said == [
        ("recipe.toml:7:1: guard.loading_floor_gb", 'did you mean "loading_floor_gib"?'),
        ("recipe.toml:9:1: launch.drop_cache", 'did you mean "drop_caches"?'),
    ]


def test_they_read_back_as_written() -> None:
    before = read(FULL)
    after = parse_recipe(recipe_toml(before), slug="x", file="again")
    assert (after.guard, after.launch, after.findings) == (before.guard, before.launch, ())
    assert "[launch]" not in recipe_toml(read()) and "[guard]" not in recipe_toml(read())


def test_what_changed_in_them_is_a_line_each() -> None:
    assert [c.line for c in diff_recipes(read(), read(FULL))] == [
        "+ guard.enabled True",
        "+ guard.loading_floor_gib 6",
        "+ guard.serving_floor_gib 0",
        "+ guard.readings 5",
        "+ guard.serving_after_s 900",
        "launch.drop_caches false -> true",
        "launch.sync_image missing -> differs",
        "+ launch.override gpu-held, disk-low",
    ]
