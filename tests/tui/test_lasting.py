"""No picture ends the console: screens that open and close at once, and faults while drawing."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from console.files.faults import FaultFile
from console.tui.app import NightdeckApp
from console.tui.boot_pane import BootPane
from console.tui.lasting import AGAIN_S, Faults
from console.tui.screens.alarm_page import AlarmPage
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.main import MainScreen
from console.tui.screens.node_page import NodePage
from console.tui.screens.paper import PaperScreen
from tests.tui.conftest import SMALL, deck
from tests.tui.fake_hub import FakeHub

pytestmark = pytest.mark.filterwarnings("error")
OPENS = ("A", "question_mark", "i", "l", "C", "n")


def key(name: str) -> events.Key:
    character = {"question_mark": "?"}.get(name, name if len(name) == 1 else None)
    return events.Key(name, character)


@pytest.mark.parametrize("opens", OPENS)
async def test_a_screen_that_is_closed_as_soon_as_it_opens_ends_nothing(opens: str) -> None:
    """Keys come without a wait between them, the hub changes meanwhile, and timers fire on what is half gone."""
    async with deck(size=SMALL) as d:
        for turn in range(4):
            d.app.post_message(key(opens))
            for _ in range(turn % 4):
                await d.pilot.pause(0)
            d.hub.update()
            for widget in (*d.app.screen.walk_children(with_self=True),):
                if isinstance(widget, AlarmPage | PaperScreen | ConfirmScreen | MainScreen):
                    widget.post_message(events.Resize(d.app.size, d.app.size))
            d.app.post_message(key("escape"))
            d.app.post_message(key("escape"))
            d.hub.update()
        await d.settle()
        while len(d.app.screen_stack) > 1:
            await d.press("escape")
        assert d.app.is_running and d.app._exception is None
        assert "Boot 11" in d.text()


async def test_nothing_is_drawn_on_a_screen_that_was_removed() -> None:
    async with deck() as d:
        for make in (
            lambda: AlarmPage(d.hub, d.main.paint, d.main.glyphs),
            lambda: NodePage(d.hub, "dgx1", d.main.paint, d.main.glyphs),
            lambda: PaperScreen("words", lambda _width: [], d.main.paint),
            lambda: ConfirmScreen("words", lambda _width: [], (), d.main.paint),
        ):
            screen = make()
            for name in ("draw", "redraw", "settle", "refresh_page", "hint"):
                if hasattr(screen, name) and name != "hint":
                    getattr(screen, name)()  # before it is composed
            await d.app.push_screen(screen)
            await d.app.pop_screen()
            for name in ("draw", "redraw", "settle", "refresh_page"):
                if hasattr(screen, name):
                    getattr(screen, name)()  # and after it was removed: a job's answer that came late
        panes = list(d.main.query("Pane"))
        assert len(panes) == 5
        await d.main.remove_children()
        for pane in panes:
            if hasattr(pane, "draw"):
                pane.draw()


async def test_a_second_escape_does_not_close_what_is_under_the_page() -> None:
    async with deck() as d:
        await d.app.push_screen(ConfirmScreen("under", lambda _width: [], (), d.main.paint))
        page = AlarmPage(d.hub, d.main.paint, d.main.glyphs)
        await d.app.push_screen(page)
        page.dismiss()
        page.dismiss()
        await d.pilot.pause()
        assert [type(s).__name__ for s in d.app.screen_stack[1:]] == ["ConfirmScreen"]


async def test_a_fault_in_drawing_is_written_down_and_told_once_and_the_console_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FaultFile(tmp_path / "state" / "faults.log")
    app = NightdeckApp(FakeHub(), keep_fault=file.keep)

    def broken(*_args: object) -> None:
        raise ZeroDivisionError("with hf_abcdefghijklmnopqrstuvwxyz012345")

    async with app.run_test(size=(160, 48)) as pilot:
        await pilot.pause()
        main = app._main
        assert main is not None
        with monkeypatch.context() as patch:
            patch.setattr(BootPane, "_heading", broken)
            for _ in range(3):
                main.query_one(BootPane).post_message(events.Resize(app.size, app.size))  # as a handler
                main.set_timer(0.001, main.draw)  # as a timer
                main.call_next(main.draw)
                await pilot.pause(0.01)
            patch.setattr(BootPane, "render", broken)  # while it is painted
            main.query_one(BootPane).refresh()
            await pilot.pause(0.05)
        told = [n.message for n in app._notifications]
        main.query_one(BootPane).set_title(())
        main.draw()
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, PaperScreen)  # keys still work
        await pilot.press("escape")
        await pilot.pause()
        assert "Boot 11" in str(main.query_one(BootPane).border_title)  # and so does the pane
        assert app.return_code in (None, 0)
    text = file.path.read_text()
    assert 1 <= text.count("Traceback") <= 2  # one place, whatever asked for the picture
    assert "ZeroDivisionError" in text and "hf_abcdefghijklmnopqrstuvwxyz012345" not in text
    assert any("a fault of the console (ZeroDivisionError in boot_pane.py:" in words for words in told)
    assert any(str(file.path) in words for words in told)


def test_the_same_fault_is_told_again_after_a_minute() -> None:
    now = [0.0]
    kept: list[str] = []

    def keep(text: str) -> str:
        kept.append(text)
        return "there"

    faults = Faults(keep, lambda: now[0])
    fault = ValueError("x")
    assert "ValueError" in faults.take(fault)
    assert faults.take(fault) == ""
    now[0] = AGAIN_S
    assert "there" in faults.take(fault)
    assert len(kept) == 2


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    words = Faults(FaultFile(tmp_path / "state" / "faults.log").keep).take(ValueError("x"))
    assert "could not be written down" in words
