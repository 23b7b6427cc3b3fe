"""Every key of the registry, pressed in a pane: nothing breaks, and escape leads back to the panes."""

from __future__ import annotations

import pytest

from console.tui.actions import ACTIONS
from console.tui.screens.main import MainScreen
from tests.tui.conftest import deck

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "pane", ["boots", *(pytest.param(pane, marks=SLOW) for pane in ("cluster", "boot", "logs", "recipes"))]
)
async def test_every_key_leads_back_with_escape(pane: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def edit(*_: object) -> str:
        return "vi"

    monkeypatch.setattr("console.tui.screens.look_actions.edit", edit)
    async with deck() as d:
        for action in ACTIONS:
            if action.place == "replay" or action.id == "console.quit" or action.id.startswith("logs.rank-"):
                continue
            d.main.choose_pane(pane)
            await d.press(action.keys.split(",")[0])
            await d.app.jobs.idle()
            for _ in range(4):
                if d.app.screen is not d.main:
                    await d.press("escape")
            assert d.app.screen is d.main, action.id
            await d.press("escape")
        assert {"compare", "replay"} & {name for name, _ in d.hub.calls} or pane != "boots"


def test_every_action_has_a_method() -> None:
    from console.tui.screens.replay import ReplayScreen

    for action in ACTIONS:
        screen = ReplayScreen if action.place == "replay" else MainScreen
        assert callable(getattr(screen, "action_" + action.run.partition("(")[0], None)), action.id
