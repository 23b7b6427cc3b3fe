"""The memory budget as `plan` and `preflight` print it."""

from __future__ import annotations

from console.base.absent import Absent
from console.cli.memory_lines import HEADS, memory_rows, source_lines
from console.plan.memory_model import MeasuredBoot
from tests.plan.build import GIB, all_facts, plan_of, safe, seed, sparks
from tests.plan.test_preflight_launch import world


def test_a_row_for_each_node_and_the_page_cache_in_it() -> None:
    rows = memory_rows(plan_of(safe(), sparks(), world()).memory)
    assert [r[0] for r in rows] == [f"dgx{i}" for i in range(1, 9)] and {len(r) for r in rows} == {len(HEADS)}
    assert rows[1] == ["dgx2", "121.7", "117.0", "3.0", "97.4", "0.4", "15.8", "0.88"]


def test_what_is_not_known_is_not_0() -> None:
    facts = all_facts(sparks())
    facts["dgx3"] = Absent("connection refused")
    assert memory_rows(plan_of(safe(), sparks(), facts).memory)[2][1:4] == ["n/a"] * 3


def test_the_sum_of_the_seed_is_done_again_and_one_figure_fits_all_nodes() -> None:
    text = "\n".join(source_lines(plan_of(seed(), sparks(), world()).memory))
    assert "406.0 GB are the Engram tables in BF16; the checkpoint holds FP8" in text
    assert "Less 101.2 GB as if they were GiB: 9.6 for the KV pool; in one unit 16.52 GiB" in text
    assert "--gpu-memory-utilization 0.77 keeps it on all nodes (dgx1 decides)" in text


def test_a_measured_boot_is_named() -> None:
    boot = MeasuredBoot("boot 4", 8, 0.80, 121 * GIB, resident_bytes=70 * GIB, kv_bytes=17 * GIB)
    text = "\n".join(source_lines(plan_of(safe(), sparks(), world(), measured=boot).memory))
    assert "measured in boot 4" in text and "share less model less KV in boot 4" in text
