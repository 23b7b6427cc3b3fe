"""A restart says what changes before it stops anything, and says so only of what it could compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from console.boot.events import Acted
from console.files.event_codec import encode_event
from console.files.journal import BootEntry, Journal
from console.plan.model import Plan
from console.recipe.mask import masked_source
from console.recipe.model import Recipe
from console.recipe.parse import parse_recipe
from console.services.restarting import restart_changes
from tests.plan.build import all_facts, plan_of, sparks

TEXT = """
engine = "vllm"
name = "small"
docker_image = "dsv41-flash:local"
model = "m"
required_nodes = 4
tensor_parallel_size = 4
distributed_backend = "mp"
args = ["--max-num-seqs", "{seqs}"]
[env]
API_KEY = "{key}"
"""
OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64
Ids = dict[str, str]


def recipe(seqs: int = 8, key: str = "hunter2hunter2", slug: str = "small") -> Recipe:
    return parse_recipe(TEXT.format(seqs=seqs, key=key), slug=slug, file="recipe.toml")


def facts(image: str = OLD) -> dict[str, object]:
    return {n: replace(f, image_ids={"dsv41-flash:local": image}) for n, f in all_facts(sparks()).items()}  # type: ignore[type-var]


def planned(of: Recipe, **options: object) -> Plan:
    return plan_of(of, sparks(), facts(), **options)  # type: ignore[arg-type]


def kept(tmp_path: Path, of: Recipe, *overrides: tuple[str, str]) -> BootEntry:
    journal = Journal(tmp_path / "boots")
    folder = journal.open_boot(of.slug, now=1_800_000_000.0, number=11)
    folder.write_recipe(masked_source(of))
    folder.write_plan(planned(of))
    folder.write_facts(facts())
    for code, by in overrides:
        folder.append_event(encode_event(Acted(1.0, "override", code, by)), flush=True)
    folder.close()
    (entry,) = journal.boots()
    return entry


def test_nothing_changed_is_said_of_what_was_compared(tmp_path: Path) -> None:
    same = recipe()
    entry = kept(tmp_path, same, ("memory-exhausted", "the recipe small"))
    assert restart_changes(entry, same, planned(same), facts()) == (
        "restart of small, against boot 11: nothing changed (recipe, nodes, image, overrides)",
    )
    unknown = {n: replace(f, image_ids={}) for n, f in facts().items()}  # type: ignore[type-var]
    (said,) = restart_changes(entry, same, planned(same), unknown)  # type: ignore[arg-type]
    assert said.endswith("nothing changed (recipe, nodes, image by its name, overrides)")


def test_recipe_nodes_image_and_overrides_each_have_their_line(tmp_path: Path) -> None:
    entry = kept(tmp_path, recipe(), ("port-busy", "ann@desk"))
    now = recipe(seqs=16, key="another-secret")
    said = restart_changes(entry, now, planned(now, head="dgx3"), facts(NEW), override=("memory-exhausted",))
    assert said[0] == "restart of small, against boot 11:"
    assert "  --max-num-seqs 8 -> 16" in said
    assert "  nodes dgx1, dgx2, dgx3, dgx4 -> dgx3, dgx1, dgx2, dgx4" in said
    assert "  image dsv41-flash:local aaaaaaaaaaaa -> bbbbbbbbbbbb on all nodes" in said
    assert {"  + override memory-exhausted", "  - override port-busy"} <= set(said)
    assert "hunter2" not in str(said) and "another-secret" not in str(said)
    running = {"dgx1": NEW, "dgx2": OLD, "dgx3": NEW, "dgx4": NEW}  # what the containers that run say
    assert "  image dsv41-flash:local aaaaaaaaaaaa -> bbbbbbbbbbbb on dgx2" in restart_changes(
        entry, now, planned(now), facts(NEW), images=running
    )


def test_another_recipe_none_kept_and_a_damaged_folder(tmp_path: Path) -> None:
    other = recipe(slug="other")
    assert "no boot is kept" in restart_changes(None, other, planned(other), facts())[0]
    entry = kept(tmp_path, recipe())
    assert "against boot 11 of small" in restart_changes(entry, other, planned(other), facts())[0]
    for file in entry.path.iterdir():
        if file.is_file():
            file.write_bytes(b"\xff{")
    said = restart_changes(entry, other, planned(other), facts())
    assert any("cannot be compared" in line for line in said)
