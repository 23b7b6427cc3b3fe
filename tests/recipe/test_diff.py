"""What changed between two recipes, one line each, and no secret in it."""

from __future__ import annotations

from pathlib import Path

import tomli

from console.recipe.diff import diff_recipes
from console.recipe.mask import masked_source
from console.recipe.model import Recipe
from console.recipe.parse import parse_recipe

RECIPES = Path(__file__).parent.parent.parent / "recipes"
HEAD = 'engine = "vllm"\nname = "x"\ndocker_image = "i"\nmodel = "m"\nrequired_nodes = 1\n'


def lines(a: str, b: str) -> list[str]:
    return [c.line for c in diff_recipes(parse(HEAD + a), parse(HEAD + b))]


def parse(text: str) -> Recipe:
    return parse_recipe(text, slug="x", file="f")


def bundled(name: str) -> Recipe:
    return parse_recipe((RECIPES / name / "recipe.toml").read_text(), slug=name, file=name)


def test_the_measured_settings_against_the_trial() -> None:
    found = [c.line for c in diff_recipes(bundled("dsv41-flash-8x"), bundled("dsv41-flash-8x-safe"))]
    assert found[1:5] == [
        "--gpu-memory-utilization 0.91 -> 0.80",
        "--max-model-len 524288 -> 300000",
        '+ --engram-config {"cpu_offload":false}',
        "+ env TRANSFORMERS_OFFLINE=1",
    ]


def test_order_spelling_and_comments_do_not_count() -> None:
    a = 'args = ["--a", "1", "--b_c=2"]\n[env]\nX = "1"\nY = "2"\n'
    b = '# new\nargs = [ "--b-c 2 --a 1" ]\n[env]\nY = "2"\nX = "1"\n'
    assert lines(a, b) == []


def test_json_flags_differ_key_by_key() -> None:
    a = 'args = ["--spec", \'{"k": 5, "m": "x", "old": 1}\']\n'
    b = 'args = ["--spec", \'{"k": 7, "m": "x", "new": [1]}\']\n'
    assert lines(a, b) == ["--spec k 5 -> 7", "- --spec old 1", "+ --spec new [1]"]


def test_switches_mounts_env_and_unknown_keys() -> None:
    a = 'args = ["--eager"]\nodd = 1\n[env]\nA = "1"\n[[extra_mounts]]\nhost = "/a"\ncontainer = "/c"\n'
    b = 'args = ["--fast"]\nodd = 2\n[env]\nA = ""\n[[extra_mounts]]\nhost = "/b"\ncontainer = "/c"\nread_only = true\n'
    assert lines(a, b) == [
        "- --eager",
        "+ --fast",
        "env A 1 -> (none)",
        "mount /c /a -> /b (read only)",
        "extra odd 1 -> 2",
    ]


def test_secrets_are_masked() -> None:
    a = 'args = ["--api-key", "first-secret"]\n[env]\nHF_TOKEN = "aaaa1111"\n'
    b = 'args = ["--api-key", "other-secret"]\n[env]\nHF_TOKEN = "bbbb2222"\n'
    assert lines(a, b) == ["--api-key *** (changed)", "env HF_TOKEN *** (changed)"]


def test_a_masked_source_keeps_its_lines_and_shows_no_secret() -> None:
    text = (
        "launcher/x/recipe.toml\n"
        + HEAD
        + (
            'args = ["--api-key", "first-secret"] # first-secret\n[env]\nA = "1"\n'
            'HF_TOKEN = "hf\\u005fab" # why\nKEY_NAME = "x"\n'
        )
    )
    masked = masked_source(parse(text))
    assert masked.count("\n") == text.count("\n")
    assert "first-secret" not in masked
    assert tomli.loads(masked.partition("\n")[2])["env"] == {"A": "1", "HF_TOKEN": "***", "KEY_NAME": "x"}
