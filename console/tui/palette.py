"""The command palette: what can be done now, and the themes with a preview."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider

from console.services.hub import HubApi
from console.tui.actions import Action, key_sign, offered
from console.tui.spans import safe

if TYPE_CHECKING:
    from console.tui.app import NightdeckApp

THEME = "theme: "


class Commands(Provider):
    """Actions of the registry that are possible, then themes."""

    @property
    def _deck(self) -> NightdeckApp:
        from console.tui.app import NightdeckApp

        app = self.app
        assert isinstance(app, NightdeckApp)
        return app

    @property
    def _hub(self) -> HubApi:
        front = self._deck.front
        return front.hub if front is not None else self._deck.hub

    def _entries(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        app = self._deck
        snapshot = self._hub.snapshot()
        for action in offered(snapshot):
            if action.palette:
                yield self._words(action), action.sentence, partial(app.run_main, action.run)
        for name in app.theme_names():
            yield THEME + name, "Colours of the console", partial(app.choose_theme, name)

    def _words(self, action: Action) -> str:
        """`stop: dsv41-flash-8x on 8 nodes`: what it would act on, and its key."""
        app = self._deck
        boot = self._hub.snapshot().boot
        tail = ""
        if action.area == "Deployment" and boot is not None and action.id != "deployment.launch":
            tail = f": {safe(boot.recipe, limit=40)} on {len({r.node for r in boot.ranks})} nodes"
        return f"{action.word}{tail}  [{key_sign(action, app.keymap)}]"

    async def discover(self) -> Hits:
        for words, sentence, run in self._entries():
            yield DiscoveryHit(_escaped(words), run, text=words, help=_escaped(sentence))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for words, sentence, run in self._entries():
            score = matcher.match(f"{words} {sentence}")
            if score > 0:
                yield Hit(score, _escaped(words), run, text=words, help=_escaped(sentence))


def _escaped(text: str) -> str:
    """Words for a place that reads markup: nothing in them is."""
    return text.replace("\\", "\\\\").replace("[", "\\[")
