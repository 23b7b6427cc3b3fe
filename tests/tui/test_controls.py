"""Two consoles: who has the controls is seen, asked for, taken knowingly, lost with a notice; alarms ring here."""

from __future__ import annotations

import asyncio

import pytest

from console.boot.state import Phase
from console.services.hub import ControlsView
from console.tui.controls_lines import controls_alert, person
from console.tui.glyphs import UNICODE
from console.tui.screens.controls import ControlsScreen
from console.tui.spans import plain
from tests.tui import fake_values
from tests.tui.conftest import SIZES, Deck, deck
from tests.tui.fake_hub import FakeHub

ANN = "ann@desk, launching glm since 02:58:11 UTC"


def held(**changes: object) -> FakeHub:
    hub = FakeHub()
    hub.update(controls=ControlsView("other", ANN, at=0.0), **changes)
    return hub


def line(d: Deck) -> str:
    return d.text().splitlines()[1]


@pytest.mark.parametrize("size", SIZES)
async def test_another_console_is_named_and_asked(size: tuple[int, int]) -> None:
    async with deck(hub=held(), size=size) as d:
        assert f"{ANN} has the controls" in line(d)
        assert "controls: ann@desk" in d.text()
        await d.press("C")
        text = d.text()
        assert ANN in text
        assert "Ask for them [A]" in text
        assert "Take over [T]" in text
        assert "Hold them" not in text
        assert d.app.focused is not None and d.app.focused.id == "cancel"
        await d.press("A")
        await d.app.jobs.idle()
        await d.settle()
        assert d.calls("ask controls") == [None]
        assert "ann@desk was asked for the controls" in line(d)


async def test_taking_over_names_the_holder_and_needs_a_second_yes() -> None:
    async with deck(hub=held()) as d:
        await d.press("C", "T")
        assert "You take the controls from" in d.text()
        assert ANN in d.text()
        assert "Take them from ann@desk [T]" in d.text()
        assert d.app.focused is not None and d.app.focused.id == "cancel"
        await d.press("escape")
        assert d.calls("hold controls") == []
        await d.press("C", "T", "T")
        await d.app.jobs.idle()
        await d.settle()
        assert d.calls("hold controls") == [True]
        assert "controls held" in d.text().splitlines()[0]


@pytest.mark.parametrize("key", ["l", "r", "s"])
async def test_what_changes_nodes_leads_to_the_controls_while_another_has_them(key: str) -> None:
    async with deck(hub=held()) as d:
        await d.press(key)
        await d.app.jobs.idle()
        await d.pilot.pause()
        assert isinstance(d.app.screen, ControlsScreen)
        assert "needs them: nothing was started or stopped" in d.text()
        await d.press("escape")
        d.hub.update(controls=ControlsView("free"))
        await d.press(key)
        await d.pilot.pause()
        assert not isinstance(d.app.screen, ControlsScreen)
        assert d.app.screen is not d.main


async def test_a_holders_name_does_not_outlive_the_stop_that_is_seen() -> None:
    hub = held()
    async with deck(hub=hub) as d:
        await d.app.jobs.idle()
        hub.holds_now = ControlsView("other", "ann@desk, stopping since 02:58:11 UTC")
        hub.time += 3.0
        await d.settle()
        await d.app.jobs.idle()
        await d.settle()
        assert "ann@desk, stopping" in line(d)
        hub.holds_now = ControlsView("free")
        before = len(d.calls("look at controls"))
        await d.settle()
        assert len(d.calls("look at controls")) == before and "ann@desk" in line(d)
        hub.update_boot(phase=Phase.STOPPED, stop_result="stopped", stop_by="ann@desk")
        await d.settle()
        await d.app.jobs.idle()
        await d.settle()
        assert len(d.calls("look at controls")) == before + 1
        assert "ann@desk" not in line(d)


async def test_one_that_still_holds_after_it_is_asked_for_again_ever_less_often() -> None:
    hub = held()
    async with deck(hub=hub) as d:
        await d.app.jobs.idle()
        hub.holds_now = ControlsView("other", ANN)
        at = []
        for second in range(60):
            hub.time = fake_values.T0 + second
            before = len(d.calls("look at controls"))
            d.main.watch_controls()
            await d.app.jobs.idle()
            if len(d.calls("look at controls")) > before:
                at.append(second)
        assert at[-1] - at[-2] == 20 and len(at) <= 6 and at[0] <= 2


async def test_a_key_that_needs_the_controls_asks_who_has_them_also_where_nobody_was_known_to() -> None:
    hub = FakeHub("empty")
    hub.update(controls=ControlsView("free", at=fake_values.T0 - 19))
    async with deck(hub=hub, toasts=True) as d:
        await d.app.jobs.idle()
        hub.update(controls=ControlsView("free", at=fake_values.T0 - 19))
        hub.holds_now = ControlsView("other", ANN)
        await d.press("l")
        await d.app.jobs.idle()
        assert any("ann@desk" in n.message and "a launch has to wait" in n.message for n in d.app._notifications)


async def test_a_second_key_while_the_nodes_are_asked_opens_no_second_question() -> None:
    hub = held()
    answered = asyncio.Event()

    async def slow() -> ControlsView:
        await answered.wait()
        hub.update(controls=ControlsView("free"))
        return ControlsView("free")

    async with deck(hub=hub, toasts=True) as d:
        await d.app.jobs.idle()
        hub.look_at_controls = slow  # type: ignore[method-assign]
        await d.press("s", "s")
        assert any("still being asked" in n.message for n in d.app._notifications)
        answered.set()
        await d.app.jobs.idle()
        await d.pilot.pause()
        assert len(d.app.screen_stack) == 2 and "Stop boot 11" in d.text()


async def test_controls_that_were_taken_leave_a_console_that_watches_and_says_so() -> None:
    async with deck() as d:
        d.hub.update(controls=ControlsView("taken", "bob@lap, at the console"), read_only=True)
        d.hub.say("bob@lap took the controls: this console only watches now", "error")
        await d.settle()
        assert "bob@lap took the controls: this console only watches" in line(d)
        assert any("bob@lap took" in n.message for n in d.app._notifications)
        assert "launch" not in d.text().splitlines()[-1]
        await d.press("l")
        assert d.app.screen is d.main
        await d.press("C")
        assert "took them from you" in d.text()
        await d.press("T", "T")
        await d.app.jobs.idle()
        await d.settle()
        assert d.calls("hold controls") == [True]


async def test_a_request_is_seen_and_answered_by_letting_go() -> None:
    hub = FakeHub()
    hub.update(controls=ControlsView("mine", "me@here", ("bob@lap, at the console",), lasting=True))
    async with deck(hub=hub) as d:
        assert "bob@lap asks for the controls" in line(d)
        await d.press("C")
        assert "bob@lap, at the console asks for them" in d.text()
        await d.press("T")
        assert isinstance(d.app.screen, ControlsScreen)
        await d.press("G")
        await d.app.jobs.idle()
        assert d.calls("release controls") == [None]


async def test_a_console_that_only_watches_by_its_own_word_asks_for_nothing() -> None:
    hub = FakeHub(read_only=True)
    async with deck(hub=hub) as d:
        await d.press("question_mark")
        assert "deployment.launch" not in d.text()


def test_nothing_is_said_while_the_controls_are_free_or_ours() -> None:
    for state in ("free", "mine", "unknown"):
        assert controls_alert(ControlsView(state, "me@here"), "C", UNICODE) == []
    assert person("") == "another console"
    assert "another console has" in plain(controls_alert(ControlsView("other"), "C", UNICODE))


async def test_the_hub_rings_in_the_terminal_that_the_console_draws_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with deck() as d:
        assert d.hub.terminal is not None
        told: list[str] = []
        assert d.app._driver is not None
        monkeypatch.setattr(d.app._driver, "write", told.append)
        d.hub.terminal("\a")
        assert told == ["\a"]
        with monkeypatch.context() as without, pytest.raises(OSError, match="terminal"):
            without.setattr(d.app, "_driver", None)
            d.hub.terminal("\a")
