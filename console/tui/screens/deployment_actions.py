"""What changes a deployment: launch, stop, restart, deadline, note; each shows what will happen and asks first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

from textual.screen import Screen

from console.base.errors import NightdeckError
from console.boot.state import BootState
from console.plan.model import Plan
from console.recipe.model import Recipe
from console.services.hub import ControlsView, HubApi
from console.tui.actions import is_booting, is_gone
from console.tui.boot_lines import phase_span, stop_sentence
from console.tui.check_table import check_lines
from console.tui.controls_lines import person, take_over_lines
from console.tui.figures import clock_span
from console.tui.glyphs import Glyphs
from console.tui.jobs import Jobs
from console.tui.paint import Paint
from console.tui.plan_lines import finding_lines, matrix_lines, memory_lines, rank_line
from console.tui.recipes_pane import RecipesPane
from console.tui.screens.confirm import Choice, ConfirmScreen, LaunchScreen
from console.tui.screens.controls import ControlsScreen
from console.tui.screens.note import NoteScreen
from console.tui.spans import Line, safe, wrap_spans

MORE_TIME_S = 900.0


class DeploymentActions(Screen[None]):
    """Mixed into the main screen, which provides the attributes below."""

    hub: HubApi
    jobs: Jobs
    paint: Paint
    glyphs: Glyphs

    @property
    def recipes_pane(self) -> RecipesPane:
        return self.query_one(RecipesPane)

    def say(self, text: str, *, bad: bool = False) -> None:
        """A toast; text is never markup."""
        self.app.notify(
            safe(text, limit=600), severity="error" if bad else "information", timeout=20 if bad else 6, markup=False
        )

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
        """Do it, unless another console has the controls: the nodes are asked again then, as it may have let go."""
        if not self.others_hold:
            go()
            return

        async def look() -> None:
            try:
                await self.hub.look_at_controls()
            except NightdeckError as error:
                self.say(f"the nodes cannot be asked who has the controls: {error}", bad=True)
                return
            if self.others_hold:
                self._ask_controls(wanted)
            else:
                go()

        self.jobs.start("look at the controls", look())

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
                self.run_job("controls", _awaited(hub.hold_controls()), lambda _: "the controls are yours")
            elif answer == "release":
                self.run_job("controls", _awaited(hub.release_controls()), lambda _: "the controls are let go")
            elif answer == "withdraw":
                self.run_job("controls", _awaited(hub.release_controls()), lambda _: "the request is withdrawn")
            elif answer == "ask":
                self.run_job("controls", _awaited(hub.ask_controls()), asked)
            elif answer == "take":
                self._ask_take_over()

        def asked(view: ControlsView) -> str:
            return "" if view.state != "asking" else f"{person(view.holder)} sees that you ask"

        self.app.push_screen(ControlsScreen(hub, wanted, self.paint, self.glyphs), answered)

    def _ask_take_over(self) -> None:
        holder = self.hub.snapshot().controls.holder

        def answered(answer: str | None) -> None:
            if answer == "take":
                work = _awaited(self.hub.hold_controls(take_over=True))
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

    # -- launch ----------------------------------------------------------------------------------------------

    def action_launch(self) -> None:
        recipes = list(self.hub.snapshot().recipes)
        if self.jobs.running("launch") or self.hub.snapshot().job:
            self.say(f"{self.hub.snapshot().job or 'a launch'} is under way; s aborts it")
            return
        if not recipes:
            self.say("there is no recipe that can be read", bad=True)
            return
        recipe = self.recipe_in_mind() or recipes[0]
        self.with_controls("A launch", lambda: self._ask_launch(recipes, recipe, restart=False))

    def action_restart(self) -> None:
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
        state: dict[str, Any] = {"at": at, "plan": None, "seen": False, "screen": None}
        word = "Restart" if restart else "Launch"

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
            )

        def turn(screen: LaunchScreen, by: int) -> None:
            state["at"] = (state["at"] + by) % len(recipes)
            state["plan"], state["screen"] = None, screen
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
            state["plan"] = plan
            screen.ready = isinstance(plan, Plan)
            screen.codes = tuple(dict.fromkeys(f.code for f in plan.blocks)) if isinstance(plan, Plan) else ()
            screen.settle()

        def answered(answer: str | None) -> None:
            plan = state["plan"]
            if answer is None or not isinstance(plan, Plan):
                return
            codes = tuple(dict.fromkeys(f.code for f in plan.blocks))
            slug = recipes[state["at"]].slug
            self.show_boot()
            begin = self.hub.restart if restart else self.hub.launch
            work: Awaitable[BootState] = begin(slug, override=codes)
            self.run_job(f"launch {slug}", _awaited(work))  # the hub itself says that all containers were started

        key = "R" if restart else "L"
        screen = LaunchScreen(
            turn=turn, draw=draw, paint=self.paint, title=word, choice=Choice("go", word, key, "primary")
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
            self.say("nothing runs, nothing to stop")
            return
        self.with_controls("A stop", lambda: self._ask_stop(boot))

    def _ask_stop(self, boot: BootState) -> None:
        def draw(width: int) -> list[Line]:
            return stop_question(boot, self.hub.now(), width, self.glyphs)

        def answered(answer: str | None) -> None:
            if answer == "stop":
                self.run_job("stop", _awaited(self.hub.stop(boot.deployment)), stop_sentence)

        question = ConfirmScreen(
            f"Stop boot {boot.number}", draw, (Choice("stop", "Stop", "S", "error"),), self.paint, danger=True
        )
        self.app.push_screen(question, answered)

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
                self.run_job("more time", _awaited(self.hub.extend_deadline(MORE_TIME_S)), lambda _: "15 minutes more")
            elif answer == "stop":
                self.run_job("stop", _awaited(self.hub.stop(boot.deployment)), stop_sentence)
            else:
                self.run_job("keep", _awaited(self.hub.keep()))

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
                self.run_job("roll back", _awaited(self.hub.roll_back()), stop_sentence)
            else:
                self.run_job("keep", _awaited(self.hub.keep()))

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
        self.run_job("more time", _awaited(self.hub.extend_deadline(MORE_TIME_S)), lambda _: "15 minutes more")

    def action_smoke(self) -> None:
        def told(result: Mapping[str, Any]) -> str:
            text = result.get("text") or result.get("why") or ""
            return ("the API answered: " if result.get("ok") else "the API did not answer well: ") + safe(
                text, limit=200
            )

        self.run_job("verify", _awaited(self.hub.smoke()), told)

    def action_note(self) -> None:
        boot = self.hub.snapshot().boot
        if boot is None:
            self.say("a note belongs to a boot, and there is none")
            return

        def written(text: str | None) -> None:
            if text:
                self.run_job("note", _awaited(self.hub.note(text)), lambda _: "noted")

        self.app.push_screen(NoteScreen(f"Note to boot {boot.number}"), written)


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


def launch_lines(
    recipe: Recipe,
    plan: Plan | NightdeckError | None,
    changes: Sequence[str],
    width: int,
    glyphs: Glyphs,
    *,
    turns: bool,
    stops: BootState | None,
    overridden: Collection[str] = (),
) -> list[Line]:
    """What a launch will do: findings first, then memory, then which rank goes where."""
    out: list[Line] = [((f" {safe(recipe.title)}", "strong"),)]
    hint = "^r looks at the nodes again"
    out.append(((f" < > another recipe   {hint}" if turns else f" {hint}", "dim"),))
    if stops is not None and not stops.phase.over:
        nodes = len({r.node for r in stops.ranks})
        out.append(((f" first boot {stops.number} is stopped on {nodes} nodes, each asked and verified", "warn"),))
    out += [(), ((" since its last boot  ", "title"), ("" if changes else "nothing changed", "dim"))]
    for change in changes:
        out += wrap_spans((f"  {glyphs.dot} ", "warn"), safe(change), "text", width, limit=2)
    out.append(())
    if plan is None:
        return [*out, ((" looking at the nodes …", "active"),)]
    if isinstance(plan, NightdeckError):
        return [*out, *wrap_spans((f" {glyphs.failed} ", "bad"), safe(plan, limit=800), "bad", width, limit=8)]
    out.append(_verdict(plan, overridden, glyphs))
    out += check_lines(plan, width, glyphs, overridden)
    out.append(())
    out += finding_lines(plan.findings, width, glyphs, limit=2)
    out += matrix_lines(plan, width, glyphs)
    if bar := memory_lines(plan.memory, width, glyphs):
        out += [(), ((" memory of a node", "title"),), *bar]
    out += [
        (),
        ((f" {len(plan.ranks)} containers of {safe(plan.image)}, port {plan.port}", "title"),
         (f"   boot {plan.boot_number}, ready within {clock_span(plan.ready_timeout_s)}", "dim")),
        *(rank_line(rank) for rank in plan.ranks),
    ]  # fmt: skip
    return out


def _verdict(plan: Plan, overridden: Collection[str], glyphs: Glyphs) -> Line:
    """Whether it may run; what was overridden is written down with the boot."""
    codes = list(dict.fromkeys(f.code for f in plan.blocks))
    if not codes:
        return ((f" {glyphs.done} preflight: nothing blocks", "ok"),)
    left = [c for c in codes if c not in overridden]
    if not left:
        words = (
            f" {glyphs.warn} {len(codes)} block{'s' if len(codes) > 1 else ''} overridden by you: the journal keeps it"
        )
        return ((words, "warn bold"),)
    words = f" {glyphs.failed} blocked: {len(codes)} reasons" if len(codes) > 1 else f" {glyphs.failed} blocked"
    more = f", {len(codes) - len(left)} overridden" if len(left) < len(codes) else ""
    return ((f"{words}{more}", "bad bold"),)


def stop_question(boot: BootState, now: float, width: int, glyphs: Glyphs) -> list[Line]:
    """What a stop will do on which node."""
    text = "The head is stopped first, then the workers; every node is asked what is left, and the answer is shown."
    out: list[Line] = [
        ((f" {safe(boot.title) or safe(boot.recipe)}  ", "strong"), phase_span(boot, glyphs)),
        ((f" runs for {clock_span(now - boot.launched_at)}", "dim"),),
        (),
        *wrap_spans((" ", "text"), text, "text", width, limit=3),
        (),
        *state_lines(boot, glyphs),
    ]
    return out


def state_lines(boot: BootState, glyphs: Glyphs) -> list[Line]:
    """A line per container: rank, node, name, the engine's word."""
    out: list[Line] = []
    for rank in boot.ranks:
        up = rank.status == "running"
        word = rank.status or "not known"
        head = "head" if rank.node == boot.head_node else "    "
        role = "ok" if up else "dim" if rank.status is None else "warn"
        out.append(
            (
                (f"  {rank.rank:>3} ", "strong"),
                (f"{safe(rank.node):<10} {head} ", "text"),
                (f"{glyphs.fresh if up else glyphs.waiting} {word:<10}", role),
                (f" {safe(rank.container)}", "dim"),
            )
        )
    return out
