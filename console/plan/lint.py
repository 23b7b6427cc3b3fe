"""The lint of a recipe: what can be seen to go wrong before any node is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from console.base.findings import Finding
from console.base.secrets import is_secret_name, mask_text
from console.base.toml_check import did_you_mean
from console.plan.codes import CODES, finding, unique
from console.plan.effective import Effective, effective, is_path
from console.plan.engines import ENGINES
from console.plan.env_names import nearest
from console.plan.known_models import known_model
from console.plan.lint_args import lint_arguments
from console.plan.nccl import nccl_buffers
from console.recipe.model import Recipe


def lint_recipe(recipe: Recipe, nodes: int, *, cluster_env: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """Findings for a recipe on so many nodes, the worst first. cluster_env: what the cluster file sets on all nodes.
    Nothing is asked of a node; never raises."""
    values = effective(recipe)
    env = {**(cluster_env or {}), **recipe.env}
    found = [
        *lint_arguments(recipe, values),
        *_sizes(recipe, values, nodes),
        *_memory(recipe, values, nodes, env),
        *_environment(recipe, nodes, env),
        *_image(recipe),
        *_secrets(recipe, values),
        *_override(recipe),
    ]
    return unique(found)


def _sizes(recipe: Recipe, values: Effective, nodes: int) -> Iterator[Finding]:
    if values.world != nodes:
        parts = f"{values.tensor_parallel} x {values.pipeline_parallel}"
        if values.data_parallel > 1:
            parts += f" x {values.data_parallel}"
        several = values.world > nodes and values.world % nodes == 0
        tail = f": {values.world // nodes} GPUs are needed on every node" if several else ""
        yield finding(
            "world-size",
            f"tensor x pipeline parallel = {parts} = {values.world} ranks on {nodes} nodes{tail}",
            observed=str(values.world),
            expected=str(nodes),
        )
    if nodes > 1 and recipe.distributed_backend == "ray":
        yield finding("ray-not-supported", "distributed_backend is ray", observed="ray", expected="mp")
    if recipe.shm_size and all(f.code != "shm-size-no-effect" for f in recipe.findings):
        yield finding(
            "shm-size-no-effect",
            f"shm_size {recipe.shm_size} has no effect: ranks share the host's /dev/shm (--ipc host)",
            observed=recipe.shm_size,
        )
    seqs, k, captured = values.max_num_seqs, values.speculative_tokens, values.capture_sizes
    if captured and seqs and seqs > 0:
        largest = seqs * ((k or 0) + 1)
        if max(captured) < largest:
            yield finding(
                "capture-sizes-short",
                f"the largest capture size is {max(captured)}, a full decode batch is {largest}",
                observed=str(max(captured)),
                expected=f"at least {largest}",
            )
        uneven = [size for size in captured if k and k > 0 and size % k and size % (k + 1)]
        if uneven:
            yield finding(
                "capture-sizes-uneven",
                f"capture sizes that are multiples of neither {k} nor {(k or 0) + 1}: {', '.join(map(str, uneven))}",
                observed=", ".join(map(str, uneven)),
            )


def _memory(recipe: Recipe, values: Effective, nodes: int, env: Mapping[str, str]) -> Iterator[Finding]:
    if recipe.gpus == "none":
        return
    if nodes >= 8 and nccl_buffers(env) != "small":
        yield finding(
            "nccl-buffers-default",
            f"NCCL's buffers are {'only partly set' if nccl_buffers(env) == 'partly' else 'at their default'}: "
            f"about 11.61 GiB on each node at eight ranks instead of 0.425 GiB",
            observed=nccl_buffers(env),
        )
    model = known_model(recipe.model)
    if model is not None and model.engram and recipe.engine == "vllm":
        given = any(arg.flag and arg.flag.split(".")[0] == "--engram-config" for arg in values.args)
        if not given and env.get("DSV41_ENGRAM_DISK", "0") in ("", "0"):
            yield finding(
                "engram-pinned",
                "no --engram-config: the Engram tables (23.6 GiB a node at eight ranks) go to pinned host memory",
                observed="not given",
                expected='{"cpu_offload":false}',
            )


def _environment(recipe: Recipe, nodes: int, env: Mapping[str, str]) -> Iterator[Finding]:
    for name in recipe.env:
        known = nearest(name)
        if known is not None:
            yield finding("env-name", f"env {name}: is {known} meant?", observed=name, expected=known)
    engine = ENGINES.get(recipe.engine)
    if nodes > 1 and engine is not None and engine.host_ip_env in recipe.env:
        yield finding("host-ip-fixed", f"env {engine.host_ip_env} is set for all nodes alike")
    if "VLLM_ENGINE_READY_TIMEOUT_S" in recipe.env:
        yield finding(
            "ready-timeout-note",
            f"VLLM_ENGINE_READY_TIMEOUT_S ends no boot; the console's own deadline is {recipe.ready_timeout_s:g} s",
        )
    arch = env.get("TORCH_CUDA_ARCH_LIST", "") + env.get("FLASHINFER_CUDA_ARCH_LIST", "")
    if "12.1" in arch and "MAX_JOBS" not in env:
        yield finding("jit-unbounded", "kernels may be compiled at run time and MAX_JOBS is not set")
    offline = env.get("HF_HUB_OFFLINE", "").strip().lower() in ("1", "true", "yes", "on")
    if offline and not is_path(recipe.model):
        yield finding("offline-hub-model", f"{recipe.model} must be in every node's cache: HF_HUB_OFFLINE is set")


def _image(recipe: Recipe) -> Iterator[Finding]:
    name = recipe.docker_image.rsplit("/", 1)[-1]
    if "@sha256:" in name:
        return
    _, colon, tag = name.partition(":")
    if tag == "local":
        yield finding("local-image", f"{recipe.docker_image} must be on every node before the launch")
    elif not colon or tag == "latest":
        yield finding("image-not-pinned", f"{recipe.docker_image} names no version", observed=tag or "no tag")


def _override(recipe: Recipe) -> Iterator[Finding]:
    for code in recipe.launch.override:
        if code in CODES:
            yield finding("recipe-override", f"[launch] override: {code} does not stop this recipe", observed=code)
        else:
            near = did_you_mean(code, CODES)
            yield finding(
                "override-unknown", f"[launch] override: no check has the code {code}", observed=code, remedy=near
            )


def _secrets(recipe: Recipe, values: Effective) -> Iterator[Finding]:
    for name, value in recipe.env.items():
        if value and (is_secret_name(name) or mask_text(value) != value):
            yield finding("secret-in-recipe", f"env {name} holds a secret in clear", observed=f"env {name}")
    for arg in values.args:
        if arg.flag is None:
            continue
        shown = arg.flag
        if any(arg.values) and (is_secret_name(arg.flag) or any(mask_text(v) != v for v in arg.values)):
            yield finding("secret-in-recipe", f"args: {shown} holds a secret in clear", observed=shown)
