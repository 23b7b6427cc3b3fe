"""How large model, tables and overhead are on each node, and who says so: measured, hinted, published, or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from console.base.absent import Absent, known
from console.plan.known_models import KnownModel, known_model
from console.plan.memory_model import MeasuredBoot, Part
from console.plan.nccl import nccl_cost
from console.plan.sizes import GB, both, gb, gib
from console.recipe.model import Recipe

# What the engine's processes take beside their share of the GPU memory: Python, CUDA contexts, libraries. Inferred:
# with NCCL's buffers up in a bare process 114.8 GiB stay available on a GB10 (about 117 GiB idle), and with a share of
# 97.35 GiB 15.2-15.8 GiB while serving, 13.86 GiB on the head, which also runs the API server and the engine's core
# (rhys101/DeepSeek-V4.1-Flash-vLLM-DGX-Spark-8, results/2026-09-11).
PROCESS_WORKER: Final = 3_500 * (1 << 20)
PROCESS_HEAD: Final = 5_100 * (1 << 20)


def nccl_part(recipe: Recipe, world: int, env: Mapping[str, str], measured: MeasuredBoot | None) -> Part:
    """NCCL's buffers: as measured by the earlier boot of this size, else the published figure."""
    if measured is not None and measured.world == world and known(measured.nccl_bytes):
        return Part("nccl", "NCCL buffers", measured.nccl_bytes, f"measured in {measured.label}")
    size, source = nccl_cost(world, env, gpus=recipe.gpus != "none")
    return Part("nccl", "NCCL buffers", size, source)


def process_part(
    recipe: Recipe,
    is_head: bool,
    measured: MeasuredBoot | None,
    world: int,
    *,
    available: int | Absent,
    nccl: int | Absent,
) -> Part:
    """The processes beside the engine's share: from an earlier boot that shows what stayed while it served (where it
    does not show what was available before and what NCCL took, today's figures stand in), else inferred."""
    label = "processes beside the share"
    if measured is not None and measured.world == world and known(measured.serving_available_bytes):
        before = measured.available_before_bytes if known(measured.available_before_bytes) else available
        buffers = measured.nccl_bytes if known(measured.nccl_bytes) else nccl
        if known(before) and known(buffers):
            size = before - measured.serving_available_bytes - measured.share_bytes - buffers
            if size > 0:
                return Part("process", label, size, f"what {measured.label} took beside its share and NCCL")
    if recipe.gpus == "none":
        return Part("process", label, Absent("not measured for a CPU engine"), "not measured")
    size = PROCESS_HEAD if is_head else PROCESS_WORKER
    return Part("process", label, size, "from published boots on GB10 [inferred]")


def model_parts(
    recipe: Recipe, world: int, measured: MeasuredBoot | None, headers_bytes: int | None
) -> tuple[Part, ...]:
    """Model, extra tables where the model has them, and overhead (activations, graphs, workspaces). In this order of
    trust: an earlier boot of this recipe, the recipe's [memory], published measurements at the same number of ranks,
    the checkpoint's own headers (bytes over all ranks). Nothing known: Absent, with what would help.

    [memory] as recipes sum it up: weights_gb is the model, resident_gb the tables that stay in memory beside it
    (without weights_gb: all that is resident), process_gb what the engine needs inside its share beside them."""
    published = known_model(recipe.model)
    if published is not None and published.ranks != world:
        published = None
    overhead = _overhead(recipe, world, measured, published)
    hints = recipe.memory
    boot = measured is not None and measured.world == world and known(measured.resident_bytes)
    if not boot and hints.weights_gb is not None:
        weights = round(hints.weights_gb * GB)
        model = Part("model", "model", weights, f"[memory] weights_gb: {both(weights)}")
        if not hints.resident_gb:
            return model, overhead
        tables = round(hints.resident_gb * GB)
        return model, Part("tables", "resident tables", tables, f"[memory] resident_gb: {both(tables)}"), overhead
    resident, source = _resident(recipe, world, measured, published, headers_bytes)
    if known(resident) and published is not None and published.tables < resident:
        tables = published.tables
        return (
            Part("model", "model", resident - tables, f"{source}, less the tables"),
            Part("tables", "Engram tables", tables, f"FP8, {both(tables)} a node at {world} ranks [inferred]"),
            overhead,
        )
    return Part("model", "model and tables", resident, source), overhead


def _resident(
    recipe: Recipe,
    world: int,
    measured: MeasuredBoot | None,
    published: KnownModel | None,
    headers_bytes: int | None,
) -> tuple[int | Absent, str]:
    if measured is not None and measured.world == world and known(measured.resident_bytes):
        return measured.resident_bytes, f"measured in {measured.label}"
    if recipe.memory.resident_gb:
        size = round(recipe.memory.resident_gb * GB)
        return size, f"[memory] resident_gb: {both(size)}"
    if published is not None:
        return published.resident, published.source
    if headers_bytes is not None and headers_bytes > 0:
        size = headers_bytes // world
        whole = f"{gb(headers_bytes)} of tensors / {world} ranks"
        return size, f"{whole} = {both(size)}; what every rank repeats is not in it"
    return Absent("no earlier boot, no [memory] in the recipe, and the checkpoint's headers were not read"), "not known"


def _overhead(recipe: Recipe, world: int, measured: MeasuredBoot | None, published: KnownModel | None) -> Part:
    """An operator's process_gb is a round figure: a published measurement at the same number of ranks goes before."""
    label = "activations, graphs, workspaces"
    if measured is not None and measured.world == world and known(measured.resident_bytes) and known(measured.kv_bytes):
        size = measured.share_bytes - measured.resident_bytes - measured.kv_bytes
        if size >= 0:
            return Part("overhead", label, size, f"share less model less KV in {measured.label}")
    if published is not None:
        text = f"{gib(published.overhead)}: share less model less KV at {published.ranks} ranks, published [inferred]"
        return Part("overhead", label, published.overhead, text)
    if recipe.memory.process_gb is not None:
        size = round(recipe.memory.process_gb * GB)
        return Part("overhead", label, size, f"[memory] process_gb: {both(size)}")
    return Part("overhead", label, Absent("no earlier boot and no process_gb in [memory]"), "not known")
