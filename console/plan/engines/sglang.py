"""SGLang over several nodes: one `sglang.launch_server` a node, rank 0 with the API."""

from __future__ import annotations

from typing import Final

from console.plan.engines.base import Engine, RankArgs, RankContext
from console.plan.flags import SGLANG_ALIASES, find, parse_args
from console.recipe.model import Recipe

_OWNED: Final = frozenset({"--nnodes", "--node-rank", "--dist-init-addr"})


def rank_args(recipe: Recipe, context: RankContext) -> RankArgs:
    """`--model-path`, the recipe's arguments as written, then what only the launcher knows. --host and --port are the
    same on all ranks: a rank other than 0 answers only its own health check there [inferred from its source]."""
    args = parse_args(recipe.args, SGLANG_ALIASES)

    def lacking(flag: str, long: str, value: str) -> tuple[str, ...]:
        return () if find(args, long) else (flag, value)

    shared = (
        *lacking("--model-path", "--model-path", recipe.model),
        *recipe.args,
        *lacking("--tp", "--tp-size", str(context.tensor_parallel)),
    )
    if context.pipeline_parallel > 1:
        shared += lacking("--pp-size", "--pp-size", str(context.pipeline_parallel))
    if context.world > 1:
        shared += ("--nnodes", str(context.world), "--node-rank", str(context.rank))
        shared += ("--dist-init-addr", f"{_bracketed(context.head_address)}:{context.master_port}")
    shared += lacking("--host", "--host", context.api_host) + lacking("--port", "--port", str(context.port))
    return RankArgs(shared)


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


ENGINE: Final = Engine("sglang", ("python3", "-m", "sglang.launch_server"), "SGLANG_HOST_IP", _OWNED, rank_args)
