"""vLLM over several nodes with its multiprocessing backend: one `vllm serve` a node, rank 0 with the API."""

from __future__ import annotations

from typing import Final

from console.plan.engines.base import Engine, RankArgs, RankContext
from console.plan.flags import find, parse_args
from console.recipe.model import Recipe

# --nnodes and its companions came with vLLM's multi-node mp backend; releases before 0.26 lack them.
_OWNED: Final = frozenset({"--nnodes", "--node-rank", "--master-addr", "--headless"})


def rank_args(recipe: Recipe, context: RankContext) -> RankArgs:
    """The model as the positional argument, the recipe's arguments as written, then what only the launcher knows.
    Every rank gets the same but for --node-rank, --headless and --host/--port."""
    args = parse_args(recipe.args)

    def lacking(flag: str, value: str) -> tuple[str, ...]:
        return () if find(args, flag) else (flag, value)

    shared = (
        recipe.model,
        *recipe.args,
        *lacking("--tensor-parallel-size", str(context.tensor_parallel)),
        *lacking("--pipeline-parallel-size", str(context.pipeline_parallel)),
        *lacking("--distributed-executor-backend", recipe.distributed_backend),
    )
    if context.world > 1:
        shared += ("--nnodes", str(context.world), "--node-rank", str(context.rank))
        shared += ("--master-addr", context.head_address, *lacking("--master-port", str(context.master_port)))
    if not context.is_head:
        return RankArgs(shared, ("--headless",))
    return RankArgs(shared, (*lacking("--host", context.api_host), *lacking("--port", str(context.port))))


ENGINE: Final = Engine("vllm", None, "VLLM_HOST_IP", _OWNED, rank_args)
