"""What earlier boots of a recipe showed about memory, and what the nodes' files say: for the next plan's budget."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from console.base.absent import NOT_SAMPLED, Absent, known
from console.base.errors import NightdeckError
from console.cluster.facts import NodeFacts
from console.files.journal import BootEntry, Journal, read_events
from console.plan.effective import effective
from console.plan.memory_model import MeasuredBoot
from console.plan.sizes import GIB
from console.recipe.model import Recipe, flag_value
from console.recipe.parse import parse_recipe

BOOTS: Final = 8  # of this recipe, and of its family; an older one says little of today's image
# Flags that decide how large the model is on a node.
WEIGHTS: Final = (
    "--quantization", "--dtype", "--load-format", "--speculative-config", "--engram-config", "--enable-expert-parallel",
)  # fmt: skip
FILE_BYTES: Final = 16 << 20


def measured_boot(journal: Journal, recipe: Recipe, world: int) -> MeasuredBoot | None:
    """The newest boot that came to ready with the same model, image and weights on as many nodes: of this recipe, else
    of another one of its family. Reads files; never raises for what is in them."""
    ready = [e for e in journal.boots() if _number(e.summary.get("ready_s")) is not None]
    own = [e for e in ready if e.recipe == recipe.slug]
    family = [e for e in ready if e.recipe != recipe.slug]
    for entry in (*own[:BOOTS], *family[:BOOTS]):
        found = _measured(entry, recipe, world)
        if found is not None:
            return found
    return None


def headers_bytes(facts: Mapping[str, NodeFacts | Absent]) -> int | None:
    """Bytes of all tensors of the model, as the first node says that read every header; None where none did."""
    for fact in facts.values():
        if isinstance(fact, Absent) or isinstance(fact.launch, Absent) or isinstance(fact.launch.models, Absent):
            continue
        for model in fact.launch.models:
            if model.state == "whole" and known(model.tensor_bytes) and model.tensor_bytes > 0:
                return model.tensor_bytes
    return None


def _measured(entry: BootEntry, recipe: Recipe, world: int) -> MeasuredBoot | None:
    try:
        text = (entry.path / "recipe.toml").read_text("utf-8", "replace")
        before = parse_recipe(text, slug=recipe.slug, file=str(entry.path / "recipe.toml"))
    except (OSError, NightdeckError):
        return None
    then, now = effective(before), effective(recipe)
    same = before.model == recipe.model and before.docker_image == recipe.docker_image and _alike(before, recipe)
    share = then.utilisation
    if not same or then.pipeline_parallel != now.pipeline_parallel or share is None or not 0 < share <= 1:
        return None
    ranks, resident, kv = _said(entry)
    total, available = _before(entry.path)
    if ranks != world or total is None:
        return None
    lowest = _number(entry.summary.get("min_available_bytes"))
    return MeasuredBoot(
        label=f"boot {entry.number}" + (f" ({entry.recipe})" if entry.recipe != recipe.slug else ""),
        world=world,
        utilisation=share,
        total_bytes=total,
        resident_bytes=NOT_SAMPLED if resident is None else round(resident * GIB),
        kv_bytes=NOT_SAMPLED if kv is None else round(kv * GIB),
        available_before_bytes=NOT_SAMPLED if available is None else available,
        serving_available_bytes=NOT_SAMPLED if lowest is None else int(lowest),
    )


def _alike(before: Recipe, now: Recipe) -> bool:
    """Whether the two keep the same tensors on a node: what is loaded, in which precision, and where it lies."""
    flags = all(flag_value(before.args, f) == flag_value(now.args, f) for f in WEIGHTS)
    return flags and before.env.get("DSV41_ENGRAM_DISK", "0") == now.env.get("DSV41_ENGRAM_DISK", "0")


def _said(entry: BootEntry) -> tuple[int, float | None, float | None]:
    """(ranks, the largest model in GiB, the smallest KV memory in GiB) as the engines printed them."""
    ranks = 0
    models: list[float] = []
    kvs: list[float] = []
    try:
        for line in read_events(entry.path):
            row = line.event or {}
            if row.get("type") == "BootOpened" and isinstance(row.get("ranks"), list):
                ranks = len(row["ranks"])
            numbers = row.get("numbers") if row.get("type") == "RankProgress" else None
            if isinstance(numbers, dict):
                models += [n for n in (_number(numbers.get("model_gib")),) if n]
                kvs += [n for n in (_number(numbers.get("kv_gib")),) if n]
    except NightdeckError:
        return 0, None, None
    return ranks, max(models, default=None), min(kvs, default=None)


def _before(folder: Path) -> tuple[int | None, int | None]:
    """(total, available) in bytes of the tightest node before the launch."""
    try:
        with (folder / "facts.json").open("rb") as file:
            facts: Any = json.loads(file.read(FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None, None
    rows = [f for f in facts.values() if isinstance(f, dict)] if isinstance(facts, dict) else []
    totals = [n for n in (_number(f.get("mem_total_bytes")) for f in rows) if n]
    free = [n for n in (_number(f.get("mem_available_bytes")) for f in rows) if n]
    return (int(min(totals)) if totals else None), (int(min(free)) if free else None)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
