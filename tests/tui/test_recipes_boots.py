"""The recipes and boots panes."""

from __future__ import annotations

import pytest

from console.services.hub import RecipeProblem
from console.tui.boots_pane import BootsPane
from console.tui.recipes_pane import RecipesPane, problem_words
from tests.tui.conftest import SIZES, deck


@pytest.mark.parametrize("size", SIZES)
async def test_a_recipe_shows_plan_findings_and_what_changed(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        d.main.choose_pane("recipes")
        await d.pilot.pause()
        await d.pilot.pause()
        text = d.text()
        for words in ("glm-5-8x", "since its last boot", "0.91 → 0.80", "findings", "nothing blocks", "engram-offload"):
            assert words in text
        await d.press("enter", "end")
        assert "HF_TOKEN=***" in d.text()


async def test_search_and_the_launch_of_the_chosen_one() -> None:
    async with deck("waiting") as d:
        d.main.choose_pane("recipes")
        await d.press("slash", *"glm", "enter")
        pane = d.main.query_one(RecipesPane)
        assert [row.key for row in pane.grid.rows] == ["glm-5-8x"]
        await d.press("l")
        assert "Launch glm-5-8x" in d.text()


def test_problem_words() -> None:
    assert problem_words(RecipeProblem("a.toml", "bad", 7, 3, "model")) == "a.toml:7:3: model: bad"
    assert problem_words(RecipeProblem("a.toml", "cannot be opened")) == "a.toml: cannot be opened"


@pytest.mark.parametrize("size", SIZES)
async def test_a_broken_file_is_listed_and_opens_at_its_line(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, int | None]] = []

    async def edit(_app: object, file: str, line: int | None = None) -> str:
        opened.append((file, line))
        return "vi"

    monkeypatch.setattr("console.tui.screens.look_actions.edit", edit)
    async with deck("problems", size=size) as d:
        d.main.choose_pane("recipes")
        await d.press("end")
        assert "recipes/qwen-next/recipe.toml:7:1: dokcer_image: unknown key" in " ".join(
            d.text().split("│")[0].split()
        ) or ("dokcer_image" in d.text())
        await d.press("e")
        await d.app.jobs.idle()
        assert opened == [("recipes/qwen-next/recipe.toml", 7)]
        assert d.calls("reload") == [None]


@pytest.mark.parametrize("size", SIZES)
async def test_the_ledger_opens_one_and_compares_two(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        d.main.choose_pane("boots")
        await d.pilot.pause()
        text = d.text()
        assert "✗ failed" in text
        assert "10:10" in text
        await d.press("down", "i")
        assert "boot 10" in d.text()
        assert "LL128 off" in d.text()
        await d.press("escape", "c", "down", "down", "c")
        await d.app.jobs.idle()
        await d.pilot.pause()
        assert d.calls("compare") == [("b8", "b10")]
        text = d.text()
        assert "Boot 8 and boot 10" in text
        assert "--gpu-memory-utilization" in text
        assert "o boot 8 lowest 14.0   x boot 11 lowest 7.0" in text
        assert text.count("xx") > 2
        await d.press("escape")
        assert d.main.query_one(BootsPane).marked is None
