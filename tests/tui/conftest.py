"""Fixtures of the faces' tests: an app on a fake hub, the screen as plain text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from console.tui.app import NightdeckApp
from console.tui.screens.main import MainScreen
from tests.tui.fake_hub import FakeHub

WIDE = (160, 48)
SMALL = (80, 24)
SIZES = (WIDE, SMALL)


class Deck:
    """An app under a pilot, with what tests ask of it."""

    def __init__(self, app: NightdeckApp, hub: FakeHub, pilot: Pilot[int]) -> None:
        self.app = app
        self.hub = hub
        self.pilot = pilot

    @property
    def main(self) -> MainScreen:
        main = self.app._main
        assert main is not None
        return main

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()

    async def settle(self) -> None:
        """Draw the newest snapshot now, without waiting for the throttle."""
        await self.pilot.pause()
        self.main.draw()
        await self.pilot.pause()

    def text(self) -> str:
        """What is on the screen, as plain text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    def calls(self, name: str) -> list[object]:
        return [what for called, what in self.hub.calls if called == name]


@asynccontextmanager
async def deck(
    scenario: str = "booting",
    *,
    size: tuple[int, int] = WIDE,
    hub: FakeHub | None = None,
    read_only: bool = False,
    keymap: dict[str, str] | None = None,
    ascii: bool = False,  # noqa: A002
    theme: str = "nightdeck",
    toasts: bool = False,
) -> AsyncIterator[Deck]:
    hub = hub or FakeHub(scenario, read_only=read_only)
    app = NightdeckApp(hub, keymap=keymap, ascii=ascii, theme=theme)
    async with app.run_test(size=size, notifications=toasts) as pilot:
        await pilot.pause()
        yield Deck(app, hub, pilot)
