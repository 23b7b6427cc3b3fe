"""Toasts: the same one once, few at once, and never over a dialog."""

from __future__ import annotations

import pytest
from textual.widgets._toast import Toast

from console.tui.spans import plain
from console.tui.toasts import AT_ONCE, News
from tests.tui.conftest import SIZES, Deck, deck


def told(d: Deck) -> list[str]:
    return [n.message for n in d.app._notifications]


async def test_the_same_again_is_counted_not_stacked() -> None:
    async with deck(toasts=True) as d:
        for _ in range(3):
            d.app.notify("nothing is asked", markup=False)
        d.app.notify("another thing", markup=False)
        assert told(d) == ["nothing is asked   ×3", "another thing"]
        d.app.notify("nothing is asked", markup=False)
        assert told(d) == ["another thing", "nothing is asked   ×4"]
        await d.settle()
        await d.pilot.pause()
        assert "nothing is asked   ×4" in d.text()


async def test_few_stand_at_once_and_an_error_outlives_the_others() -> None:
    async with deck(toasts=True) as d:
        d.app.notify("it broke", severity="error", markup=False)
        for i in range(6):
            d.app.notify(f"word {i}", markup=False)
        assert told(d) == ["it broke", "word 4", "word 5"]
        assert len(told(d)) == AT_ONCE


@pytest.mark.parametrize("size", SIZES)
async def test_no_toast_covers_a_dialog(size: tuple[int, int]) -> None:
    async with deck(size=size, toasts=True) as d:
        d.app.notify("told before the dialog opened", markup=False, timeout=600)
        d.app.notify("dgx8: the log could not be saved " + "x" * 200, severity="error", markup=False, timeout=600)
        await d.settle()
        for key in ("l", "s", "r", "p", "A", "question_mark", "n", "C", "q"):
            await d.press(key)
            screen = d.app.screen
            assert screen is not d.main, key
            d.app.notify("told while it is open", markup=False, timeout=600)
            while not screen.query(News) or "told while it is open" not in d.text().splitlines()[-1]:
                await d.pilot.pause(0.01)
            assert not [t for t in screen.query(Toast) if t.display and t.region.area]
            news = screen.query_one(News)
            frame = screen.query("#sheet, #strip").first()
            assert news.display and news.region.height == 1
            assert not news.region.overlaps(frame.region), (key, news.region, frame.region)
            assert "and 2 more" in d.text().splitlines()[-1]
            await d.press("escape")
            assert d.app.screen is d.main, key
        await d.pilot.pause()
        assert d.main.query(Toast)


async def test_hostile_news_is_only_text() -> None:
    async with deck(toasts=True) as d:
        await d.press("s")
        d.app.notify("[bold]x[/] \x1b[31mred\nnext", markup=False)
        await d.pilot.pause()
        await d.pilot.pause()
        line = plain(d.app.screen.query_one(News).content[0])
        assert line.startswith(" • [bold]x[/] red next")
