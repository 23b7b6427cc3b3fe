"""A recipe file as a Recipe, and every error of a bad one at its line and column."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.findings import Severity
from console.recipe.model import Mount, Recipe, SmokePrompt
from console.recipe.parse import RecipeErrors, parse_recipe

BROKEN = sorted((Path(__file__).parent / "broken").glob("*.toml"))
SEED = (Path(__file__).parent.parent / "fixtures" / "seed-recipe.toml").read_bytes().decode()
RECIPES = Path(__file__).parent.parent.parent / "recipes"
GOOD = """engine = "vllm"
name = "A recipe"
docker_image = "img:local"
model = "org/model"
required_nodes = 2
tensor_parallel_size = 2
"""


def parse(text: str) -> Recipe:
    return parse_recipe(text, slug="x", file="recipe.toml")


def errors(text: str) -> list[str]:
    with pytest.raises(RecipeErrors) as caught:
        parse(text)
    return [str(e) for e in caught.value.errors]


def codes(recipe: Recipe) -> list[str]:
    return [f.code for f in recipe.findings]


def test_there_are_enough_broken_files() -> None:
    assert len(BROKEN) >= 25


@pytest.mark.parametrize("path", BROKEN, ids=lambda p: p.stem)
def test_broken_file_names_line_column_and_key(path: Path) -> None:
    expected = path.with_suffix(".expected").read_text().splitlines()
    with pytest.raises(RecipeErrors) as caught:
        parse_recipe(path.read_text(), slug="x", file=path.name)
    found = [str(e) for e in caught.value.errors]
    assert [f[: len(e) - 3] if e.endswith("...") else f for f, e in zip(found, expected, strict=True)] == [
        e.removesuffix("...") for e in expected
    ]
    assert str(caught.value) == "\n".join(found)


def test_the_seed_as_it_stands() -> None:
    recipe = parse_recipe(SEED, slug="dsv41-flash-8x", file="recipe.toml")
    assert recipe.args == (
        "--served-model-name",
        "deepseek-v4-flash",
        "--trust-remote-code",
        "--distributed-executor-backend",
        "mp",
        "--gpu-memory-utilization",
        "0.91",
        "--max-model-len",
        "524288",
        "--max-num-seqs",
        "8",
        "--max-num-batched-tokens",
        "8192",
        "--block-size",
        "128",
        "--compilation-config",
        '{"cudagraph_mode":"FULL_AND_PIECEWISE",'
        '"cudagraph_capture_sizes":[5,6,10,12,15,18,20,24,25,30,35,36,40,42,48]}',
        "--speculative-config",
        '{"method":"dspark","num_speculative_tokens":5,"draft_sample_method":"probabilistic",'
        '"rejection_sample_method":"block","enable_adaptive_verification":false}',
        "--tool-call-parser",
        "deepseek_v41",
        "--enable-auto-tool-choice",
        "--reasoning-parser",
        "deepseek_v41",
        "--default-chat-template-kwargs",
        '{"thinking": true, "reasoning_effort": "max"}',
    )
    assert recipe.served_name == "deepseek-v4-flash"
    assert recipe.title == "DeepSeek-V4.1-Flash MXFP4 (dsv41 img, 8x, DSpark k=5, Engram in DRAM)"
    assert (recipe.required_nodes, recipe.tensor_parallel_size, recipe.pipeline_parallel_size) == (8, 8, 1)
    assert (recipe.distributed_backend, recipe.docker_image_dir) == ("mp", "dsv41-flash")
    assert recipe.entrypoint is None
    assert recipe.ready_timeout_s == 3600.0
    assert (recipe.port, recipe.master_port, recipe.gpus) == (8000, 29501, "all")
    assert recipe.env["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert len(recipe.env) == 10
    assert recipe.mounts[0] == Mount("~/sm121-cache/jit-121f/flashinfer", "/root/.cache/flashinfer")
    assert len(recipe.mounts) == 3
    assert recipe.extra == {}
    assert codes(recipe) == ["recipe-path-line", "shm-size-no-effect"]
    assert recipe.source == SEED
    assert recipe.digest == hashlib.sha256(SEED.encode()).hexdigest()


def test_errors_behind_the_path_line_keep_their_lines() -> None:
    text = SEED.replace('engine = "vllm"', 'engine = "vlm"')
    line = SEED.splitlines().index('engine = "vllm"') + 1
    assert errors(text)[0].startswith(f"recipe.toml:{line}:10: engine:")


def test_the_bundled_copy_says_what_the_seed_says() -> None:
    seed = tomli.loads(SEED.partition("\n")[2])
    assert tomli.loads((RECIPES / "dsv41-flash-8x" / "recipe.toml").read_text()) == seed


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*/recipe.toml")), ids=lambda p: p.parent.name)
def test_bundled_recipes_are_without_a_warning(path: Path) -> None:
    recipe = parse_recipe(path.read_text(), slug=path.parent.name, file=str(path))
    assert {f.severity for f in recipe.findings} <= {Severity.INFO}


def test_tiny_cpu_runs_on_nodes_without_gpus() -> None:
    recipe = parse_recipe((RECIPES / "tiny-cpu" / "recipe.toml").read_text(), slug="tiny-cpu", file="f")
    assert (recipe.gpus, recipe.model, recipe.docker_image) == ("none", "/opt/nightdeck/tiny", "tiny-cpu:local")
    assert recipe.served_name == "tiny"


def test_the_smallest_recipe_takes_defaults() -> None:
    recipe = parse(GOOD)
    assert (recipe.pipeline_parallel_size, recipe.distributed_backend, recipe.shm_size) == (1, "mp", None)
    assert (recipe.port, recipe.master_port, recipe.ready_timeout_s) == (8000, 29501, 1800.0)
    assert (recipe.args, recipe.env, recipe.mounts, recipe.smoke, recipe.findings) == ((), {}, (), (), ())


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ('ready_timeout_s = 90.5\n[env]\nVLLM_ENGINE_READY_TIMEOUT_S = "3600"\n', 90.5),
        ('[env]\nVLLM_ENGINE_READY_TIMEOUT_S = "3600"\n', 3600.0),
        ("", 1800.0),
    ],
)
def test_ready_timeout(more: str, seconds: float) -> None:
    assert parse(GOOD + more).ready_timeout_s == seconds


def test_a_flag_that_says_the_same_is_no_error_and_stands_once() -> None:
    recipe = parse(GOOD + 'distributed_backend = "mp"\nargs = ["--distributed_executor_backend mp", "-tp", "2"]\n')
    assert recipe.args == ("--distributed_executor_backend", "mp", "-tp", "2")
    assert (recipe.distributed_backend, recipe.tensor_parallel_size) == ("mp", 2)


def test_a_flag_alone_fills_the_key() -> None:
    text = GOOD.replace("tensor_parallel_size = 2\n", "") + (
        'args = ["--tensor-parallel-size=2", "--port", "9000", "--distributed-executor-backend", "ray"]\n'
    )
    recipe = parse(text)
    assert (recipe.tensor_parallel_size, recipe.port, recipe.distributed_backend) == (2, 9000, "ray")


def test_a_flag_that_contradicts_is_an_error_at_its_own_line() -> None:
    text = GOOD + 'args = [\n  "--a", "1",\n  "--x y --tensor-parallel-size 8",\n]\n'
    assert errors(text) == [
        "recipe.toml:9:3: args[3]: --tensor-parallel-size 8 contradicts tensor_parallel_size (line 6), which says 2 "
        "(say it once, or the same twice)"
    ]


def test_data_parallel_counts_as_ranks() -> None:
    text = GOOD.replace("required_nodes = 2", "required_nodes = 4") + 'args = ["--data-parallel-size", "2"]\n'
    assert parse(text).required_nodes == 4


@pytest.mark.parametrize("flag", ["--node-rank 3", "--headless"])
def test_flags_of_one_rank_block(flag: str) -> None:
    recipe = parse(GOOD + f'args = ["{flag}"]\n')
    assert [(f.code, f.severity) for f in recipe.findings] == [("args-per-rank-flag", Severity.BLOCK)]


def test_unknown_keys_are_kept_and_warned_of_with_the_nearest_name() -> None:
    text = (
        GOOD
        + "red_timeout = 1\nready_timeout = 5\n[memory]\nweight_gb = 1\n"
        + '[[extra_mounts]]\nhost = "/a"\ncontainer = "/b"\nro = true\n'
    )
    recipe = parse(text)
    assert recipe.extra == {
        "red_timeout": 1,
        "ready_timeout": 5,
        "memory": {"weight_gb": 1},
        "extra_mounts[1]": {"ro": True},
    }
    warned = {f.message: f.remedy for f in recipe.findings if f.code == "unknown-key"}
    assert (
        warned["recipe.toml:8:1: ready_timeout: unknown key, kept without effect"] == 'did you mean "ready_timeout_s"?'
    )
    assert (
        warned["recipe.toml:10:1: memory.weight_gb: unknown key, kept without effect"] == 'did you mean "weights_gb"?'
    )
    assert "recipe.toml:14:1: extra_mounts[1].ro: unknown key, kept without effect" in warned


def test_args_that_look_wrong_are_warned_of() -> None:
    recipe = parse(GOOD + 'args = ["", "--c", "\'{\\"a\\":}\'", "$HOME/x", "a", "|", "b", "\'$literal\'"]\n')
    assert codes(recipe) == ["args-empty", "args-json", "args-literal", "args-literal"]
    assert recipe.args == ("--c", '{"a":}', "$HOME/x", "a", "|", "b", "$literal")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ('"vllm serve"', ("vllm", "serve")),
        ('["vllm", "my serve"]', ("vllm", "my serve")),
        ("\"'a b' c\"", ("a b", "c")),
    ],
)
def test_entrypoint(written: str, words: tuple[str, ...]) -> None:
    assert parse(GOOD + f"entrypoint = {written}\n").entrypoint == words


def test_smoke_in_both_forms() -> None:
    text = GOOD + '[smoke]\nprompts = ["hi"]\n[[smoke.checks]]\nprompt = "17*23"\nexpect = "391"\nmax_tokens = 9\n'
    assert parse(text).smoke == (SmokePrompt("hi"), SmokePrompt("17*23", "391", 9))


@pytest.mark.parametrize(("written", "judged"), [("", True), ('judge = "on"\n', True), ('judge = "off"\n', False)])
def test_an_answer_is_judged_unless_the_recipe_says_not(written: str, judged: bool) -> None:
    assert parse(f"{GOOD}[smoke]\n{written}").smoke_judge is judged


@pytest.mark.parametrize(
    "image",
    [
        "dsv41-flash:local",
        "vllm/vllm-openai:v0.11.0",
        "localhost:5000/a/b_c:T.1",
        "a@sha256:" + "0" * 64,
        "ghcr.io/x/y-z",
    ],
)
def test_image_references(image: str) -> None:
    assert parse(GOOD.replace("img:local", image)).docker_image == image


@pytest.mark.parametrize("model", ["org/model", "/models/DeepSeek V4", "s3://bucket/model", "gpt2", "org/m:Q4"])
def test_models(model: str) -> None:
    assert parse(GOOD.replace("org/model", model)).model == model


def test_hostile_text_stays_text() -> None:
    recipe = parse(GOOD + 'args = ["--served-model-name", "\'$(rm -rf /); reboot | x\'"]\n[env]\nA = "`id`\\n;"\n')
    assert recipe.args[1] == "$(rm -rf /); reboot | x"
    assert recipe.env["A"] == "`id`\n;"


def test_no_secret_is_shown_in_an_error() -> None:
    text = GOOD + 'args = ["--api-key sk-abcdefghijklmnopqrstuv \'"]\n[env]\nHF_TOKEN = 987654321\n'
    shown = "\n".join(errors(text))
    assert "abcdefghijkl" not in shown
    assert "987654321" not in shown


def test_half_a_character_is_an_error_of_the_file() -> None:
    assert errors("a = 1\nb = '\ud800'\n") == ["recipe.toml:2: holds half a character (a lone surrogate)"]


KEYS = [
    "engine",
    "name",
    "docker_image",
    "model",
    "required_nodes",
    "tensor_parallel_size",
    "args",
    "env",
    "port",
    "gpus",
    "extra_mounts",
    "memory",
    "smoke",
    "nodes",
    "entrypoint",
    "ready_timeout_s",
    "shm_size",
    "distributed_backend",
    "zzz",
]
WRITTEN = st.sampled_from(
    [
        '"x"',
        '""',
        "1",
        "-1",
        "0x" + "F" * 6000,
        "1e400",
        "nan",
        "inf",
        "true",
        "[]",
        "[1]",
        '["a", 2, ["b"]]',
        "{}",
        '{a = "b"}',
        "{host = 1}",
        '[{host = "/a", container = "/b"}]',
        "1979-05-27",
        '{checks = [{prompt = "p", expect = "("}]}',
        "'''\n'a'''",
        '{only = ["a", 1], head = 2, prefer = "x"}',
        '["-tp 3", "--port", "--port=0", "-pp"]',
        '{A = "1", B = 2, "" = "3"}',
        '"\\u0000"',
        "[[[[1]]]]",
        "{checks = 1, prompts = {}}",
        '"--x"',
        "07:32:00",
    ]
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), WRITTEN), unique_by=lambda p: p[0], max_size=len(KEYS)))
def test_any_table_gives_a_recipe_or_recipe_errors(pairs: list[tuple[str, str]]) -> None:
    text = "".join(f"{k} = {v}\n" for k, v in pairs)
    try:
        parse(text)
    except RecipeErrors as caught:
        assert caught.errors
        assert all(e.line is not None and e.column is not None for e in caught.errors)


@settings(deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda b: b.decode("utf-8", "surrogateescape")))
def test_any_text_gives_a_recipe_or_recipe_errors(text: str) -> None:
    with pytest.raises(RecipeErrors):
        parse(text)


@settings(deadline=None)
@given(st.integers(0, len(SEED) - 1), st.integers(0, 40), st.text(max_size=3))
def test_a_seed_with_a_hole_gives_a_recipe_or_recipe_errors(start: int, length: int, put: str) -> None:
    try:
        parse(SEED[:start] + put + SEED[start + length :])
    except RecipeErrors as caught:
        assert caught.errors
