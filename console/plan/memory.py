"""The memory budget of each node: will the engine's gate pass, what stays for the system, how high may the share be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from console.base.absent import Absent, known
from console.base.findings import Finding
from console.cluster.facts import NodeFacts
from console.plan.arithmetic import arithmetic
from console.plan.codes import finding
from console.plan.effective import Effective, effective
from console.plan.known_models import known_model
from console.plan.memory_model import MeasuredBoot, MemoryReport, NodeBudget, Part
from console.plan.memory_parts import model_parts, nccl_part, process_part
from console.plan.nccl import SMALL_8, nccl_buffers
from console.plan.sizes import GIB, gib
from console.recipe.model import Recipe

# Guards of published GB10 clusters kill a boot when less than 4-6 GiB stay available; the upper figure is the default.
DEFAULT_RESERVE: Final = 6 * GIB
_NO_SHARE: Final = Absent("--gpu-memory-utilization is not given, and the engine's default depends on its version")


def memory_budget(
    recipe: Recipe,
    facts: Mapping[str, NodeFacts | Absent],
    world: int,
    measured: MeasuredBoot | None = None,
    headers_bytes: int | None = None,
    *,
    head: str | None = None,
    env: Mapping[str, str] | None = None,
) -> MemoryReport:
    """A budget for every node of `facts` (the first is the head unless named). All sizes are bytes. env: the ranks'
    environment, the recipe's own by default. What is not known is Absent with its reason, never 0."""
    names = list(facts)
    first = head or (names[0] if names else None)
    nodes = {
        name: node_budget(
            recipe,
            facts[name],
            world,
            measured,
            headers_bytes,
            node=name,
            is_head=name == first,
            env=recipe.env if env is None else env,
        )
        for name in names
    }
    return MemoryReport(nodes)


def node_budget(
    recipe: Recipe,
    facts: NodeFacts | Absent,
    world: int,
    measured: MeasuredBoot | None,
    headers_bytes: int | None,
    *,
    node: str,
    is_head: bool,
    env: Mapping[str, str],
) -> NodeBudget:
    """One node's budget: total = in use now + NCCL + processes + share + what stays."""
    values = effective(recipe)
    total = facts if isinstance(facts, Absent) else facts.mem_total_bytes
    available = facts if isinstance(facts, Absent) else facts.mem_available_bytes
    utilisation = _utilisation(recipe, values)
    nccl = nccl_part(recipe, world, env, measured)
    process = process_part(recipe, is_head, measured, world, available=available, nccl=nccl.size)
    inside = model_parts(recipe, world, measured, headers_bytes)
    share = round(utilisation * total) if known(utilisation) and known(total) else _first(utilisation, total)
    kv, share = _kv(values, inside, share)
    stays = _less(available, nccl.size, process.size, share)
    margin = _less(available, nccl.size, round(utilisation * total) if known(utilisation) and known(total) else share)
    system = Part("system", "in use now", _less(total, available), "MemTotal less MemAvailable on the node")
    free = Part("free", "stays for the system", stays, "available less NCCL, processes and share")
    reserve, reserve_source = _reserve(recipe)
    budget = NodeBudget(
        node=node,
        total=total,
        available=available,
        utilisation=utilisation,
        share=share,
        parts=(system, nccl, process, *inside, kv, free),
        gate=margin if isinstance(margin, Absent) else margin >= 0,
        gate_margin=margin,
        stays=stays,
        reserve=reserve,
        reserve_source=reserve_source,
        highest_utilisation=_highest(total, _less(available, nccl.size, process.size), reserve),
        kv_tokens=_tokens(recipe, kv),
        notes=arithmetic(recipe, world, total, utilisation),
        page_cache=_page_cache(facts),
    )
    found = tuple(_findings(budget, values, env)) if recipe.gpus != "none" else ()
    return NodeBudget(**{**{f: getattr(budget, f) for f in budget.__slots__}, "findings": found})


def _page_cache(facts: NodeFacts | Absent) -> int | Absent:
    if isinstance(facts, Absent):
        return facts
    return facts.launch if isinstance(facts.launch, Absent) else facts.launch.page_cache_bytes


def _utilisation(recipe: Recipe, values: Effective) -> float | Absent:
    if recipe.gpus == "none":
        return Absent("a CPU engine takes no share of a GPU's memory")
    if values.utilisation is None:
        return _NO_SHARE
    if not 0 < values.utilisation <= 1:
        return Absent(f"{values.utilisation:g} is no share")
    return values.utilisation


def _kv(values: Effective, inside: tuple[Part, ...], share: int | Absent) -> tuple[Part, int | Absent]:
    """The KV pool, and the share that follows: a pool of fixed size makes the share, else the share makes the pool."""
    fixed = values.kv_cache_bytes
    used = _sum(*(p.size for p in inside))
    if fixed is not None and fixed > 0:
        total = _sum(used, fixed)
        return Part("kv", "KV cache", fixed, "--kv-cache-memory-bytes"), total
    size = _less(share, used)
    if known(size) and size < 0:
        size = Absent(f"model and overhead are {gib(-size)} more than the share")
    return Part("kv", "KV cache", size, "share less model, tables and overhead"), share


def _reserve(recipe: Recipe) -> tuple[int, str]:
    if recipe.memory.reserve_gib is not None:
        return round(recipe.memory.reserve_gib * GIB), "[memory] reserve_gib"
    return DEFAULT_RESERVE, "the floor of published memory guards, 4-6 GiB"


def _highest(total: int | Absent, room: int | Absent, reserve: int) -> float | Absent:
    """The highest share in steps of 0.01 that leaves the reserve; it passes the gate too, since the gate asks less."""
    if not known(total) or not known(room) or total <= 0:
        return _first(total, room)
    value = min(1.0, math.floor((room - reserve) / total * 100 + 1e-9) / 100)
    return value if value > 0 else Absent("nothing is left for the engine beside the reserve")


def _tokens(recipe: Recipe, kv: Part) -> tuple[int, int] | Absent:
    model = known_model(recipe.model)
    if isinstance(kv.size, Absent):
        return kv.size
    if model is None:
        return Absent("tokens per GiB are not known for this model")
    low, high = model.kv_tokens_per_gib
    return round(kv.size / GIB * low), round(kv.size / GIB * high)


def _findings(budget: NodeBudget, values: Effective, env: Mapping[str, str]) -> list[Finding]:
    node, total, available = budget.node, budget.total, budget.available
    if not known(total) or not known(available):
        reason = (
            total.reason if isinstance(total, Absent) else available.reason if isinstance(available, Absent) else ""
        )
        return [finding("memory-unknown", f"{node}: no memory budget: {reason}", node=node, observed=reason)]
    found: list[Finding] = []
    share = round(budget.utilisation * total) if known(budget.utilisation) else None
    remedy = _remedy(budget, env)
    nccl = budget.part("nccl")
    cost = nccl.size if nccl is not None and known(nccl.size) else 0  # not measured: only the certain part is compared
    if share is not None and available - cost < share:
        sure = "will refuse" if available < share else "would refuse"
        less = f" - {gib(cost)} for NCCL = {gib(available - cost)}" if cost else ""
        found.append(
            finding(
                "memory-gate",
                f"{node}: {gib(available)} available{less}, and the engine asks for {budget.utilisation:.2f} x "
                f"{gib(total)} = {gib(share)}: it {sure} to start, {gib(share - available + cost)} short",
                node=node,
                observed=gib(available - cost),
                expected=f"at least {gib(share)}",
                remedy=remedy,
            )
        )
    if share is None or available >= share:
        found += _reserve_findings(budget, short=bool(found), env=env, remedy=remedy)
    return found + _kv_findings(budget, values)


def _reserve_findings(budget: NodeBudget, *, short: bool, env: Mapping[str, str], remedy: str) -> list[Finding]:
    """short: NCCL's buffers alone stop the gate; then it is said what would stay once they are set."""
    nccl = budget.part("nccl")
    stays = budget.stays
    if isinstance(stays, Absent) or nccl is None or isinstance(nccl.size, Absent):
        return []
    if short:
        stays += max(0, nccl.size - SMALL_8) if nccl_buffers(env) != "small" else 0
    if stays >= budget.reserve:
        return []
    text = (
        f"{gib(stays)} would stay available" if stays >= 0 else f"{gib(-stays)} more than the node has would be taken"
    )
    when = "while serving, with NCCL's buffers set," if short else "while serving"
    return [
        finding(
            "memory-exhausted" if stays < 0 and not short else "memory-reserve",
            f"{budget.node}: {when} {text} [inferred]; the reserve is {gib(budget.reserve)}",
            node=budget.node,
            observed=gib(stays),
            expected=f"at least {gib(budget.reserve)}",
            remedy=remedy,
        )
    ]


def _kv_findings(budget: NodeBudget, values: Effective) -> list[Finding]:
    kv = budget.part("kv")
    inside = [p.size for p in budget.parts if p.key in ("model", "tables", "overhead")]
    if kv is not None and isinstance(kv.size, Absent) and known(budget.share) and all(map(known, inside)):
        return [finding("kv-none", f"{budget.node}: {kv.size.reason}", node=budget.node)]
    if known(budget.kv_tokens) and values.max_model_len and budget.kv_tokens[1] < values.max_model_len:
        return [
            finding(
                "kv-below-context",
                f"{budget.node}: about {budget.kv_tokens[0]:,}-{budget.kv_tokens[1]:,} tokens of KV for a context of "
                f"{values.max_model_len:,}",
                node=budget.node,
                observed=str(budget.kv_tokens[1]),
                expected=str(values.max_model_len),
            )
        ]
    return []


def _remedy(budget: NodeBudget, env: Mapping[str, str]) -> str:
    parts = []
    if known(budget.highest_utilisation):
        parts.append(f"--gpu-memory-utilization {budget.highest_utilisation:.2f} keeps the reserve")
    process, nccl = budget.part("process"), budget.part("nccl")
    big = nccl is not None and known(nccl.size) and nccl.size > SMALL_8
    if big and nccl_buffers(env) != "small" and process is not None:
        room = _less(budget.available, SMALL_8, process.size)
        better = _highest(budget.total, room, budget.reserve)
        if known(better):
            parts.append(f"with NCCL's buffers set {better:.2f} does")
    return "; ".join(parts)


def _less(first: int | Absent, *rest: int | Absent) -> int | Absent:
    total = _sum(*rest)
    if isinstance(first, Absent):
        return first
    return total if isinstance(total, Absent) else first - total


def _sum(*sizes: int | Absent) -> int | Absent:
    total = 0
    for size in sizes:
        if isinstance(size, Absent):
            return size
        total += size
    return total


def _first(*values: float | Absent) -> Absent:
    return next((v for v in values if isinstance(v, Absent)), Absent("not known"))
