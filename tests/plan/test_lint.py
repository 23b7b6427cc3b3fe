"""Each lint finding once where it is due, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.plan.codes import CODES, documentation
from console.plan.env_names import KNOWN, nearest
from console.plan.lint import lint_recipe
from console.recipe.model import Recipe
from tests.plan.build import NCCL_SMALL, SEED_ENV, codes, safe, seed, tiny, with_args


def test_the_seed() -> None:
    found = lint_recipe(seed(), 8)
    assert {f.code: str(f.severity) for f in found} == {
        "nccl-buffers-default": "warn",
        "engram-pinned": "warn",
        "shm-size-no-effect": "info",
        "ready-timeout-note": "info",
        "offline-hub-model": "info",
        "local-image": "info",
    }


def test_the_safe_recipe_has_only_what_is_true() -> None:
    assert set(codes(lint_recipe(safe(), 8))) == {
        "shm-size-no-effect",
        "ready-timeout-note",
        "offline-hub-model",
        "local-image",
    }
    assert all(f.severity == "info" for f in lint_recipe(safe(), 8))


def test_a_plain_recipe_has_nothing() -> None:
    assert lint_recipe(tiny(), 2) == ()


@pytest.mark.parametrize(
    "recipe, nodes, code, part",
    [
        (tiny(args=("--seed", "1", "--seed", "1")), 2, "doubled-argument", "--seed"),
        (tiny(args=("--max-model-len", "1k", "--max_model_len=2k")), 2, "contradictory-argument", "1k, 2k"),
        (tiny(args=("-tp", "2", "--tensor-parallel-size", "4")), 2, "contradictory-argument", "--tensor-parallel-size"),
        (tiny(args=("--enforce-eager", "--no-enforce-eager")), 2, "contradictory-argument", "--no-enforce-eager"),
        (tiny(args=("--tensor-parallel-size", "4")), 4, "key-argument-conflict", "tensor_parallel_size = 2"),
        (tiny(args=("--port", "9000"), port=8001), 2, "key-argument-conflict", "port = 8001"),
        (tiny(args=("--distributed-executor-backend", "uni")), 2, "key-argument-conflict", "distributed_backend"),
        (tiny(args=("--model", "other")), 2, "key-argument-conflict", "--model other"),
        (tiny(args=("--node-rank", "1")), 2, "launcher-argument", "--node-rank"),
        (tiny(args=("-n", "2")), 2, "launcher-argument", "--nnodes"),
        (tiny(args=("--headless",)), 2, "launcher-argument", "--headless"),
        (tiny(args=("--max-model-len",)), 2, "argument-without-value", "--max-model-len"),
        (tiny(args=("--max-num-seqs", "--enforce-eager")), 2, "argument-without-value", "--max-num-seqs"),
        (tiny(args=("--max-num-seqs", "eight")), 2, "number-expected", "eight"),
        (tiny(args=("--max-model-len", "512q")), 2, "number-expected", "512q"),
        (tiny(args=("serve", "--seed", "1")), 2, "stray-word", "serve"),
        (tiny(args=("\u2014max-num-seqs", "8")), 2, "unicode-dash", "\u2014max-num-seqs"),
        (tiny(args=("-\u2013seed", "8")), 2, "unicode-dash", "seed"),
        (tiny(args=("--compilation-config", "'{\"mode\":3}'")), 2, "json-argument", "shell quotes"),
        (tiny(args=("--speculative-config", '{"method":"dspark",}')), 2, "json-argument", "--speculative-config"),
        (tiny(args=("--default-chat-template-kwargs", "{thinking: true}")), 2, "json-argument", "kwargs"),
        (tiny(), 3, "world-size", "2 x 1 = 2 ranks on 3 nodes"),
        (seed(), 4, "world-size", "2 GPUs are needed on every node"),
        (tiny(args=("--gpu-memory-utilization", "112")), 2, "utilisation-range", "112"),
        (tiny(args=("--gpu-memory-utilization", "0")), 2, "utilisation-range", "0"),
        (tiny(args=("--gpu-memory-utilization", "80%")), 2, "utilisation-range", "80%"),
        (with_args(seed(), max_num_seqs="16"), 8, "capture-sizes-short", "48, a full decode batch is 96"),
        (
            with_args(seed(), compilation_config='{"cudagraph_capture_sizes":[5,6,8,16,48]}'),
            8,
            "capture-sizes-uneven",
            "neither 5 nor 6: 8, 16",
        ),
        (tiny(args=("--max-num-seqs", "64", "--max-num-batched-tokens", "32")), 2, "batched-tokens-short", "32"),
        (
            tiny(args=("--no-enable-chunked-prefill", "--max-model-len", "8k", "--max-num-batched-tokens", "4096")),
            2,
            "batched-tokens-short",
            "without chunked prefill",
        ),
        (safe(env={**SEED_ENV, "NCCL_BUFFSIZE": "1048576"}), 8, "nccl-buffers-default", "only partly set"),
        (safe(env={**SEED_ENV, **NCCL_SMALL, "NCCL_BUFFSIZE": "4194304"}), 8, "nccl-buffers-default", "partly"),
        (tiny(env={"VLLM_ENGINE_READY_TIMEOUT": "3"}), 2, "", ""),
        (tiny(env={"VLLM_ENGINE_READY_TIMEOUT_": "3"}), 2, "env-name", "VLLM_ENGINE_READY_TIMEOUT_S"),
        (tiny(env={"NCCL_SOKET_IFNAME": "x"}), 2, "env-name", "NCCL_SOCKET_IFNAME"),
        (tiny(env={"HF_HUB_OFLFINE": "1"}), 2, "env-name", "HF_HUB_OFFLINE"),
        (tiny(env={"hf_hub_offline": "1"}), 2, "env-name", "HF_HUB_OFFLINE"),
        (tiny(env={"VLLM_HOST_IP": "10.0.0.1"}), 2, "host-ip-fixed", "VLLM_HOST_IP"),
        (tiny(args=("--api-key", "s3cr3t-value")), 2, "secret-in-recipe", "--api-key"),
        (tiny(env={"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwx"}), 2, "secret-in-recipe", "HF_TOKEN"),
        (tiny(docker_image="vllm/vllm-openai"), 2, "image-not-pinned", "names no version"),
        (tiny(docker_image="localhost:5000/vllm:latest"), 2, "image-not-pinned", "latest"),
        (tiny(env={"TORCH_CUDA_ARCH_LIST": "12.1a"}), 2, "jit-unbounded", "MAX_JOBS"),
        (tiny(distributed_backend="ray"), 2, "ray-not-supported", "ray"),
    ],
)
def test_one_fault_one_finding(recipe: Recipe, nodes: int, code: str, part: str) -> None:
    base = set(codes(lint_recipe(seed(), 8))) if recipe.slug.startswith("dsv41") else set()
    found = [f for f in lint_recipe(recipe, nodes) if f.code == code]
    if not code:
        assert nearest("VLLM_ENGINE_READY_TIMEOUT") is None  # two letters short: too far to be sure
        return
    assert len(found) == 1 and part in found[0].message
    assert found[0].remedy and found[0].severity == CODES[code].severity
    assert set(codes(lint_recipe(recipe, nodes))) <= base | {code} | _COMPANIONS.get(code, set())


_COMPANIONS = {
    "contradictory-argument": {"key-argument-conflict", "world-size"},
    "key-argument-conflict": {"world-size"},
}


def test_a_secrets_value_is_in_no_finding() -> None:
    args = ("--api-key", "s3cr3t-value", "--api-key=s3cr3t-value-2", "hf_abcdefghijklmnopqrstuvwx")
    recipe = tiny(args=args, env={"MY_PASSWORD": "hunter2hunter2"})
    text = repr(lint_recipe(recipe, 2))
    assert "s3cr3t-value" not in text and "hunter2" not in text and "hf_abc" not in text
    assert "contradictory-argument" in codes(lint_recipe(recipe, 2))


def test_findings_are_safe_to_draw() -> None:
    found = lint_recipe(tiny(args=("--max-num-seqs", "\x1b]0;title\x07\x1b[2J8\n")), 2)
    assert codes(found) == ["number-expected"] and not {"\x1b", "\n", "\x07"} & set(
        found[0].message + found[0].observed
    )


@pytest.mark.parametrize(
    "args",
    [
        ("--max-model-len", "auto"),
        ("--max-model-len", "512K"),
        ("--max-num-batched-tokens", "8k"),
        ("--compilation-config", "3"),
        ("--config", "/etc/engine.yaml"),
        ("--compilation-config.mode", "3", "--compilation-config.backend", "inductor"),
        ("--served-model-name", "a", "b"),
        ("--limit-mm-per-prompt", '{"image":2}'),
        ("-O3",),
        ("--tensor-parallel-size=2",),
        ("--seed", "-1"),
        ("--gpu-memory-utilization", ".8"),
        ("--gpu-memory-utilization", "1"),
        ("--enable-prefix-caching",),
    ],
)
def test_what_is_right_is_left_alone(args: tuple[str, ...]) -> None:
    assert lint_recipe(tiny(args=args), 2) == ()


def test_no_known_name_is_taken_for_a_slip_of_another() -> None:
    assert [name for name in KNOWN if nearest(name) is not None] == []


@pytest.mark.parametrize(
    "name", ["VLLM_DP_RANK_2", "MY_APP_MODE", "LOCAL_RANK_0", "TOKEN", "NCCL_IB_QQ", "A" * 5000, ""]
)
def test_names_of_others_are_left_alone(name: str) -> None:
    assert nearest(name) is None


def test_engram_is_quiet_when_decided() -> None:
    assert "engram-pinned" not in codes(lint_recipe(with_args(seed(), engram_config='{"cpu_offload":true}'), 8))
    assert "engram-pinned" not in codes(lint_recipe(seed(env={"DSV41_ENGRAM_DISK": "1"}), 8))
    assert "engram-pinned" not in codes(lint_recipe(seed(model="Qwen/Qwen3-8B"), 8))


def test_the_cluster_file_can_set_the_buffers() -> None:
    assert "nccl-buffers-default" not in codes(lint_recipe(seed(), 8, cluster_env=NCCL_SMALL))


@given(
    args=st.lists(
        st.one_of(
            st.text(max_size=12),
            st.sampled_from(["--compilation-config", "--max-num-seqs", "--speculative-config", "-tp", "--"]),
            st.sampled_from(['{"cudagraph_capture_sizes":[true,"x"]}', '{"num_speculative_tokens":-1}', "[" * 2000]),
        ),
        max_size=8,
    ),
    env=st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=4),
    nodes=st.integers(1, 9),
)
@settings(max_examples=150, deadline=None)
def test_lint_never_raises(args: list[str], env: dict[str, str], nodes: int) -> None:
    lint_recipe(replace(seed(), args=tuple(args), env=env), nodes)


def test_every_code_is_documented() -> None:
    text = documentation()
    for code in CODES.values():
        assert f"| `{code.code}` |" in text
        assert code.why.endswith(".") and code.remedy.endswith(".") and "|" not in code.why + code.remedy
