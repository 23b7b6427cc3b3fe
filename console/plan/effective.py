"""What a recipe's keys and arguments say together: the values that will hold when it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.plan.flags import SGLANG_ALIASES, VLLM_ALIASES, Arg, find_value, human_int, parse_args, real, whole
from console.recipe.model import DEFAULT_MASTER_PORT, DEFAULT_PORT, Recipe


@dataclass(frozen=True, slots=True)
class Effective:
    """Values in force. None: neither key nor argument says it. Sizes are numbers of ranks; ports are TCP ports."""

    args: tuple[Arg, ...]
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    port: int
    master_port: int
    utilisation: float | None
    max_model_len: int | None
    max_num_seqs: int | None
    max_batched_tokens: int | None
    speculative_tokens: int | None
    capture_sizes: tuple[int, ...] | None
    kv_cache_bytes: int | None

    @property
    def world(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


def aliases_of(engine: str) -> Mapping[str, str]:
    """The short forms that an engine knows."""
    return SGLANG_ALIASES if engine == "sglang" else VLLM_ALIASES


def effective(recipe: Recipe) -> Effective:
    """Keys and arguments together: an argument that can be read wins over a key, as it does in the engine."""
    args = parse_args(recipe.args, aliases_of(recipe.engine))
    sglang = recipe.engine == "sglang"
    names = (
        ("--tp-size", "--pp-size", "--dp-size")
        if sglang
        else (
            "--tensor-parallel-size",
            "--pipeline-parallel-size",
            "--data-parallel-size",
        )
    )
    tensor, pipeline, data = (whole(find_value(args, name)) for name in names)
    captured = json_object(find_value(args, "--compilation-config")).get("cudagraph_capture_sizes")
    spec = json_object(find_value(args, "--speculative-config")).get("num_speculative_tokens")
    return Effective(
        args=args,
        tensor_parallel=tensor or recipe.tensor_parallel_size,
        pipeline_parallel=pipeline or recipe.pipeline_parallel_size,
        data_parallel=(data or 1) if not sglang else 1,  # SGLang's dp shares the tensor parallel ranks
        port=_port(find_value(args, "--port"), recipe.port, DEFAULT_PORT),
        master_port=_port(find_value(args, "--master-port"), recipe.master_port, DEFAULT_MASTER_PORT),
        utilisation=real(find_value(args, "--mem-fraction-static" if sglang else "--gpu-memory-utilization")),
        max_model_len=human_int(find_value(args, "--context-length" if sglang else "--max-model-len")),
        max_num_seqs=whole(find_value(args, "--max-running-requests" if sglang else "--max-num-seqs")),
        max_batched_tokens=human_int(find_value(args, "--max-num-batched-tokens")),
        speculative_tokens=spec if isinstance(spec, int) and not isinstance(spec, bool) else None,
        capture_sizes=_sizes(captured),
        kv_cache_bytes=human_int(find_value(args, "--kv-cache-memory-bytes") or find_value(args, "--kv-cache-memory")),
    )


def json_object(text: str | None) -> dict[str, Any]:
    """A JSON object, or an empty one for anything else. Never raises."""
    if text is None or len(text) > 1_000_000:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def is_path(model: str) -> bool:
    """True for a model that is a folder on the node, not a hub id."""
    return model.startswith("/")


def _port(text: str | None, key: int, default: int) -> int:
    value = whole(text)
    return value if value is not None and key in (default, value) else key


def _sizes(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    sizes = [size for size in value if isinstance(size, int) and not isinstance(size, bool)]
    return tuple(sizes) if len(sizes) == len(value) else None
