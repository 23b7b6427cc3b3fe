"""The signs are all explained, in the set that is drawn with; names are cut where they say least."""

from __future__ import annotations

from dataclasses import fields

import pytest

from console.tui.glyphs import ASCII, UNICODE
from console.tui.legend import LEGEND, legend_lines, legend_page
from console.tui.spans import fit_name, plain, width_of
from tests.tui.conftest import SIZES, deck

# What frames, bars and texts are made of; the rest are signs with a meaning.
STUFF = {"rule", "dot", "unacked", "bar_full", "bar_parts", "bar_empty", "stack", "spark", "gap", "border", "ellipsis"}


def test_every_sign_with_a_meaning_is_in_the_legend() -> None:
    told = {name for _, rows in LEGEND for names, _ in rows for name in names.split()}
    assert told == {f.name for f in fields(UNICODE)} - STUFF


def test_the_legend_shows_the_signs_in_use() -> None:
    assert "   ◐      late: 3 to 10 s old" in "\n".join(plain(line) for line in legend_lines(80, UNICODE))
    ascii_ = "\n".join(plain(line) for line in legend_lines(80, ASCII))
    assert "   ~      late: 3 to 10 s old" in ascii_ and ascii_.isascii()
    assert "| ◐ | late: 3 to 10 s old |" in legend_page()


@pytest.mark.parametrize("size", SIZES)
async def test_help_ends_with_the_signs(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        await d.press("question_mark")
        seen = d.text()
        for _ in range(12):
            await d.press("pagedown")
            seen += d.text()
        for words in ("Signs", "not begun", "behind the other ranks", "late: 3 to 10 s old", "While a log is searched"):
            assert words in seen


def test_a_name_keeps_what_tells_it_from_its_kin() -> None:
    kin = ("dsv41-flash-8x-safe", "dsv41-flash-8x", "dsv41-flash-4x")
    for width in range(9, 22):
        cut = [fit_name(name, width) for name in kin]
        assert len(set(cut)) == 3 and all(width_of(c) == width for c in cut)
    assert fit_name("dsv41-flash-8x-safe", 16) == "dsv41…sh-8x-safe"
    assert fit_name("双双双双双双双双", 9).count("双") == 4
    assert fit_name("short", 9) == "short    "
