"""The application: themes, keys, the main screen, and an orderly end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.notifications import Notification, SeverityLevel
from textual.screen import Screen

from console.base.errors import NightdeckError
from console.base.theme import ThemeColours
from console.services.hub import HubApi
from console.services.replay_api import ReplayApi
from console.tui.actions import BY_ID
from console.tui.driver import LastingDriver
from console.tui.glyphs import ASCII, UNICODE
from console.tui.jobs import Jobs
from console.tui.lasting import Faults, Lasting, here
from console.tui.paint import Paint
from console.tui.palette import THEME, Commands
from console.tui.screens.main import MainScreen
from console.tui.screens.replay import ReplayScreen
from console.tui.terminal import TerminalGuard, no_colour
from console.tui.theme import NIGHTDECK, fallback_variables, textual_theme
from console.tui.toasts import News, Told, surplus, takes_news

PLAIN_THEME: Final = "ansi-dark"


class NightdeckApp(Lasting, App[int]):
    """Draws what the hub knows and asks it for actions. It starts the hub when it starts, and closes it when it ends.

    theme: a name of the hub's themes or `nightdeck`. keymap: action id -> keys, over the registry's. ascii: signs of
    plain ASCII. guard: take the process's signals (only `run_console` does). keep_fault: writes down what failed while
    it draws, and the console goes on; without it such a fault ends it, as tests want."""

    TITLE = "nightdeck"
    CSS_PATH = Path(__file__).with_name("screens") / "main.tcss"
    COMMANDS: ClassVar = {Commands}
    ENABLE_COMMAND_PALETTE = True
    CSS = "Toast { border-left: outer $primary; } Toast.-error { border-left: outer $error; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave_at_once", "quit", show=False, priority=True, id="console.quit-now"),
        Binding("ctrl+c", "say_how_to_quit", "quit", show=False, id="console.interrupt"),
    ]

    def __init__(
        self,
        hub: HubApi,
        *,
        theme: str = "nightdeck",
        keymap: Mapping[str, str] | None = None,
        ascii: bool = False,  # noqa: A002
        guard: bool = False,
        keep_fault: Callable[[str], str] | None = None,
    ) -> None:
        self.plain = no_colour(os.environ)
        # The filter that drops colours is chosen here: with ansi_color it leaves the terminal's own, else grey RGB.
        super().__init__(ansi_color=True if self.plain else None)
        self.hub = hub
        self.jobs = Jobs()
        self.keymap: dict[str, str] = dict(keymap or {})
        self.glyphs = ASCII if ascii else UNICODE
        self._wanted_theme = theme
        self._ours: dict[str, ThemeColours] = {}
        self._theme_before: str | None = None
        self._told = Told()
        self._faults = Faults(keep_fault) if keep_fault is not None else None
        self._began = False
        self._guard = TerminalGuard(self._leave_with) if guard else None
        self._main: MainScreen | None = None
        self._unknown_keys = [key for key in self.keymap if key not in BY_ID]
        self.set_class(self.plain, "-plain")
        self.set_class(ascii, "-ascii")
        self.load_themes()
        self.theme = PLAIN_THEME if self.plain else theme if theme in self.available_themes else NIGHTDECK.name

    # -- life ------------------------------------------------------------------------------------------------

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice, made to outlive its terminal where that is a real one."""
        chosen = super().get_driver_class()
        return LastingDriver if chosen is LinuxDriver else chosen

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return fallback_variables()

    def get_default_screen(self) -> Screen[Any]:
        if self.hub.snapshot().replay is not None:
            hub = cast("ReplayApi", self.hub)
            self._main = ReplayScreen(hub, self.jobs, self.make_paint(), self.glyphs, self.keymap, alone=True)
        else:
            self._main = MainScreen(self.hub, self.jobs, self.make_paint(), self.glyphs, self.keymap)
        return self._main

    @property
    def front(self) -> MainScreen | None:
        """The main screen that is seen: a replay over the present, or the present."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, MainScreen)), self._main)

    async def on_mount(self) -> None:
        self.set_keymap(self.keymap)
        if self._guard is not None:
            self._guard.install()
            self.set_interval(1.0, self._guard.check)
        self.hub.use_terminal(self.to_terminal)
        self.theme_changed_signal.subscribe(self, lambda _theme: self._repaint())
        if self._unknown_keys:
            names = ", ".join(self._unknown_keys)
            self.notify(f"keys: no action is called {names}", severity="warning", markup=False)
        if not self.plain and self._wanted_theme not in self.available_themes:
            self.notify(f"no theme is called {self._wanted_theme}", severity="warning", markup=False)
        self.jobs.start("start", self._start_hub())
        self._began = True

    async def _start_hub(self) -> None:
        try:
            await self.hub.start()
        except NightdeckError as error:
            self.notify(str(error), severity="error", timeout=30, markup=False)

    async def on_unmount(self) -> None:
        await self.jobs.close()
        await self.hub.close()
        if self._guard is not None:
            self._guard.remove()

    def endures(self, error: Exception) -> bool:
        """A fault of the console itself, of a picture as a rule: a boot is being watched, so it is written down, told,
        and the console goes on. False before the first picture, where nothing would be left to look at."""
        if self._faults is None or not self._began or self._exit:
            return False
        if words := self._faults.take(error):
            self.notify(words, severity="error", timeout=30, markup=False)
        return True

    def _handle_exception(self, error: Exception) -> None:
        """Textual's last word on whatever its timers, callbacks and painting raise."""
        if not self.endures(error):
            super()._handle_exception(error)

    def to_terminal(self, text: str) -> None:
        """Bytes for the operator's terminal between two pictures: a bell, a notification. Raises OSError where there is
        none to write to, as while an editor has it."""
        driver = self._driver
        if driver is None or (isinstance(driver, LastingDriver) and not driver.open):
            raise OSError("the console does not have the terminal now")
        driver.write(text)

    def _leave_with(self, code: int) -> None:
        self.exit(code)

    def action_leave_at_once(self) -> None:
        """ctrl+q: as q, from wherever the focus is."""
        if isinstance(self.screen, MainScreen):
            self.screen.action_quit_console()

    def action_say_how_to_quit(self) -> None:
        self.notify("q leaves the console; a deployment keeps running", markup=False)

    def handle_bindings_clash(self, clashed_bindings: set[Binding], node: Any) -> None:
        """A keymap gave one key to two actions: say which lost its key."""
        names = ", ".join(sorted(b.id or b.action for b in clashed_bindings))
        self.notify(f"keys: no key is left for {names}", severity="warning", markup=False)

    # -- toasts -----------------------------------------------------------------------------------------------

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """As Textual's, but what stands already is told again with a count."""
        words, same = self._told.again(message, self._notifications)
        for standing in same:
            del self._notifications[standing]
        limit = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        notification = Notification(words, title, severity, limit, markup=markup)
        self._told.keep(notification, message, self._notifications)
        self._notifications.add(notification)
        for old in surplus(list(self._notifications)):
            del self._notifications[old]
        self._refresh_notifications()

    def _refresh_notifications(self) -> None:
        """A dialog is never covered: what is told meanwhile stands in a line under it, and as toasts after it."""
        screen = self.screen if self._screen_stack else None
        if screen is None or not takes_news(screen):
            super()._refresh_notifications()
        elif not here(screen):
            screen.call_after_refresh(self._refresh_notifications)
        elif news := list(screen.query(News)):
            news[0].draw()
        elif self._notifications and not self._disable_notifications:
            screen.mount(News(self._notifications, self.make_paint(), self.glyphs))

    # -- themes ----------------------------------------------------------------------------------------------

    def load_themes(self) -> None:
        """Register the hub's themes; ours is always there."""
        for colours in (NIGHTDECK, *self.hub.themes()):
            self._ours[colours.name] = colours
            self.register_theme(textual_theme(colours))

    def theme_names(self) -> Sequence[str]:
        return sorted(self._ours) if not self.plain else ()

    def choose_theme(self, name: str) -> None:
        self._theme_before = None
        self.theme = name

    def make_paint(self) -> Paint:
        return Paint(self.theme_variables, fallback_variables(), plain=self.glyphs is ASCII)

    def _repaint(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, MainScreen) and screen.is_mounted:
                screen.repaint(self.make_paint(), self.glyphs)

    def on_command_palette_opened(self) -> None:
        self.load_themes()
        self._theme_before = self.theme

    def on_command_palette_option_highlighted(self, event: CommandPalette.OptionHighlighted) -> None:
        """A theme under the cursor of the palette is shown before it is chosen."""
        option = event.highlighted_event.option
        text = str(getattr(getattr(option, "hit", None), "text", "") or "")
        name = text.removeprefix(THEME)
        if text.startswith(THEME) and name in self._ours:
            self.theme = name
        elif self._theme_before is not None:
            self.theme = self._theme_before

    def on_command_palette_closed(self, event: CommandPalette.Closed) -> None:
        if not event.option_selected and self._theme_before is not None:
            self.theme = self._theme_before
        self._theme_before = None

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[Any]:
        """None of Textual's own: the registry has all there is."""
        return ()

    async def run_main(self, run: str) -> None:
        """Run an action of the main screen, from the palette."""
        try:
            if self.front is not None:
                await self.front.run_action(run)
        except NoMatches:
            self.bell()


async def run_console_async(
    hub: HubApi,
    *,
    theme: str = "nightdeck",
    keymap: Mapping[str, str] | None = None,
    ascii: bool = False,  # noqa: A002
    mouse: bool = True,
    keep_fault: Callable[[str], str] | None = None,
) -> int:
    """Run the console until the operator leaves; the exit code is 0, or 128 + the signal that ended it.

    Deployments keep running, and a line on the terminal says so."""
    app = NightdeckApp(hub, theme=theme, keymap=keymap, ascii=ascii, guard=True, keep_fault=keep_fault)
    result = await app.run_async(mouse=mouse)
    return result if isinstance(result, int) else app.return_code or 0


def run_console(
    hub: HubApi,
    *,
    theme: str = "nightdeck",
    keymap: Mapping[str, str] | None = None,
    ascii: bool = False,  # noqa: A002
    mouse: bool = True,
) -> int:
    """`run_console_async` in a loop of its own."""
    return asyncio.run(run_console_async(hub, theme=theme, keymap=keymap, ascii=ascii, mouse=mouse))
