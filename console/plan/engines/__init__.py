"""One module per engine: what its own process gets on each rank."""

from __future__ import annotations

from console.base.errors import UsageError
from console.plan.engines import sglang, vllm
from console.plan.engines.base import Engine

ENGINES: dict[str, Engine] = {e.name: e for e in (vllm.ENGINE, sglang.ENGINE)}


def engine_of(name: str, *, where: str = "") -> Engine:
    """The module for a recipe's `engine`. Raises UsageError for one that nightdeck cannot render."""
    engine = ENGINES.get(name)
    if engine is None:
        raise UsageError(f"engine {name!r} is not known", where=where, remedy=f"known: {', '.join(sorted(ENGINES))}")
    return engine
