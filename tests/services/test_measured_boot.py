"""What an earlier boot of a recipe, or of its family, says about memory."""

from __future__ import annotations

import json
from pathlib import Path

from console.files.journal import Journal
from console.plan.memory_model import MeasuredBoot
from console.recipe.model import Recipe
from console.recipe.parse import parse_recipe
from console.services.model_check_measured import measured_boot

GIB = 1 << 30
TEXT = """engine = "vllm"
name = "x"
docker_image = "img:1"
model = "org/model"
required_nodes = 2
tensor_parallel_size = 2
args = ["--gpu-memory-utilization {share}", "--max-model-len {length}", "{more}"]
"""


def recipe(slug: str = "a", *, share: str = "0.80", length: int = 1000, more: str = "--enforce-eager") -> Recipe:
    return parse_recipe(TEXT.format(share=share, length=length, more=more), slug=slug, file=f"{slug}.toml")


def boot(journal: Journal, number: int, of: Recipe, *, model: float = 40.0, ready: float | None = 60.0) -> None:
    """A boot as the journal keeps it: recipe, facts, events, summary."""
    with journal.open_boot(of.slug, now=1_800_000_000.0 + number, number=number) as folder:
        folder.write_recipe(of.source)
        folder.write_summary({"recipe": of.slug, "ready_s": ready, "min_available_bytes": 14 * GIB})
    facts = {n: {"mem_total_bytes": 121 * GIB, "mem_available_bytes": 115 * GIB} for n in ("n1", "n2")}
    (folder.path / "facts.json").write_text(json.dumps(facts))
    events = [
        {"type": "BootOpened", "at": 0.0, "ranks": [{"rank": 0}, {"rank": 1}]},
        {"type": "RankProgress", "at": 1.0, "rank": 0, "numbers": {"model_gib": model, "kv_gib": 20.0}},
        {"type": "RankProgress", "at": 1.0, "rank": 1, "numbers": {"model_gib": model - 1, "kv_gib": 21.0}},
    ]
    (folder.path / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))


def found(journal: Journal, of: Recipe, world: int = 2) -> tuple[str, float] | None:
    measured = measured_boot(journal, of, world)
    if measured is None:
        return None
    assert isinstance(measured, MeasuredBoot) and isinstance(measured.resident_bytes, int)
    return measured.label, measured.resident_bytes / GIB


def test_the_newest_boot_of_the_recipe_comes_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    boot(journal, 1, recipe(), model=41.0)
    boot(journal, 2, recipe(share="0.90", length=9), model=42.0)
    boot(journal, 3, recipe("b"), model=43.0)
    boot(journal, 4, recipe(), ready=None)
    assert found(journal, recipe(share="0.77")) == ("boot 2", 42.0)
    assert found(journal, recipe(), world=4) is None


def test_another_recipe_of_the_family_stands_in_and_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    boot(journal, 7, recipe("b", share="0.91"))
    assert found(journal, recipe("a")) == ("boot 7 (b)", 40.0)


def test_what_loads_other_weights_is_no_family(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    boot(journal, 1, recipe(more="--quantization fp8"))
    assert found(journal, recipe()) is None
    boot(journal, 2, recipe("b", more="--speculative-config {}"))
    assert found(journal, recipe()) is None
