"""Themes, signs, colours: state is never colour alone, and every theme can be drawn."""

from __future__ import annotations

import pytest
from rich.style import Style

from console.base.theme import ThemeColours
from console.tui.glyphs import ASCII, UNICODE, bar, spark
from console.tui.paint import ROLES, Paint
from console.tui.spans import clip, fit, line_width, plain, spread, wrap
from console.tui.theme import COLOURS, NIGHTDECK, fallback_variables, textual_theme, variables_of
from tests.tui.conftest import deck
from tests.tui.fake_hub import FakeHub


def test_every_role_has_a_colour_in_every_theme() -> None:
    bare = ThemeColours("bare", True, {"primary": "#5fafff"})
    for theme in (NIGHTDECK, bare):
        variables = {**COLOURS, **variables_of(theme)}
        paint = Paint(variables, fallback_variables())
        for role, (variable, _) in ROLES.items():
            assert paint.colour(variable), role
            assert paint.style(f"{role} bold", Style()).bold


def test_a_theme_that_lacks_colours_takes_ours() -> None:
    theme = textual_theme(ThemeColours("bare", False, {}, status={"lost": "#123456"}))
    assert theme.primary == COLOURS["primary"]
    assert theme.variables["node-lost"] == "#123456"
    assert theme.variables["node-fresh"] == NIGHTDECK.status["fresh"]


def test_bars_and_sparks() -> None:
    assert bar(UNICODE, 0.5, 10) == ("━━━━━", "─────")
    assert bar(UNICODE, 7, 4) == ("━━━━", "")
    assert bar(ASCII, 0.26, 4) == ("#", "...")
    assert spark(UNICODE, [0, None, 50, 100], 0, 100) == "▁ ▅█"


def test_spans_fit_by_cells_not_by_characters() -> None:
    assert line_width(((fit("節点", 3), "x"),)) == 3
    assert fit("abcdef", 4) == "abc…"
    assert fit("a", 3, ">") == "  a"
    assert plain(clip((("節点節点", "x"), ("b", "y")), 5)) == "節点…"
    assert plain(spread((("left side", "x"),), (("R", "y"),), 6)) == "left…R"
    assert wrap("one two three four", 9, limit=2) == ["one two", "three fo…"]


async def test_ascii_draws_with_ascii_alone() -> None:
    async with deck(ascii=True) as d:
        for _ in range(5):
            await d.press("tab")
            assert {c for c in d.text() if not c.isascii()} == set()


async def test_no_color_keeps_signs_words_and_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    async with deck("lost") as d:
        assert d.app.theme == "ansi-dark"
        assert d.app.native_ansi_color
        d.main.choose_pane("cluster")
        await d.pilot.pause()
        assert "✗ lost silent" in d.text()
        assert "▌" in d.text()
        assert list(d.app.theme_names()) == []


async def test_the_palette_previews_a_theme_and_escape_takes_it_back() -> None:
    hub = FakeHub()
    hub.theme_list = (ThemeColours("night", True, {"primary": "#444444"}), ThemeColours("paper", False, {}))
    async with deck(hub=hub) as d:
        await d.press("ctrl+p", *"theme: paper")
        await d.pilot.app.workers.wait_for_complete()
        await d.pilot.pause()
        assert d.app.theme == "paper"
        await d.press("escape")
        assert d.app.theme == "nightdeck"
        await d.press("ctrl+p", *"theme: paper")
        await d.pilot.app.workers.wait_for_complete()
        await d.press("enter")
        await d.pilot.pause()
        assert d.app.theme == "paper"
        assert "dgx1" in d.text()


async def test_an_unknown_theme_is_told_and_ours_is_used() -> None:
    async with deck(theme="nope") as d:
        assert d.app.theme == "nightdeck"
        assert any("no theme is called nope" in n.message for n in d.app._notifications)
