"""The manual's page of keys is the registry's."""

from __future__ import annotations

from pathlib import Path

from console.tui.__main__ import page


def test_the_page_of_keys_is_current() -> None:
    file = Path(__file__).parents[2] / "docs" / "keys.md"
    assert file.read_text("utf-8") == page(), "run `python -m console.tui > docs/keys.md`"
