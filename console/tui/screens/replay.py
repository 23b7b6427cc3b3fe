"""The main screen over a recording: the same panes as they were lived, with a bar that plays, seeks and jumps."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, ClassVar

from textual.app import ComposeResult

from console.services.replay_api import ReplayApi
from console.tui.glyphs import Glyphs
from console.tui.jobs import Jobs
from console.tui.lasting import while_here
from console.tui.paint import Paint
from console.tui.replay_bar import ReplayBar
from console.tui.screens.main import MainScreen

NOTHING = {
    "event": ("nothing happens after this", "nothing happened before this"),
    "stage": ("no stage begins after this", "no stage began before this"),
    "memory": ("nothing is known of memory here",) * 2,
}


class ReplayScreen(MainScreen):
    """Owns its hub: it is started when the screen is, and closed with it. alone: there is no present to go back to."""

    PANES: ClassVar[tuple[str, ...]] = ("cluster", "boot", "logs")
    DECK: ClassVar[tuple[str, ...]] = ("logs",)

    def __init__(
        self, hub: ReplayApi, jobs: Jobs, paint: Paint, glyphs: Glyphs, keymap: dict[str, str], *, alone: bool
    ) -> None:
        super().__init__(hub, jobs, paint, glyphs, keymap)
        self.hub: ReplayApi = hub
        self._alone = alone

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            yield widget
            if widget.id == "top":
                yield ReplayBar(id="replay-bar")

    def first_pane(self) -> str:
        return "boot"

    def on_mount(self) -> None:
        """The main screen's own on_mount runs too."""
        self.jobs.start("play", self.hub.start())

    def on_unmount(self) -> None:
        self.jobs.cancel("seek")
        self.jobs.start("end of the replay", self.hub.close())

    @while_here
    def draw(self) -> None:
        super().draw()
        bar = self.query_one(ReplayBar)
        bar.draw(self.hub.replaying, self.hub.now(), self.size.width, self.glyphs)

    # -- controls --------------------------------------------------------------------------------------------

    def action_replay_pause(self) -> None:
        self.hub.pause()

    def action_replay_speed(self, steps: int) -> None:
        self.hub.faster(steps)

    def action_replay_mark(self, step: int, kind: str) -> None:
        """To a mark, and stand still there: it is to be looked at."""

        async def go() -> None:
            self.hub.pause(True)
            if self.hub.replaying.total is None:
                self.say("the recording is still being read")
            elif await self.hub.go_to(step, kind) is None:
                self.say(NOTHING[kind][0 if step >= 0 else 1])

        self._move(go())

    def action_replay_seek(self, seconds: int) -> None:
        at = self.hub.replaying
        self._move(self.hub.seek((at.position if at.seeking is None else at.seeking) + seconds))

    def action_replay_start(self) -> None:
        self._move(self.hub.seek(0.0))

    def on_replay_bar_seek(self, event: ReplayBar.Seek) -> None:
        event.stop()
        total = self.hub.replaying.total
        if total is not None:
            self._move(self.hub.seek(event.share * total))

    def _move(self, work: Coroutine[Any, Any, None]) -> None:
        """One way at a time: a new one ends the one before where it came to."""
        self.jobs.cancel("seek")
        self.jobs.start("seek", work)

    def action_replay_leave(self) -> None:
        self.action_quit_console()

    def action_quit_console(self) -> None:
        if self._alone:
            self.app.exit(0)
        else:
            self.dismiss()
