"""A node in full: charts over ten minutes, an hour or twelve, and everything that its last sample says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from console.base.absent import Absent
from console.services.hub import HubApi, NodeView
from console.tui.figures import number
from console.tui.glyphs import Glyphs
from console.tui.lasting import while_here
from console.tui.node_charts import WINDOWS, chart_lines
from console.tui.node_lines import node_lines
from console.tui.node_rows import state_span
from console.tui.paint import Paint
from console.tui.pane import Paper
from console.tui.screens.paper import PaperScreen
from console.tui.spans import Line, safe

TWO_BY_TWO = 110


class NodePage(PaperScreen):
    """+ and - choose the window, left and right move the cursor through time, n and p go through the nodes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,equals_sign,z", "window(1)", "longer", show=False, id="node-page.longer"),
        Binding("minus", "window(-1)", "shorter", show=False, id="node-page.shorter"),
        Binding("left", "cursor(1)", "earlier", show=False, id="node-page.earlier"),
        Binding("right", "cursor(-1)", "later", show=False, id="node-page.later"),
        Binding("n,full_stop", "turn(1)", "next node", show=False, id="node-page.next"),
        Binding("p,comma", "turn(-1)", "node before", show=False, id="node-page.previous"),
        Binding("i", "close", "close", show=False),
    ]

    def __init__(self, hub: HubApi, node: str, paint: Paint, glyphs: Glyphs) -> None:
        super().__init__(node, self._lines, paint)
        self.add_class("-page")
        self.hub = hub
        self.node = node
        self.window = 0
        self.back: int | None = None
        self._glyphs = glyphs

    def on_mount(self) -> None:
        """The sheet's own on_mount runs too, as Textual sends an event to every class."""
        self.set_interval(1.0, self.refresh_page)

    def on_resize(self, _event: events.Resize) -> None:
        self.call_after_refresh(self.refresh_page)

    @property
    def view(self) -> NodeView | None:
        return next((v for v in self.hub.snapshot().nodes if v.node.name == self.node), None)

    @while_here
    def refresh_page(self) -> None:
        view = self.view
        rank = "" if view is None or view.rank is None else f", rank {view.rank}"
        word = "" if view is None else "  " + state_span(view, self._glyphs)[0]
        mark = "" if self.hub.snapshot().replay is None else "   REPLAY"
        self.query_one("#sheet", Vertical).border_title = Content(f" {safe(self.node)}{rank}{word}{mark} ")
        hint = " + - time   left right look back   n p other node   esc closes "
        self.query_one("#sheet", Vertical).border_subtitle = Content(hint)
        self.redraw()

    def _read(self, metric: str, seconds: float, points: int) -> Sequence[float | None]:
        return self.hub.series(self.node, metric, seconds=seconds, points=points)

    def _lines(self, width: int) -> list[Line]:
        view = self.view
        if view is None:
            return [((" this node is no longer in the cluster", "warn"),)]
        total = None if isinstance(view.sample, Absent) else number(view.sample.memory.total_bytes)
        wide = width >= TWO_BY_TWO
        rows = 5 if self.size.height >= 40 else 2 if self.size.height < 30 else 4
        last = "now" if self.hub.snapshot().replay is None else "then"
        charts = chart_lines(
            self._read, self.window, width, rows, self._glyphs, total=total, back=self.back, wide=wide, last=last
        )
        return [*charts, (), *node_lines(view, width, self._glyphs, now=self.hub.now())]

    def action_window(self, by: int) -> None:
        self.window = min(len(WINDOWS) - 1, max(0, self.window + by))
        self.refresh_page()

    def action_cursor(self, by: int) -> None:
        """Past now on the right the cursor goes away."""
        self.back = (0 if by > 0 else None) if self.back is None else self.back + by
        if self.back is not None and self.back < 0:
            self.back = None
        if self.back is not None:
            self.back = min(self.back, max(0, self.query_one(Paper).size.width - 12))
        self.refresh_page()

    def action_turn(self, by: int) -> None:
        names = [v.node.name for v in self.hub.snapshot().nodes]
        if names:
            at = names.index(self.node) if self.node in names else 0
            self.node = names[(at + by) % len(names)]
            self.refresh_page()
