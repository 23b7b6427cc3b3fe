"""Recipes written from values read back the same; a change touches what it names and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.recipe.diff import diff_recipes
from console.recipe.model import Recipe
from console.recipe.override import Override, apply_override, set_flag, unmasked
from console.recipe.parse import parse_recipe
from console.recipe.write import recipe_toml

SHIPPED = sorted((Path(__file__).parents[2] / "recipes").glob("*/recipe.toml"))
HEAD = 'engine = "vllm"\nname = "x"\ndocker_image = "i:local"\nmodel = "m"\nrequired_nodes = 1\n'


def read(text: str, slug: str = "x") -> Recipe:
    return parse_recipe(text, slug=slug, file="recipe.toml")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.parent.name)
def test_every_bundled_recipe_reads_back(path: Path) -> None:
    before = read(path.read_text(), path.parent.name)
    after = read(recipe_toml(before, comment=["written\nby the night"]), before.slug)
    assert (diff_recipes(before, after), after.args, after.env) == ([], before.args, before.env)


# Words as they come out of a file: any text but NUL, and no half characters.
words = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=12).map(
    lambda w: f"w{w}" if w.startswith("-") else w  # a flag of the engine's own may have to agree with a key
)


@settings(max_examples=40, deadline=None)
@given(st.lists(words, max_size=6), st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), words, max_size=3))
def test_any_words_read_back(args: list[str], env: dict[str, str]) -> None:
    base = read(HEAD)
    changed = Recipe(**{**{f: getattr(base, f) for f in base.__dataclass_fields__}, "args": tuple(args), "env": env})
    again = read(recipe_toml(changed))
    assert (again.args, again.env) == (tuple(args), env)


def test_a_flag_keeps_its_place_and_stands_once() -> None:
    args = ["--a", "1", "--gpu_memory_utilization=0.91", "--b", "--gpu-memory-utilization", "0.5", "-tp", "8"]
    assert set_flag(args, "--gpu-memory-utilization", ["0.80"]) == [
        "--a", "1", "--gpu_memory_utilization", "0.80", "--b", "-tp", "8",
    ]  # fmt: skip
    assert set_flag(args, "--b", None) == [w for w in args if w != "--b"]
    assert set_flag(args, "--new", []) == [*args, "--new"]
    assert set_flag(args, "--tensor-parallel-size", ["4"])[-2:] == ["-tp", "4"]


def test_a_change_is_all_that_differs() -> None:
    before = read(HEAD + 'args = ["--a 1", "--b"]\n[env]\nX = "1"\nY = "2"\n')
    after = apply_override(before, Override({"--a": ("2",), "--b": None}, {"X": None, "Z": "3"}))
    assert [c.line for c in diff_recipes(before, after)] == ["--a 1 -> 2", "- --b", "- env X=1", "+ env Z=3"]
    assert [c.line for c in diff_recipes(after, read(after.source))] == []


def test_secrets_of_the_journal_come_from_the_file_of_today() -> None:
    masked = read(HEAD + 'args = ["--api-key ***", "--a 1"]\n[env]\nHF_TOKEN = "***"\nWANDB_TOKEN = "***"\n')
    today = read(HEAD + 'args = ["--api-key sesame-open"]\n[env]\nHF_TOKEN = "hf_clear"\n')
    recipe, left = unmasked(masked, today)
    assert (recipe.args, recipe.env["HF_TOKEN"], left) == (
        ("--api-key", "sesame-open", "--a", "1"),
        "hf_clear",
        ["WANDB_TOKEN"],
    )


def test_a_changed_deadline_is_one() -> None:
    """The variable gives the deadline where the recipe's own text names none; a night's step may change it."""
    text = """engine = "vllm"
name = "x"
docker_image = "i:local"
model = "m/x"
required_nodes = 1
tensor_parallel_size = 1
args = []
{deadline}
[env]
VLLM_ENGINE_READY_TIMEOUT_S = "3600"
"""
    recipe = parse_recipe(text.format(deadline=""), slug="x", file="x")
    for value, seconds in (("12", 12.0), (None, 1800.0), ("soon", 1800.0)):
        changed = apply_override(recipe, Override(env={"VLLM_ENGINE_READY_TIMEOUT_S": value}))
        assert changed.ready_timeout_s == seconds
    other = apply_override(recipe, Override(env={"NCCL_DEBUG": "INFO"}))
    assert other.ready_timeout_s == 3600.0
    own = parse_recipe(text.format(deadline="ready_timeout_s = 900"), slug="x", file="x")
    assert apply_override(own, Override(env={"VLLM_ENGINE_READY_TIMEOUT_S": "12"})).ready_timeout_s == 900.0
