"""What changed in a recipe since its last boot: nothing, or no boot to compare with, and never one for the other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from console.files.journal import Journal
from console.recipe.mask import masked_source
from console.recipe.parse import parse_recipe
from console.services.ledger import Ledger
from console.services.picture import NO_BOOT, Picture

TEXT = (
    'engine = "vllm"\nname = "s"\ndocker_image = "x:{tag}"\nmodel = "m/m"\n'
    "required_nodes = 1\ntensor_parallel_size = 1\n"
)


def since(ledger: Ledger, tag: int = 1) -> tuple[str, ...]:
    recipe = parse_recipe(TEXT.format(tag=tag), slug="small", file="recipe.toml")
    picture = SimpleNamespace(_recipes=(recipe,), _ledger=ledger)
    return tuple(Picture.changes_since_last(picture, "small"))  # type: ignore[arg-type]


def test_no_boot_is_told_apart_from_no_change(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    ledger = Ledger(journal)
    assert since(ledger) == (NO_BOOT,)
    recipe = parse_recipe(TEXT.format(tag=1), slug="small", file="recipe.toml")
    with journal.open_boot("small", now=1_796_000_000.0, number=1) as folder:
        folder.write_recipe(masked_source(recipe))
    assert since(Ledger(journal)) == ()
    (line,) = since(Ledger(journal), 2)
    assert "x:1" in line and "x:2" in line
