"""The memory budget against published figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.base.absent import NOT_SAMPLED, Absent, known
from console.plan.memory import memory_budget
from console.plan.memory_model import MeasuredBoot, NodeBudget
from console.plan.nccl import nccl_cost
from console.recipe.model import MemoryHints, Recipe
from tests.plan.build import GB10_TOTAL, GIB, NCCL_SMALL, SEED_ENV, codes, safe, seed, spark_facts, tiny, with_args


def budget(
    recipe: Recipe,
    available_gib: float,
    *,
    world: int = 8,
    head: bool = False,
    measured: MeasuredBoot | None = None,
    headers: int | None = None,
) -> NodeBudget:
    facts = spark_facts("dgx2", 2, mem_available_bytes=round(available_gib * GIB))
    report = memory_budget(recipe, {"dgx2": facts}, world, measured, headers, head="dgx2" if head else "dgx1")
    return report.nodes["dgx2"]


def size(result: NodeBudget, key: str) -> float:
    part = result.part(key)
    assert part is not None and known(part.size), key
    return part.size / GIB


def test_the_seed_with_108_gib_is_refused_by_the_engines_gate() -> None:
    result = budget(seed(), 108)
    assert result.gate is False
    assert known(result.share) and result.share / GIB == pytest.approx(110.74, abs=0.01)
    assert size(result, "nccl") == pytest.approx(11.61, abs=0.001)
    assert known(result.gate_margin) and result.gate_margin / GIB == pytest.approx(108 - 11.61 - 110.74, abs=0.01)
    assert codes(result.findings) == ["memory-gate"]
    found = result.findings[0]
    assert found.severity == "warn"
    assert "108.00 GiB available - 11.61 GiB for NCCL = 96.39 GiB" in found.message
    assert "0.91 x 121.69 GiB = 110.74 GiB" in found.message and "14.35 GiB short" in found.message
    assert "0.71 keeps the reserve; with NCCL's buffers set 0.80 does" in found.remedy


def test_the_seed_on_an_idle_node_passes_only_with_the_buffers_and_leaves_next_to_nothing() -> None:
    """Published: 13.86-15.78 GiB stay at 0.80; at 0.91 that extrapolates to 0.5-2.5 GiB."""
    default = budget(seed(), 117)
    assert default.gate is False and codes(default.findings) == ["memory-gate", "memory-reserve"]
    assert "would refuse" in default.findings[0].message
    assert "with NCCL's buffers set, 2." in default.findings[1].message
    small = budget(seed(env={**SEED_ENV, **NCCL_SMALL}), 117)
    assert small.gate is True and codes(small.findings) == ["memory-reserve"]
    assert known(small.stays) and 0.5 <= small.stays / GIB <= 2.6


@pytest.mark.parametrize("available", [116, 117, 118])
@pytest.mark.parametrize("head", [True, False])
def test_the_safe_recipe_leaves_what_was_measured(available: float, head: bool) -> None:
    result = budget(safe(), available, head=head)
    assert result.gate is True and result.findings == ()
    assert known(result.stays) and 13.86 - 1.5 <= result.stays / GIB <= 15.78 + 1.5


def test_the_kv_pool_of_the_safe_recipe_is_the_measured_one() -> None:
    result = budget(safe(), 117)
    assert 14.96 <= size(result, "kv") <= 17.18
    assert known(result.kv_tokens)
    low, high = result.kv_tokens
    assert low <= 3_193_029 * 1.1 and high >= 3_193_029 and low < high
    assert 28 <= size(budget(seed(), 117), "kv") <= 30


def test_parts_add_up_to_the_total_and_name_their_sources() -> None:
    for recipe in (seed(), safe()):
        result = budget(recipe, 117)
        sizes = [p.size for p in result.parts]
        assert all(known(s) for s in sizes)
        assert sum(s for s in sizes if known(s)) == GB10_TOTAL
        assert all(p.source for p in result.parts)
    assert size(result, "model") + size(result, "tables") == pytest.approx(73.16, abs=0.01)
    assert size(result, "tables") == pytest.approx(23.63, abs=0.01)


def test_the_usual_sum_and_its_slips() -> None:
    notes = "\n".join(budget(seed(), 117).notes)
    assert "307.3 GB / 8 = 38.4 GB = 35.77 GiB" in notes
    assert "406.0 GB / 8 = 50.8 GB = 47.26 GiB" in notes
    assert "406.0 GB are the Engram tables in BF16" in notes
    assert "203.0 GB / 8 = 25.4 GB = 23.63 GiB" in notes
    assert "73.16 GiB resident on every rank" in notes
    assert "Less 101.2 GB as if they were GiB: 9.6 for the KV pool; in one unit 16.5" in notes
    assert budget(tiny(), 117, world=2).notes == ()


def test_the_highest_share_keeps_the_reserve() -> None:
    result = budget(safe(), 117)
    assert result.highest_utilisation == 0.88
    raised = budget(with_args(safe(), gpu_memory_utilization="0.88"), 117)
    assert known(raised.stays) and raised.stays >= raised.reserve and raised.findings == ()
    over = budget(with_args(safe(), gpu_memory_utilization="0.89"), 117)
    assert known(over.stays) and over.stays < over.reserve and codes(over.findings) == ["memory-reserve"]
    own = budget(safe(memory=MemoryHints(reserve_gib=12.0)), 117)
    assert own.reserve == 12 * GIB and own.highest_utilisation == 0.83


def test_a_share_that_passes_the_gate_and_freezes_the_node_blocks() -> None:
    result = budget(with_args(safe(), gpu_memory_utilization="0.95"), 117)
    assert result.gate is True and [(f.code, str(f.severity)) for f in result.findings] == [
        ("memory-exhausted", "block")
    ]


def test_an_unknown_model_is_absent_and_never_0() -> None:
    recipe = with_args(tiny(gpus="all", model="/models/other"), gpu_memory_utilization="0.8")
    result = budget(recipe, 117, world=2)
    for key in ("model", "overhead", "kv", "nccl", "free"):
        part = result.part(key)
        assert part is not None and isinstance(part.size, Absent) and part.size.reason, key
    assert isinstance(result.stays, Absent) and isinstance(result.kv_tokens, Absent)
    json = result.as_json()
    assert json["stays_bytes"] is None and json["stays_why"]
    assert all(p["size_bytes"] != 0 for p in json["parts"])


def test_without_facts_there_is_no_budget_but_a_reason() -> None:
    report = memory_budget(safe(), {"dgx1": Absent("no route to host")}, 8)
    result = report.nodes["dgx1"]
    assert result.total == Absent("no route to host") and isinstance(result.gate, Absent)
    assert [(f.code, f.observed) for f in report.findings] == [("memory-unknown", "no route to host")]


def test_without_a_share_nothing_is_guessed() -> None:
    result = budget(with_args(safe(), gpu_memory_utilization=None), 117)
    assert isinstance(result.share, Absent) and "default depends on its version" in result.share.reason
    assert isinstance(result.gate, Absent) and known(result.highest_utilisation)


def test_hints_and_headers_in_their_own_units() -> None:
    recipe = with_args(tiny(gpus="all"), gpu_memory_utilization="0.5")
    hinted = budget(replace(recipe, memory=MemoryHints(resident_gb=30.0, process_gb=12.0)), 117, world=1)
    assert size(hinted, "model") == pytest.approx(27.94, abs=0.01)
    assert size(hinted, "overhead") == pytest.approx(11.18, abs=0.01)
    assert size(hinted, "nccl") == 0 and size(hinted, "kv") == pytest.approx(60.84 - 27.94 - 11.18, abs=0.02)
    read = budget(recipe, 117, world=2, headers=64 * 10**9)
    assert size(read, "model") == pytest.approx(29.80, abs=0.01)
    part = read.part("model")
    assert part is not None and "64.0 GB of tensors / 2 ranks = 32.0 GB = 29.80 GiB" in part.source


def test_the_shipped_sums_give_the_measured_pools() -> None:
    """Eight nodes: 53.2 GB of model and 25.4 GB of tables are 73.2 GiB. Four nodes: 81.58 GiB and 5.15-6.13 GiB of KV,
    Engram on disk, with a share of 0.80."""
    eight = budget(safe(memory=MemoryHints(53.2, 25.4, 10.2, 6.0)), 115.83)
    assert size(eight, "model") + size(eight, "tables") == pytest.approx(73.16, abs=0.1)
    assert 14.96 <= size(eight, "kv") <= 17.18 and eight.findings == ()
    assert known(eight.stays) and 13.86 - 1.5 <= eight.stays / GIB <= 15.78 + 1.5
    four = budget(safe(required_nodes=4, memory=MemoryHints(87.6, 0.0, 10.2, 6.0)), 115.83, world=4)
    assert size(four, "model") == pytest.approx(81.58, abs=0.01) and four.part("tables") is None
    assert 5.15 <= size(four, "kv") <= 6.5


def test_a_measured_boot_comes_first() -> None:
    boot = MeasuredBoot(
        "boot 10",
        world=8,
        utilisation=0.80,
        total_bytes=GB10_TOTAL,
        resident_bytes=round(73.2 * GIB),
        kv_bytes=16 * GIB,
        available_before_bytes=round(116.5 * GIB),
        serving_available_bytes=round(15.2 * GIB),
        nccl_bytes=round(0.41 * GIB),
    )
    result = budget(safe(), 116.5, measured=boot)
    assert known(result.stays) and result.stays / GIB == pytest.approx(15.2, abs=0.01)
    higher = budget(with_args(safe(), gpu_memory_utilization="0.85"), 116.5, measured=boot)
    assert known(higher.stays) and higher.stays / GIB == pytest.approx(15.2 - 0.05 * 121.69, abs=0.01)
    assert size(higher, "kv") == pytest.approx(16 + 0.05 * 121.69, abs=0.01)
    bare = replace(boot, available_before_bytes=NOT_SAMPLED, nccl_bytes=NOT_SAMPLED)
    again = budget(with_args(safe(), gpu_memory_utilization="0.85"), 116.5, measured=bare)
    assert known(again.stays) and again.stays / GIB == pytest.approx(15.2 - 0.05 * 121.69, abs=0.01)
    other = budget(safe(), 116.5, measured=replace(boot, world=4))
    assert size(other, "nccl") == pytest.approx(0.425, abs=0.001)


def test_a_context_that_does_not_fit_and_a_model_that_does_not() -> None:
    small = budget(with_args(safe(), gpu_memory_utilization="0.68", max_model_len="1m"), 117)
    assert codes(small.findings) == ["kv-below-context"]
    assert codes(budget(with_args(safe(), gpu_memory_utilization="0.60"), 117).findings) == ["kv-none"]


def test_a_cpu_engine_has_no_gate() -> None:
    result = budget(tiny(), 3, world=2)
    assert result.findings == () and isinstance(result.gate, Absent) and size(result, "nccl") == 0


@pytest.mark.parametrize(
    "world, env, expected",
    [
        (1, {}, 0.0),
        (2, {}, None),
        (4, {}, 10.425),
        (8, {}, 11.61),
        (16, {}, 11.61),
        (8, NCCL_SMALL, 0.425),
        (4, NCCL_SMALL, 0.425),
        (2, NCCL_SMALL, None),
        (8, {"NCCL_BUFFSIZE": "1048576"}, 11.61),
        (8, {"NCCL_BUFFSIZE": "lots", "NCCL_MAX_NCHANNELS": "-3"}, 11.61),
    ],
)
def test_nccl(world: int, env: dict[str, str], expected: float | None) -> None:
    cost, source = nccl_cost(world, env, gpus=True)
    assert source
    if expected is None:
        assert isinstance(cost, Absent)
    else:
        assert known(cost) and cost / GIB == pytest.approx(expected, abs=0.001)
