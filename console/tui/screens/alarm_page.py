"""The alarms: what holds and what was, newest first; take note of one or all, mute a rule."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from console.services.hub import HubApi
from console.telemetry.alarm_groups import Group, grouped, is_trouble
from console.telemetry.alarms import Alarm
from console.tui.alarm_lines import alarm_row, follow_line
from console.tui.glyphs import Glyphs
from console.tui.grid import Grid, Row
from console.tui.lasting import Sheet, while_here
from console.tui.paint import Paint
from console.tui.spans import safe

MUTE_S: Final = 3600.0


class AlarmPage(Sheet[None]):
    """a takes note of the one under the cursor and of what is folded under it, A of all; m mutes its rule on its node
    for an hour, u ends that; enter unfolds what follows from an alarm."""

    CSS_PATH = "modal.tcss"
    AUTO_FOCUS = "Grid"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "close", show=False, id="alarm-page.close"),
        Binding("a", "acknowledge", "noted", show=False, id="alarm-page.note"),
        Binding("A", "acknowledge_all", "all noted", show=False, id="alarm-page.note-all"),
        Binding("m", "mute(True)", "mute", show=False, id="alarm-page.mute"),
        Binding("u", "mute(False)", "unmute", show=False, id="alarm-page.unmute"),
    ]

    def __init__(self, hub: HubApi, paint: Paint, glyphs: Glyphs) -> None:
        super().__init__()
        self.hub = hub
        self._paint = paint
        self._glyphs = glyphs
        self._unfolded: set[int] = set()

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield Grid(id="alarm-list")

    def on_mount(self) -> None:
        sheet = self.query_one("#sheet", Vertical)
        sheet.border_subtitle = Content(" a noted  A all noted  m mute its rule 1 h  u unmute  esc closes ")
        grid = self.query_one(Grid)
        grid.cursor_sign = self._glyphs.cursor
        grid.set_paint(self._paint)
        self.set_interval(1.0, self.draw)

    def on_resize(self) -> None:
        self.set_class(self.size.height < 30, "-short")
        self.call_after_refresh(self.draw)

    @while_here
    def draw(self) -> None:
        alarms, now = self.hub.snapshot().alarms, self.hub.now()
        grid = self.query_one(Grid)
        width = max(20, grid.size.width - 1)
        none = Row("", (((" no alarm since this console began", "dim"),),))
        groups = grouped(alarms)
        rows = [row for group in groups for row in self._rows(group, now, width)]
        rest = [a for a in alarms if not (a.active and is_trouble(a))]
        rows += [Row(str(a.id), alarm_row(a, now, width, self._glyphs)) for a in rest]
        grid.set_content((), rows or [none])
        calls = sum(1 for g in groups if g.calling)
        over = sum(1 for a in rest if not a.active)
        words = f" Alarms: {len(groups)} hold, {calls} of them new, {over} over "
        self.query_one("#sheet", Vertical).border_title = Content(words)

    def _rows(self, group: Group, now: float, width: int) -> list[Row]:
        lines = alarm_row(group.cause, now, width, self._glyphs)
        folded = bool(group.follow) and group.cause.id not in self._unfolded
        if folded:
            lines = (*lines, follow_line(group, width, self._glyphs))
        rows = [Row(str(group.cause.id), lines)]
        if not folded:
            rows += [Row(str(a.id), alarm_row(a, now, width, self._glyphs, indent=4)) for a in group.follow]
        return rows

    def on_grid_picked(self, event: Grid.Picked) -> None:
        event.stop()
        if event.key.isdigit():
            self._unfolded ^= {int(event.key)}
            self.draw()

    @property
    def chosen(self) -> Alarm | None:
        key = self.query_one(Grid).cursor_key
        return next((a for a in self.hub.snapshot().alarms if str(a.id) == key), None)

    def action_acknowledge(self) -> None:
        alarm = self.chosen
        if alarm is None:
            return
        group = next((g for g in grouped(self.hub.snapshot().alarms) if g.cause.id == alarm.id), None)
        folded = group is not None and alarm.id not in self._unfolded
        which = [a.id for a in group.all] if group is not None and folded else [alarm.id]
        if sum(self.hub.acknowledge_alarms(ident) for ident in which) == 0:
            self._say("nothing to take note of: it is noted already, or over")
        self.draw()

    def action_acknowledge_all(self) -> None:
        self._say(f"{self.hub.acknowledge_alarms()} noted")
        self.draw()

    def action_mute(self, on: bool) -> None:
        alarm = self.chosen
        if alarm is None:
            return
        self.hub.mute_alarms(MUTE_S if on else 0.0, code=alarm.code, node=alarm.node or "")
        where = f"{safe(alarm.code)} on {safe(alarm.node)}" if alarm.node else safe(alarm.code)
        self._say(f"{where}: nobody is told for an hour" if on else f"{where}: told again")
        self.draw()

    def _say(self, text: str) -> None:
        self.app.notify(text, markup=False)

    def action_close(self) -> None:
        self.dismiss(None)
