"""The main screen: panes stacked where there is room, as tabs where there is not; drawn from the hub's snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer

from console.boot.state import BootState
from console.services.hub import HubApi, Snapshot
from console.services.replay_api import ReplayApi
from console.tui.actions import BY_RUN, bindings, key_signs, offered
from console.tui.alarm_lines import alert_line
from console.tui.bars import KeyBar, TabBar, top_line
from console.tui.boot_pane import BootPane
from console.tui.boots_pane import BootsPane
from console.tui.controls_lines import controls_alert
from console.tui.glyphs import Glyphs
from console.tui.jobs import Jobs
from console.tui.lasting import while_here
from console.tui.log_pane import LogPane
from console.tui.node_pane import NodePane
from console.tui.paint import Paint
from console.tui.pane import Lines, Pane
from console.tui.recipes_pane import RecipesPane
from console.tui.screens.controls_actions import LOOK_S
from console.tui.screens.look_actions import LookActions
from console.tui.spans import clip, line_width, safe, spread

DRAW_S: Final = 0.25  # at most four pictures a second
STACK_COLUMNS: Final = 122  # a node fits into one line from here on
STACK_ROWS: Final = 34
FOUND_S: Final = 20.0  # within which the nodes answer what runs
SEVERITY: Final = {"info": "information", "warn": "warning", "error": "error"}


class MainScreen(LookActions):
    """Holds no truth: what it shows comes from the last snapshot."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    AUTO_FOCUS = ""
    PANES: ClassVar[tuple[str, ...]] = ("cluster", "boot", "logs", "recipes", "boots")
    DECK: ClassVar[tuple[str, ...]] = ("logs", "recipes", "boots")

    def __init__(self, hub: HubApi, jobs: Jobs, paint: Paint, glyphs: Glyphs, keymap: dict[str, str]) -> None:
        super().__init__()
        self.hub = hub
        self.jobs = jobs
        self.paint = paint
        self.glyphs = glyphs
        self.active = "boot"
        self.deck = "logs"
        self.zoomed = False
        self._keymap = keymap
        self._unsubscribe: Callable[[], None] | None = None
        self._due: Timer | None = None
        self._drawn_version = -1
        self._notice = 0
        self._found_until = 0.0  # until then a boot that is found comes to the front, unless somebody chose a pane
        self._asked: set[tuple[str, str, float]] = set()

    @property
    def keymap(self) -> dict[str, str]:
        return self._keymap

    def compose(self) -> ComposeResult:
        yield Lines(id="top")
        yield Lines(id="alert")
        yield TabBar(id="tabs-top", classes="tabs")
        yield NodePane(self.hub)
        yield BootPane()
        yield TabBar(id="tabs-deck", classes="tabs")
        yield LogPane(self.hub)
        yield RecipesPane(self.hub)
        yield BootsPane()
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        self.query_one(BootPane).keys = {} if self.hub.read_only else key_signs(self._keymap)
        self.query_one(BootPane).me = self.hub.by
        snapshot = self.hub.snapshot()
        self.active = self.first_pane()
        self.deck = "logs" if self.active == "boot" else self.active
        self._notice = max((n.seq for n in snapshot.notices), default=0)
        self.repaint(self.paint, self.glyphs)
        self._unsubscribe = self.hub.subscribe(self._changed)
        self.set_interval(1.0, self.draw)
        if snapshot.replay is None:
            self.look_at_controls()
            self.set_interval(LOOK_S, self.look_at_controls)
        self.lay_out()
        self.draw()
        self.choose_pane(self.active)
        self._found_until = self.hub.now() + FOUND_S if snapshot.boot is None else 0.0

    def first_pane(self) -> str:
        """What the operator wants to see first: the boot, where there is one."""
        return "boot" if self.hub.snapshot().boot is not None else "recipes"

    def on_unmount(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()

    # -- drawing ---------------------------------------------------------------------------------------------

    @while_here
    def _changed(self) -> None:
        """Called by the hub after each change: the first is drawn at once, the rest at most four times a second."""
        if self._due is None:
            self._due = self.set_timer(DRAW_S, self._draw_due)
            self.call_next(self.draw)

    def _draw_due(self) -> None:
        self._due = None
        if self.hub.snapshot().version != self._drawn_version:
            self.draw()

    @while_here
    def draw(self) -> None:
        """Show the snapshot as it is now; each pane repaints what differs."""
        snapshot, now = self.hub.snapshot(), self.hub.now()
        self._drawn_version = snapshot.version
        if snapshot.boot is not None and now < self._found_until and self.app.screen is self:
            self.show_boot()  # found on the nodes a moment after the console began
            return
        if self.covered:
            self._tell(snapshot)
            return
        with self.app.batch_update():
            self.query_one("#top", Lines).set_lines(top_line(snapshot, now, self.size.width, self.glyphs))
            self._draw_alert(snapshot, now)
            for pane in self.query(Pane):
                if not pane.display and not isinstance(pane, LogPane | RecipesPane):
                    continue
                if isinstance(pane, NodePane):
                    pane.show(snapshot)
                elif isinstance(pane, BootPane):
                    pane.show(snapshot, self.hub.boots() if snapshot.boot is None else (), now)
                elif isinstance(pane, LogPane):
                    pane.show(snapshot.boot, snapshot.replay.turn if snapshot.replay is not None else 0)
                elif isinstance(pane, RecipesPane):
                    pane.show(snapshot)
                elif isinstance(pane, BootsPane):
                    pane.show(self.hub.boots())
            self._draw_bars(snapshot)
        self.watch_controls()
        self._tell(snapshot)

    def _draw_alert(self, snapshot: Snapshot, now: float) -> None:
        """The line under the header: there only while there is something to say."""
        key = key_signs(self._keymap)["deployment.controls"]
        controls = controls_alert(snapshot.controls, key, self.glyphs)
        alarm = alert_line(snapshot.alarms, now, self.glyphs)
        line = self.query_one("#alert", Lines)
        width = self.size.width
        cramped = snapshot.replay is not None and width < STACK_COLUMNS  # the replay's own bar tells what happened
        line.display = bool(controls or alarm) and not cramped
        if controls and alarm and line_width((*controls, *alarm)) > width and width < STACK_COLUMNS:
            line.styles.height = 2
            line.set_lines(clip(controls, width), clip(alarm, width))
        else:
            line.styles.height = 1
            line.set_lines(spread(alarm, controls, width) if alarm else clip(controls, width))

    @while_here
    def _draw_bars(self, snapshot: Snapshot) -> None:
        names = {"cluster": "Cluster", "boot": "Boot", "logs": "Logs", "recipes": "Recipes", "boots": "Boots"}
        if snapshot.problems:
            names["recipes"] += f" {self.glyphs.failed}{len(snapshot.problems)}"
        if snapshot.boot is not None:
            names["boot"] += f" {snapshot.boot.number}"
        self.query_one("#tabs-top", TabBar).draw([(p, names[p]) for p in self.PANES], self.active)
        self.query_one("#tabs-deck", TabBar).draw([(p, names[p]) for p in self.DECK], self.deck)
        self.query_one(KeyBar).draw(offered(snapshot), self._keymap, self.size.width)

    def _tell(self, snapshot: Snapshot) -> None:
        """New notices as toasts; a question of the console once."""
        for notice in snapshot.notices:
            if notice.seq > self._notice:
                self._notice = notice.seq
                severity = SEVERITY.get(notice.severity, "information")
                text = ("now, not in the replay: " if self.covered else "") + safe(notice.text, limit=600)
                self.app.notify(text, severity=severity, timeout=15, markup=False)  # type: ignore[arg-type]
        boot = snapshot.boot
        if boot is None or snapshot.read_only:
            return
        for ask in boot.asks:
            key = (boot.deployment, ask, boot.deadline_s)
            if key not in self._asked and self.app.screen is self:
                self._asked.add(key)
                self.ask_about(boot, ask)

    @while_here
    def repaint(self, paint: Paint, glyphs: Glyphs) -> None:
        """The theme changed."""
        self.paint, self.glyphs = paint, glyphs
        for lines in self.query(Lines):
            lines.set_paint(paint)
        for pane in self.query(Pane):
            if isinstance(pane, NodePane | BootPane | LogPane | RecipesPane | BootsPane):
                pane.set_paint(paint, glyphs)

    @property
    def covered(self) -> bool:
        """True while a replay stands over this screen: what is told meanwhile is of now, and has to say so."""
        stack = self.app.screen_stack
        return self in stack and any(isinstance(s, MainScreen) for s in stack[stack.index(self) + 1 :])

    def on_screen_resume(self) -> None:
        self.draw()

    # -- arrangement -----------------------------------------------------------------------------------------

    @property
    def stacked(self) -> bool:
        """True when cluster, boot and one of the deck are on screen together."""
        return self.size.width >= STACK_COLUMNS and self.size.height >= STACK_ROWS and not self.zoomed

    def on_resize(self, _event: events.Resize) -> None:
        self.lay_out()
        self.draw()

    @while_here
    def lay_out(self) -> None:
        """Which panes are on screen, and how high."""
        stacked = self.stacked
        self.set_class(not stacked and not self.zoomed, "-narrow")
        self.set_class(self.zoomed, "-zoomed")
        snapshot = self.hub.snapshot()
        for pane in self.query(Pane):
            name = pane.id or ""
            pane.display = name in self.PANES and (
                (name not in self.DECK or name == self.deck) if stacked else name == self.active
            )
        spare = self.size.height - 34
        nodes = max(1, len(snapshot.nodes))
        ranks = len(snapshot.boot.ranks) if snapshot.boot is not None else nodes
        cluster, boot = self.query_one(NodePane), self.query_one(BootPane)
        if stacked:
            cluster.styles.height = min(nodes, 8 + max(0, spare // 3)) + 4
            boot.styles.height = min(max(ranks, 8), 8 + max(0, spare // 3)) + (6 if spare > 6 else 5)
        else:
            cluster.styles.height = boot.styles.height = "1fr"
        self.query_one("#tabs-deck").display = stacked and len(self.DECK) > 1
        self.query_one("#tabs-top").display = not stacked

    @while_here
    def choose_pane(self, pane: str, *, focus: bool = True) -> None:
        """Make a pane the active one: shown, and with the focus."""
        if pane not in self.PANES:
            return
        self._found_until = 0.0
        self.active = pane
        if pane in self.DECK:
            self.deck = pane
        self.lay_out()
        self.draw()
        if focus:
            self.query_one(f"#{pane}", Pane).target.focus(scroll_visible=False)

    def show_boot(self) -> None:
        self.deck = "logs"
        self.choose_pane("boot")

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        pane = next((a for a in event.widget.ancestors if isinstance(a, Pane)), None)
        if pane is not None and pane.id and pane.id != self.active:
            self.active = pane.id
            self._draw_bars(self.hub.snapshot())

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        event.stop()
        self.choose_pane(event.pane)

    async def on_key_bar_pressed(self, event: KeyBar.Pressed) -> None:
        event.stop()
        await self.run_action(event.run)

    def on_boot_pane_jump(self, event: BootPane.Jump) -> None:
        event.stop()
        self.choose_pane("logs")
        self.logs.view.flush()
        self.logs.jump(event.rank, event.line)

    def action_pane(self, step: int) -> None:
        self.choose_pane(self.PANES[(self.PANES.index(self.active) + step) % len(self.PANES)])

    def show_replay(self, hub: ReplayApi) -> None:
        from console.tui.screens.replay import ReplayScreen

        screen = ReplayScreen(hub, self.jobs, self.paint, self.glyphs, self._keymap, alone=False)
        self.app.push_screen(screen)

    def action_zoom(self) -> None:
        self.zoomed = not self.zoomed
        self.choose_pane(self.active)

    def action_quit_console(self) -> None:
        from console.tui.leaving import leave

        leave(self)

    # -- rights ----------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A read-only console does not have the actions that change a node, nor a replay those of the present."""
        known = BY_RUN.get(action)
        if known is not None and not known.is_of(self.hub.snapshot()):
            return False
        return super().check_action(action, parameters)

    @property
    def live_boot(self) -> BootState | None:
        boot = self.hub.snapshot().boot
        return boot if boot is not None and not boot.phase.over else None
