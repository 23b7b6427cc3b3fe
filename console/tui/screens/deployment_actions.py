"""What changes a deployment: launch, stop, restart, deadline, note; each shows what will happen and asks first."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from console.base.errors import NightdeckError
from console.boot.state import BootState
from console.plan.model import Plan
from console.recipe.model import Recipe
from console.tui.actions import is_booting, is_gone
from console.tui.figures import clock_span
from console.tui.launch_lines import (
    LEFTOVER,
    in_the_way,
    launch_lines,
    left_over,
    state_lines,
    still_here,
    stop_question,
    without_its_own,
)
from console.tui.recipes_pane import RecipesPane
from console.tui.screens.confirm import Choice, ConfirmScreen, LaunchScreen
from console.tui.screens.controls_actions import ControlsActions, awaited
from console.tui.screens.note import NoteScreen
from console.tui.spans import Line, safe, wrap_spans
from console.tui.stop_lines import stop_sentence

MORE_TIME_S = 900.0
INSTEAD = (Choice("instead", "Restart with it", "r", "primary"), Choice("stop", "Stop it", "s", "error"))


class DeploymentActions(ControlsActions):
    """Mixed into the main screen, which provides what is not here."""

    @property
    def recipes_pane(self) -> RecipesPane:
        return self.query_one(RecipesPane)

    def show_boot(self) -> None:
        """Bring the boot and its log to the front."""
        raise NotImplementedError

    def recipe_in_mind(self) -> Recipe | None:
        """The one under the cursor of the recipes, else the deployment's, else the first."""
        snapshot = self.hub.snapshot()
        pane = self.recipes_pane
        if pane.display and (pane.has_focus_within or pane.touched) and pane.chosen is not None:
            return pane.chosen
        boot = snapshot.boot
        mine = next((r for r in snapshot.recipes if boot is not None and r.slug == boot.recipe), None)
        return pane.chosen if pane.touched and pane.chosen is not None else mine or next(iter(snapshot.recipes), None)

    # -- launch ----------------------------------------------------------------------------------------------

    def action_launch(self) -> None:
        self.hub.reload_recipes()  # the files as they are now, not as this console once read them
        recipes = list(self.hub.snapshot().recipes)
        if self.jobs.running("launch") or self.hub.snapshot().job:
            self.say(f"{self.hub.snapshot().job or 'a launch'} is under way; s aborts it")
            return
        if not recipes:
            self.say("there is no recipe that can be read", bad=True)
            return
        mind = self.recipe_in_mind()
        recipe = next((r for r in recipes if mind is not None and r.slug == mind.slug), recipes[0])
        self.with_controls("A launch", lambda: self._ask_launch(recipes, recipe, restart=False))

    def action_restart(self) -> None:
        self.hub.reload_recipes()
        snapshot = self.hub.snapshot()
        if snapshot.boot is None:
            self.say("nothing to restart: l launches")
            return
        recipe = next((r for r in snapshot.recipes if r.slug == snapshot.boot.recipe), None)
        if recipe is None:
            self.say(f"the recipe {snapshot.boot.recipe} cannot be read; see Recipes", bad=True)
            return
        self.with_controls("A restart", lambda: self._ask_launch([recipe], recipe, restart=True))

    def _ask_launch(self, recipes: Sequence[Recipe], first: Recipe, *, restart: bool) -> None:
        at = recipes.index(first) if first in recipes else 0
        state: dict[str, Any] = {"at": at, "plan": None, "seen": False, "screen": None, "since": self.hub.now()}
        word = "Restart" if restart else "Launch"

        def here() -> BootState | None:
            return still_here(self.hub.snapshot().boot)

        def looking() -> str:
            waited = clock_span(self.hub.now() - state["since"])
            seen = self.hub.snapshot().looking
            return f"looking at the nodes{f': {seen[0]} of {seen[1]} have answered' if seen else ''}, {waited} …"

        def draw(width: int) -> list[Line]:
            recipe = recipes[state["at"]]
            return launch_lines(
                recipe,
                state["plan"],
                self.hub.changes_since_last(recipe.slug),
                width,
                self.glyphs,
                turns=len(recipes) > 1,
                stops=self.hub.snapshot().boot if restart else None,
                overridden=state["screen"].typed if state["screen"] is not None else (),
                here=None if restart else here(),
                left="" if restart or here() is not None else left_over(state["plan"]),
                looking=looking(),
            )

        def turn(screen: LaunchScreen, by: int) -> None:
            state["at"] = (state["at"] + by) % len(recipes)
            state["plan"], state["screen"], state["since"] = None, screen, self.hub.now()
            recipe = recipes[state["at"]]
            screen.ready, screen.codes = False, ()
            place = f"  ({state['at'] + 1} of {len(recipes)})" if len(recipes) > 1 else ""
            screen.retitle(f"{word} {safe(recipe.slug)}{place}")
            screen.settle()
            self.jobs.start("plan", fetch(screen, recipe.slug, by == 0 and state["seen"]))
            state["seen"] = True

        async def fetch(screen: LaunchScreen, slug: str, fresh: bool) -> None:
            try:
                plan: Plan | NightdeckError = await self.hub.plan(slug, fresh=fresh)
            except NightdeckError as error:
                plan = error
            if recipes[state["at"]].slug != slug:
                return
            if isinstance(plan, Plan) and here() is not None:
                plan = without_its_own(plan, restart=restart)
            state["plan"] = plan
            screen.ready = isinstance(plan, Plan)
            blocks = plan.blocks if isinstance(plan, Plan) else ()
            # What stands there of an earlier deployment is refused whatever is typed: it has to be stopped.
            screen.codes = tuple(dict.fromkeys(f.code for f in blocks if restart or f.code != LEFTOVER))
            screen.settle()

        def answered(answer: str | None) -> None:
            plan, boot = state["plan"], self.hub.snapshot().boot
            if answer == "instead":
                recipe = recipes[state["at"]]
                self._ask_launch([recipe], recipe, restart=True)
            if answer == "stop" and boot is not None and here() is not None:
                self._ask_stop(boot)
            elif answer == "stop":
                self._ask_stop_all(left_over(plan))
            if answer != "go" or not isinstance(plan, Plan):
                return
            codes = tuple(dict.fromkeys(f.code for f in plan.blocks))
            slug = recipes[state["at"]].slug
            self.show_boot()
            begin = self.hub.restart if restart else self.hub.launch
            work: Awaitable[BootState] = begin(slug, override=codes)
            self.run_job(f"launch {slug}", awaited(work))  # the hub itself says that all containers were started

        key = "R" if restart else "L"
        instead = () if restart else INSTEAD
        screen = LaunchScreen(
            turn=turn,
            draw=draw,
            paint=self.paint,
            title=word,
            choice=Choice("go", word, key, "primary"),
            instead=instead,
            here=lambda: in_the_way(boot) if (boot := here()) is not None else left_over(state["plan"]),
            looking=looking,
        )
        self.app.push_screen(screen, answered)

    # -- stop ------------------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        snapshot = self.hub.snapshot()
        boot = snapshot.boot
        if self.jobs.running("launch"):
            self._ask_abort(snapshot.job)
            return
        if boot is None or is_gone(boot):
            asked = snapshot.looked or boot is not None
            self.say("nothing runs, nothing to stop" if asked else "the nodes are still being asked what runs")
            return
        self.with_controls("A stop", lambda: self._ask_stop(boot))

    def _ask_stop(self, boot: BootState) -> None:
        def draw(width: int) -> list[Line]:
            return stop_question(boot, self.hub.now(), width, self.glyphs)

        def answered(answer: str | None) -> None:
            if answer == "stop":
                self.run_job("stop", awaited(self.hub.stop(boot.deployment)), stop_sentence)

        question = ConfirmScreen(
            f"Stop boot {boot.number}{' again' if boot.half_stopped else ''}",
            draw,
            (Choice("stop", "Stop", "S", "error"),),
            self.paint,
            danger=True,
        )
        self.app.push_screen(question, answered)

    def _ask_stop_all(self, left: str) -> None:
        text = (
            "Every container that carries this tool's label is stopped on every node of the cluster, its log is saved, "
        )
        text += "and each node is asked what is left."

        def draw(width: int) -> list[Line]:
            rows = wrap_spans((" ", "text"), left, "warn bold", width, limit=3) if left else []
            return [*rows, (), *wrap_spans((" ", "text"), text, "text", width, limit=4)]

        def answered(answer: str | None) -> None:
            if answer == "stop":
                self.run_job("stop", awaited(self.hub.stop("*")), stop_sentence)

        choice = Choice("stop", "Stop all of them", "S", "error")
        self.app.push_screen(
            ConfirmScreen("Stop what is left", draw, (choice,), self.paint, danger=True),
            answered,
        )

    def _ask_abort(self, job: str) -> None:
        words = safe(job or "the launch")
        lines: list[Line] = [
            ((f" Abort: {words}", "strong"),),
            (),
            ((" What it has started is asked to end, and each node's answer is shown.", "text"),),
        ]

        def answered(answer: str | None) -> None:
            if answer == "abort":
                self.jobs.cancel("launch")

        self.app.push_screen(
            ConfirmScreen(
                "Abort the launch", lambda _: lines, (Choice("abort", "Abort", "A", "error"),), self.paint, danger=True
            ),
            answered,
        )

    # -- questions of the console ----------------------------------------------------------------------------

    def action_answer(self) -> None:
        boot = self.hub.snapshot().boot
        if boot is None or not boot.asks:
            self.say("nothing is asked")
            return
        self.ask_about(boot, boot.asks[0])

    def ask_about(self, boot: BootState, ask: str) -> None:
        """The deadline passed, or a launch failed half way: the default changes nothing."""
        if ask == "deadline":
            self._ask_deadline(boot)
        elif ask == "launch_failed":
            self._ask_launch_failed(boot)

    def _ask_deadline(self, boot: BootState) -> None:
        def draw(width: int) -> list[Line]:
            elapsed = self.hub.now() - boot.launched_at
            text = (
                f"Boot {boot.number} is not ready after {clock_span(elapsed)}; its deadline was "
                f"{clock_span(boot.deadline_s)}. It goes on until you say otherwise."
            )
            return [*wrap_spans((" ", "text"), text, "text", width, limit=4), (), *state_lines(boot, self.glyphs)]

        def answered(answer: str | None) -> None:
            if answer == "more":
                self.run_job("more time", awaited(self.hub.extend_deadline(MORE_TIME_S)), lambda _: "15 minutes more")
            elif answer == "stop":
                self.run_job("stop", awaited(self.hub.stop(boot.deployment)), stop_sentence)
            else:
                self.run_job("keep", awaited(self.hub.keep()))

        choices = (Choice("more", "Wait 15 min more", "+", "primary"), Choice("stop", "Stop", "S", "error"))
        screen = ConfirmScreen(f"Deadline of boot {boot.number}", draw, choices, self.paint, cancel="Keep as it is")
        self.app.push_screen(screen, answered)

    def _ask_launch_failed(self, boot: BootState) -> None:
        def draw(width: int) -> list[Line]:
            why = boot.cause.sentence if boot.cause is not None else boot.failed_why
            text = "What it left on the nodes can stay for its logs, or be removed."
            return [
                *wrap_spans((" ", "text"), safe(why, limit=600), "strong", width, limit=4),
                (),
                *wrap_spans((" ", "text"), text, "text", width, limit=2),
                (),
                *state_lines(boot, self.glyphs),
            ]

        def answered(answer: str | None) -> None:
            if answer == "back":
                self.run_job("roll back", awaited(self.hub.roll_back()), stop_sentence)
            else:
                self.run_job("keep", awaited(self.hub.keep()))

        screen = ConfirmScreen(
            f"Launch of boot {boot.number} failed",
            draw,
            (Choice("back", "Roll back", "B", "error"),),
            self.paint,
            cancel="Keep for its logs",
            danger=True,
        )
        self.app.push_screen(screen, answered)

    def action_more_time(self) -> None:
        if not is_booting(self.hub.snapshot()):
            self.say("nothing boots")
            return
        self.run_job("more time", awaited(self.hub.extend_deadline(MORE_TIME_S)), lambda _: "15 minutes more")

    def action_smoke(self) -> None:
        def told(result: Mapping[str, Any]) -> str:
            text = result.get("text") or result.get("why") or ""
            return ("the API answered: " if result.get("ok") else "the API did not answer well: ") + safe(
                text, limit=200
            )

        self.run_job("verify", awaited(self.hub.smoke()), told)

    def action_note(self) -> None:
        boot = self.hub.snapshot().boot
        if boot is None:
            self.say("a note belongs to a boot, and there is none")
            return

        def written(text: str | None) -> None:
            if text:
                self.run_job("note", awaited(self.hub.note(text)), lambda _: "noted")

        self.app.push_screen(NoteScreen(f"Note to boot {boot.number}"), written)
