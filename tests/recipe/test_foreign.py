"""Recipes in other people's style: whole command lines, tabs, Windows line ends, quotes of every kind."""
# ruff: noqa: E501 rows of a table are kept whole

from __future__ import annotations

import pytest

from console.plan.lint import lint_recipe
from console.recipe.model import Recipe
from console.recipe.parse import RecipeErrors, parse_recipe

HEAD = 'engine = "{engine}"\nname = "Gro\u00dfe N\u00e4chte \u65e5\u672c\u8a9e"\ndocker_image = "i:1"\nmodel = "org/m"\nrequired_nodes = 2\ntensor_parallel_size = 2\n'


def read(text: str, *, engine: str = "vllm", ends: str = "\n", mark: str = "") -> Recipe:
    return parse_recipe(mark + (HEAD.replace("{engine}", engine) + text).replace("\n", ends), slug="x", file="f")


def said(recipe: Recipe) -> list[str]:
    return [f.code for f in (*recipe.findings, *lint_recipe(recipe, 2))]


LONG = "x" * 200_000
JSON = '{"rope_type":"yarn","factor":4.0}'


@pytest.mark.parametrize(
    "args, words",
    [
        (f'args = ["""\n--max-model-len 131072 \\\\\n--rope-scaling \'{JSON}\'\n"""]', ["--max-model-len", "131072", "--rope-scaling", JSON]),
        ('args = [\n\t"--max-model-len\t32768",\n\t"--speculative-config",\n\t\'{"method": "mtp"}\',\n]', ["--max-model-len", "32768", "--speculative-config", '{"method": "mtp"}']),
        ("args = ['--max_model_len 4096 --gpu_memory_utilization=.9 -O3']", ["--max_model_len", "4096", "--gpu_memory_utilization=.9", "-O3"]),
        ("args = [\"--hf-overrides='{\\\"a\\\": 1}'\"]", ['--hf-overrides={"a": 1}']),
        (f'args = ["--chat-template {LONG}"]', ["--chat-template", LONG]),
    ],
    ids=["one-string", "tabs", "underscores", "equals-json", "very-long"],
)  # fmt: skip
@pytest.mark.parametrize("ends, mark", [("\n", ""), ("\r\n", "\ufeff")], ids=["unix", "windows"])
def test_words_arrive_as_they_were_meant(args: str, words: list[str], ends: str, mark: str) -> None:
    recipe = read(args, ends=ends, mark=mark)
    assert list(recipe.args) == words and said(recipe) == []


def test_tables_by_dotted_keys() -> None:
    recipe = read('memory.reserve_gib = 6.0\nenv.NCCL_DEBUG = "INFO"\nlaunch.drop_caches = true\nguard.readings = 4\n')
    assert (recipe.memory.reserve_gib, recipe.env, recipe.launch.drop_caches) == (6.0, {"NCCL_DEBUG": "INFO"}, True)
    assert recipe.guard.readings == 4 and said(recipe) == []


def test_a_command_line_copied_whole_is_one_finding() -> None:
    recipe = read('args = ["vllm serve org/m --max-model-len 9 --host 0.0.0.0"]')
    assert said(recipe) == ["command-in-args"]
    assert said(read('args = ["python3 -m sglang.launch_server --mem-fraction-static 0.8"]', engine="sglang")) == [
        "command-in-args"
    ]


def test_flags_of_one_rank_are_named_once_each() -> None:
    found = said(read('args = ["--node-rank 0", "--nnodes 2"]', engine="sglang"))
    assert sorted(found) == ["args-per-rank-flag", "launcher-argument"]


def test_quotes_that_a_shell_would_have_taken() -> None:
    found = said(read("args = ['--compilation-config={\"mode\": 3}']"))
    assert found[0] == "args-json" and "json-argument" in found
    (why,) = [
        f for f in lint_recipe(read("args = ['--compilation-config={\"mode\":3}']"), 2) if f.code == "json-argument"
    ]
    assert "its quotes are gone" in why.message and "single quotes" in why.remedy
    assert said(read('args = ["--served-model-name \u201cm\u201d"]')) == ["unicode-quote"]


def test_a_key_that_stands_twice_says_so() -> None:
    with pytest.raises(RecipeErrors, match=r"f:8:12: not TOML: .*the same key or table stands above it"):
        read("port = 8000\nport = 8001\n")
