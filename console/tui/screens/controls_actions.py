"""What every action of the main screen needs: to say, to run, and to have the controls of the nodes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from console.base.errors import NightdeckError
from console.services.hub import ControlsView, HubApi
from console.tui.controls_lines import person, take_over_lines
from console.tui.glyphs import Glyphs
from console.tui.jobs import Jobs
from console.tui.lasting import LastingScreen
from console.tui.paint import Paint
from console.tui.screens.confirm import Choice, ConfirmScreen
from console.tui.screens.controls import ControlsScreen
from console.tui.spans import safe

LOOK_S: Final = 20.0  # how often the nodes are asked who has the controls, while it is not us
LOOK_FIRST_S: Final = 2.0
SLOW_S: Final = 0.7  # an answer that takes longer is announced
FRESH_S: Final = 3.0
WHO: Final = "who has the controls"


class ControlsActions(LastingScreen[None]):
    """Mixed into the main screen, which provides the attributes below."""

    hub: HubApi
    jobs: Jobs
    paint: Paint
    glyphs: Glyphs
    _controls_stage: object = None
    _look_at: float = 0.0
    _look_pause: float = LOOK_FIRST_S

    def say(self, text: str, *, bad: bool = False) -> None:
        """A toast; text is never markup."""
        self.app.notify(
            safe(text, limit=600), severity="error" if bad else "information", timeout=20 if bad else 6, markup=False
        )

    def run_job(self, what: str, work: Coroutine[Any, Any, Any], done: Callable[[Any], str] | None = None) -> None:
        """Run an action of the hub to its end; a failure is told in full."""

        async def run() -> None:
            try:
                result = await work
            except NightdeckError as error:
                hint = "; C asks for them, or takes them" if self.others_hold else ""
                self.say(f"{what}: {error}{hint}", bad=True)
            except asyncio.CancelledError:
                self.say(f"{what}: aborted")
                raise
            else:
                if done is not None and (words := done(result)):
                    self.say(words)

        self.jobs.start(what, run())

    # -- the controls ----------------------------------------------------------------------------------------

    @property
    def others_hold(self) -> bool:
        return self.hub.snapshot().controls.state in ("other", "asking", "taken")

    def with_controls(self, wanted: str, go: Callable[[], None]) -> None:
        """Do it, unless another console has the controls: the nodes are asked again then, as it may have let go. Where
        nobody was known to have them they are asked beside it."""
        if not self.others_hold:
            go()
            self._look_beside(wanted)
            return
        if self.jobs.running(WHO):
            self.say("the nodes are still being asked who has the controls")
            return

        async def look() -> None:
            slow = self.set_timer(SLOW_S, lambda: self.say("asking the nodes who has the controls …"))
            try:
                await self.hub.look_at_controls()
            except NightdeckError as error:
                self.say(f"the nodes cannot be asked who has the controls: {error}", bad=True)
                return
            finally:
                slow.stop()
            if self.others_hold:
                self._ask_controls(wanted)
            else:
                go()

        self.jobs.start(WHO, look())

    def _look_beside(self, wanted: str) -> None:
        """What was known of the controls may be of before: who opened the question hears of another that has them."""
        seen = self.hub.snapshot().controls
        if seen.state == "mine" or (seen.at is not None and self.hub.now() - seen.at < FRESH_S):
            return

        async def look() -> None:
            with contextlib.suppress(NightdeckError):  # nodes that do not answer are told by the cluster's own rows
                await self.hub.look_at_controls()
            if self.others_hold:
                who = self.hub.snapshot().controls.holder or "another console"
                self.say(f"{who} has the controls: {wanted[:1].lower() + wanted[1:]} has to wait, or C takes them over")

        if not self.jobs.running("look at the controls"):
            self.jobs.start("look at the controls", look())

    def watch_controls(self) -> None:
        """Called with every picture. While another has the controls, the nodes are asked again when something ends or
        begins, and then ever less often: its name must not stand long after its action."""
        snapshot, now = self.hub.snapshot(), self.hub.now()
        boot = snapshot.boot
        stage = (boot.deployment, boot.phase, boot.stop_result) if boot is not None else None
        if stage != self._controls_stage:
            self._controls_stage = stage
            self._look_at, self._look_pause = now, LOOK_FIRST_S
        if snapshot.replay is None and snapshot.controls.state == "other" and now >= self._look_at:
            self._look_at = now + self._look_pause
            self._look_pause = min(LOOK_S, self._look_pause * 2)
            self.look_at_controls()

    def action_controls(self) -> None:
        self.look_at_controls()
        self._ask_controls("")

    def look_at_controls(self) -> None:
        """Ask the nodes who has them; what they say is drawn with the next picture."""

        async def look() -> None:
            with contextlib.suppress(NightdeckError):  # nodes that do not answer are told by the cluster's own rows
                await self.hub.look_at_controls()

        if not self.jobs.running("look at the controls"):
            self.jobs.start("look at the controls", look())

    def _ask_controls(self, wanted: str) -> None:
        hub = self.hub

        def answered(answer: str | None) -> None:
            if answer == "hold":
                self.run_job("controls", awaited(hub.hold_controls()), lambda _: "the controls are yours")
            elif answer == "release":
                self.run_job("controls", awaited(hub.release_controls()), lambda _: "the controls are let go")
            elif answer == "withdraw":
                self.run_job("controls", awaited(hub.release_controls()), lambda _: "the request is withdrawn")
            elif answer == "ask":
                self.run_job("controls", awaited(hub.ask_controls()), asked)
            elif answer == "take":
                self._ask_take_over()

        def asked(view: ControlsView) -> str:
            return "" if view.state != "asking" else f"{person(view.holder)} sees that you ask"

        self.app.push_screen(ControlsScreen(hub, wanted, self.paint, self.glyphs), answered)

    def _ask_take_over(self) -> None:
        holder = self.hub.snapshot().controls.holder

        def answered(answer: str | None) -> None:
            if answer == "take":
                work = awaited(self.hub.hold_controls(take_over=True))
                self.run_job("take over", work, lambda _: f"the controls are yours, and no longer {person(holder)}'s")

        choice = Choice("take", f"Take them from {person(holder)}", "T", "error")
        self.app.push_screen(
            ConfirmScreen(
                "Take over the controls",
                lambda width: take_over_lines(holder, width),
                (choice,),
                self.paint,
                danger=True,
            ),
            answered,
        )


async def awaited(work: Awaitable[Any]) -> Any:
    return await work
