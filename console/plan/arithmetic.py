"""The sum that circulates for a model, done again with its units, beside what was measured."""

from __future__ import annotations

from console.base.absent import Absent, known
from console.plan.known_models import known_model
from console.plan.sizes import GB, GIB, both, gb, gib
from console.recipe.model import Recipe


def arithmetic(recipe: Recipe, world: int, total: int | Absent, utilisation: float | Absent) -> tuple[str, ...]:
    """Lines for a person; empty for a model without a published sum, and for another number of ranks."""
    model = known_model(recipe.model)
    if model is None or model.ranks != world:
        return ()
    weights, tables, process, true = model.sum_weights, model.sum_tables, model.sum_process, model.true_tables
    if weights is None or tables is None or process is None or true is None:
        return ()
    claimed = weights // world + tables // world + process
    lines = [
        f"The usual sum: weights {gb(weights)} / {world} = {both(weights // world)}, Engram {gb(tables)} / {world} = "
        f"{both(tables // world)}, process {both(process)}; together {both(claimed)}.",
        f"{gb(tables)} are the Engram tables in BF16; the checkpoint holds FP8: {gb(true)} / {world} = "
        f"{both(true // world)} a node [inferred].",
        f"Measured: {gib(model.resident)} resident on every rank, tables, draft model and vision included.",
    ]
    if known(total) and known(utilisation):
        share = round(utilisation * total)
        mixed = share / GIB - claimed / GB
        pool = share - model.resident - model.overhead
        lines.append(
            f"{utilisation:.2f} x {gib(total)} = {gib(share)}. Less {gb(claimed)} as if they were GiB: {mixed:.1f} for "
            f"the KV pool; in one unit {gib(share - claimed)}; with the measured model "
            + (f"about {gib(pool)} [inferred]." if pool > 0 else "nothing.")
        )
    return tuple(lines)
