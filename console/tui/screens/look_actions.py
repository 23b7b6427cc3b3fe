"""What changes nothing on a node: plan, difference, edit, search, filter, follow, copy, help, panes."""

from __future__ import annotations

from functools import partial

from console.base.errors import NightdeckError
from console.boot.compare import Comparison
from console.plan.model import Plan
from console.services.hub import BootSummary, HubApi
from console.services.replay_api import ReplayApi
from console.tui.actions import ACTIONS, key_sign
from console.tui.boot_pane import Board
from console.tui.boot_records import record_lines
from console.tui.boots_pane import BootsPane, boot_lines
from console.tui.copying import copy
from console.tui.editor import edit
from console.tui.glyphs import Glyphs
from console.tui.jobs import Jobs
from console.tui.launch_lines import in_the_way, still_here, without_its_own
from console.tui.legend import legend_lines
from console.tui.log_pane import LogPane
from console.tui.node_pane import NodePane
from console.tui.paint import Paint
from console.tui.plan_lines import plan_lines
from console.tui.recipes_pane import RecipesPane
from console.tui.screens.alarm_page import AlarmPage
from console.tui.screens.deployment_actions import DeploymentActions
from console.tui.screens.node_page import NodePage
from console.tui.screens.paper import PaperScreen
from console.tui.spans import Line, fit, safe, wrap_spans


class LookActions(DeploymentActions):
    """Mixed into the main screen."""

    hub: HubApi
    jobs: Jobs
    paint: Paint
    glyphs: Glyphs
    active: str

    @property
    def logs(self) -> LogPane:
        return self.query_one(LogPane)

    def choose_pane(self, pane: str, *, focus: bool = True) -> None:
        raise NotImplementedError

    def paper(self, title: str, lines: list[Line] | None = None, *, draw: object = None) -> PaperScreen:
        screen = PaperScreen(title, draw if callable(draw) else (lambda _: lines or []), self.paint)
        self.app.push_screen(screen)
        return screen

    # -- recipes ---------------------------------------------------------------------------------------------

    def action_plan(self) -> None:
        recipe = self.recipe_in_mind()
        if recipe is None:
            self.say("there is no recipe that can be read", bad=True)
            return
        screen = self.paper(f"Plan of {safe(recipe.slug)}: nothing runs", [((" looking at the nodes …", "active"),)])

        async def fetch() -> None:
            try:
                plan: Plan | NightdeckError = await self.hub.plan(recipe.slug)
            except NightdeckError as error:
                plan = error
            if not screen.is_attached:
                return
            if isinstance(plan, Plan):
                boot = still_here(self.hub.snapshot().boot)
                shown = plan if boot is None else without_its_own(plan, restart=False)
                note = "" if boot is None else f"{in_the_way(boot)}: its own ports and memory are left out below"
                lead = (" ", "text")

                def draw(width: int) -> list[Line]:
                    said = [*wrap_spans(lead, note, "warn bold", width, limit=2), ()] if note else []
                    return [*said, *plan_lines(shown, width, self.glyphs)]

                screen.redraw(draw)
            else:
                text = safe(plan, limit=1000)
                screen.redraw(lambda width: wrap_spans((" ", "text"), text, "bad", width, limit=10))

        self.jobs.start("plan", fetch())

    def action_difference(self) -> None:
        if self.active == "boots" and (boot_id := self.query_one(BootsPane).grid.cursor_key) is not None:
            self._compare_records("Since the last boot that served", boot_id)
            return
        self.hub.reload_recipes()
        recipe = self.recipe_in_mind()
        if recipe is None:
            self.say("there is no recipe that can be read", bad=True)
            return
        boot = self.hub.snapshot().boot

        def draw(width: int) -> list[Line]:
            out: list[Line] = [((f" {safe(recipe.slug)} now, against its last boot", "title"),)]
            changes = self.hub.changes_since_last(recipe.slug)
            for change in changes:
                out += wrap_spans((f"  {self.glyphs.dot} ", "warn"), safe(change), "text", width, limit=6)
            if not changes:
                out.append((("  nothing changed", "dim"),))
            if boot is not None:
                out += [(), ((f" boot {boot.number}, against the boot before it", "title"),)]
                for change in boot.changed:
                    out += wrap_spans((f"  {self.glyphs.dot} ", "warn"), safe(change), "text", width, limit=6)
                if not boot.changed:
                    out.append((("  nothing changed, or there was none before", "dim"),))
            return out

        self.paper("What changed", draw=draw)

    def action_edit(self) -> None:
        pane = self.query_one(RecipesPane)
        target = pane.chosen_file if pane.has_focus_within or pane.touched else None
        recipe = self.recipe_in_mind()
        file, line = target if target is not None else (recipe.file if recipe is not None else "", None)
        if not file:
            self.say("there is no recipe file to edit", bad=True)
            return

        async def run() -> None:
            try:
                where = await edit(self.app, file, line)
            except NightdeckError as error:
                self.say(str(error), bad=True)
                return
            self.hub.reload_recipes()
            self.say(f"{file} in {where}; it is read again when saved")

        self.jobs.start("edit", run())

    def action_reload(self) -> None:
        self.hub.reload_recipes()
        snapshot = self.hub.snapshot()
        bad = f", {len(snapshot.problems)} cannot be read" if snapshot.problems else ""
        self.say(f"{len(snapshot.recipes)} recipes{bad}", bad=bool(snapshot.problems))

    # -- looking ---------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        if self.active == "recipes":
            self.query_one(RecipesPane).ask_search()
        elif self.active == "cluster":
            self.query_one(NodePane).ask_filter()
        else:
            self.choose_pane("logs")
            self.logs.ask("search")

    def action_filter(self) -> None:
        if self.active == "cluster":
            self.query_one(NodePane).ask_filter()
        else:
            self.choose_pane("logs")
            self.logs.ask("filter")

    def action_follow(self) -> None:
        self.logs.toggle_follow()

    def action_log_end(self) -> None:
        self.logs.view.follow_end()

    def action_match(self, step: int) -> None:
        self.logs.next_match(step)

    def action_log_error(self, step: int) -> None:
        self.logs.next_error(step)

    def action_log_stage(self, step: int) -> None:
        self.logs.next_stage(step)

    def action_wrap(self) -> None:
        self.logs.view.toggle_wrap()

    def action_rank(self, rank: int) -> None:
        if self.active != "logs":
            self.choose_pane("logs", focus=False)
        self.logs.show_rank(None if rank < 0 else rank)

    def action_copy(self) -> None:
        text = self.logs.visible_text()
        if not text:
            self.say("no lines to copy")
            return
        try:
            self.say(copy(self.app, text))
        except OSError as error:
            self.say(f"not copied: {error.strerror}", bad=True)

    def action_save(self) -> None:
        ranks = self.logs.view.store.filter.ranks
        rank = next(iter(ranks)) if ranks is not None and len(ranks) == 1 else None
        try:
            path = self.hub.save_log(rank)
        except (NightdeckError, OSError) as error:
            self.say(f"not saved: {error}", bad=True)
            return
        self.say(f"{'all ranks' if rank is None else f'rank {rank}'} saved to {path}")

    def action_sort(self) -> None:
        self.query_one(NodePane).next_sort()

    def action_compare(self) -> None:
        if self.active != "boots":
            self.choose_pane("boots")
        else:
            self.query_one(BootsPane).compare()

    def on_boots_pane_open(self, event: BootsPane.Open) -> None:
        event.stop()
        boots = list(event.boots)
        if len(boots) == 1:
            self._boot_as_text(boots[0])
        else:
            old, new = boots
            self._compare_records(f"Boot {old.number} and boot {new.number}", old.id, new.id)

    def _boot_as_text(self, boot: BootSummary) -> None:
        self.paper(f"Boot {boot.number}", draw=lambda width: boot_lines(boot, width, self.glyphs))

    def on_boots_pane_replay(self, event: BootsPane.Replay) -> None:
        event.stop()
        self._replay(event.boot)

    def action_replay_boot(self) -> None:
        boot = self.query_one(BootsPane).chosen
        if self.active != "boots" or boot is None:
            self.choose_pane("boots")
        else:
            self._replay(boot)

    def _replay(self, boot: BootSummary) -> None:
        """The boot in these same screens; where it kept no events, its summary as text."""

        async def open_it() -> None:
            try:
                hub = await self.hub.open_replay(boot.id)
            except NightdeckError as error:
                self.say(f"boot {boot.number} cannot be replayed: {error}", bad=True)
                self._boot_as_text(boot)
                return
            self.show_replay(hub)

        self.jobs.start("open a replay", open_it())

    def show_replay(self, hub: ReplayApi) -> None:
        raise NotImplementedError

    def _compare_records(self, title: str, *names: str) -> None:
        """What is kept of two boots; with one name, against the last boot before it that served."""
        screen = self.paper(title, [((" reading …", "active"),)])

        async def fetch() -> None:
            try:
                found = await self.hub.compare_boots(*names)
            except NightdeckError as error:
                text = safe(error, limit=600)
                draw = partial(_trouble_lines, text)
            else:
                draw = partial(_comparison, found, self.glyphs)
            if screen.is_attached:
                screen.redraw(draw)

        self.jobs.start("compare", fetch())

    # -- nodes and alarms ------------------------------------------------------------------------------------

    def action_node_page(self) -> None:
        """The node under the cursor of the cluster, or of the board's rank; in the ledger the boot as text."""
        if self.active == "boots" and (summary := self.query_one(BootsPane).chosen) is not None:
            self._boot_as_text(summary)
            return
        pane = self.query_one(NodePane)
        name = pane.grid.cursor_key
        board, boot = self.query_one(Board), self.hub.snapshot().boot
        if self.active == "boot" and boot is not None:
            name = next((r.node for r in boot.ranks if str(r.rank) == board.cursor_key), name)
        if name is None:
            names = [v.node.name for v in self.hub.snapshot().nodes]
            name = names[0] if names else None
        if name is not None:
            self.app.push_screen(NodePage(self.hub, name, self.paint, self.glyphs))

    def on_node_pane_open(self, event: NodePane.Open) -> None:
        event.stop()
        self.app.push_screen(NodePage(self.hub, event.node, self.paint, self.glyphs))

    def action_alarms(self) -> None:
        self.app.push_screen(AlarmPage(self.hub, self.paint, self.glyphs))

    # -- help ------------------------------------------------------------------------------------------------

    @property
    def keymap(self) -> dict[str, str]:
        raise NotImplementedError

    def action_help(self) -> None:
        self.paper("Keys and signs", draw=self._help_lines)

    def _help_lines(self, width: int) -> list[Line]:
        snapshot = self.hub.snapshot()
        out: list[Line] = []
        areas = list(dict.fromkeys(a.area for a in ACTIONS))
        for area in areas:
            rows = [a for a in ACTIONS if a.area == area and a.is_of(snapshot)]
            rows = [a for a in rows if not a.id.startswith("logs.rank-")]
            if not rows:
                continue
            out += [((f" {area}", "title"),)]
            for action in rows:
                key = fit(key_sign(action, self.keymap), 7)
                # A narrow page has no room for the names that a keymap uses; the page of keys in the manual has them.
                names = width >= 96
                words = fit(action.sentence, 62 if names else max(20, width - 12))
                out.append(((f"   {key}", "key"), (words, "text"), (f" {action.id}" if names else "", "dim")))
            if area == "Logs":
                out.append(
                    (
                        ("   1-8    ", "key"),
                        ("Log of the first to the eighth rank alone", "text"),
                    )
                )
            out.append(())
        out += [
            ((" Everywhere", "title"),),
            (("   ^p     ", "key"), ("Palette: what can be done now, and the themes", "text")),
            (
                ("   arrows ", "key"),
                ("Move; in the board left and right choose the stage, enter shows its line in the log", "text"),
            ),
            (("   n N    ", "key"), ("While a log is searched: the next match, the one before", "text")),
            (("   esc    ", "key"), ("Close a prompt; take a search off and go back to where it began", "text")),
            (),
            *legend_lines(width, self.glyphs),
        ]
        if snapshot.replay is not None:
            out += [(), ((" This is a replay: it shows what was, and nothing here changes anything.", "warn"),)]
        elif snapshot.read_only:
            out += [(), ((" This console is read-only: nothing here changes a node.", "warn"),)]
        return out


def _trouble_lines(text: str, width: int) -> list[Line]:
    return wrap_spans((" ", "text"), text, "bad", width, limit=10)


def _comparison(found: Comparison, glyphs: Glyphs, width: int) -> list[Line]:
    return record_lines(found, width, glyphs)
