"""A night's file is refused at dusk for what would come to nothing at night."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from console.base.errors import UsageError
from console.files.night_queue import load_queue
from console.recipe.model import Recipe
from console.recipe.parse import parse_recipe
from console.services.night_setup import check_changes

RECIPE = """
engine = "vllm"
name = "small"
docker_image = "x:1"
model = "m/m"
required_nodes = 2
tensor_parallel_size = 2
args = ["--max-num-seqs", "8", "--enforce-eager"]
env = { A = "1" }
"""


def check(tmp_path: Path, changes: str) -> None:
    file = tmp_path / "night.toml"
    file.write_text(
        'name = "n"\nzone = "UTC"\nhard_end = "05:30"\nbaseline = "small"\n'
        f'[[steps]]\nrecipe = "small"\nlabel = "less"\n{changes}\n'
    )

    def get(name: str) -> Recipe:
        return replace(parse_recipe(RECIPE, slug=name, file="recipe.toml"))

    check_changes(load_queue(file, 1_796_040_000.0), get)


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ('flags = { "--max-num-batched-tokens" = false }', "flag --max-num-batched-tokens"),
        ('env = { B = false }', "env B"),
    ],
)  # fmt: skip
def test_a_step_that_takes_out_what_is_not_there_is_refused(tmp_path: Path, changes: str, lacks: str) -> None:
    with pytest.raises(UsageError, match=f"less: small has no {lacks} to take out"):
        check(tmp_path, changes)


@pytest.mark.parametrize("name", ["--max-num-seqs", "--max_num_seqs", "--enforce-eager"])
def test_what_is_there_may_be_taken_out(tmp_path: Path, name: str) -> None:
    check(tmp_path, f'flags = {{ "{name}" = false }}')
