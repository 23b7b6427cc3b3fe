"""The cluster pane: a row per node, sorted and filtered as asked, and the chosen node in full below."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from console.base.absent import Absent
from console.services.hub import HubApi, NodeView, Snapshot
from console.tui.figures import age, gib, number, one, size
from console.tui.glyphs import UNICODE, Glyphs
from console.tui.grid import Grid, LateRow
from console.tui.guards import guard_of, guard_words
from console.tui.lasting import while_here
from console.tui.node_figures import Figures, Standouts, figures_of, standouts
from console.tui.node_rows import Look, header, lines
from console.tui.paint import Paint
from console.tui.pane import Lines, Pane
from console.tui.spans import Line, Span, clip, safe

SORTS: Final = ("file", "rank", "state", "free", "gpu", "temp", "power", "fabric", "load", "age")
STATE_ORDER: Final = {"lost": 0, "late": 1, "waiting": 2, "fresh": 3}
HISTORY_S: Final = 600.0


def sorted_views(views: Sequence[tuple[NodeView, Figures]], by: str) -> list[tuple[NodeView, Figures]]:
    """The worst first for figures, the file's order as it stands; unknown values last."""

    def least(value: float | None) -> tuple[bool, float]:
        return value is None, value or 0.0

    def most(value: float | None) -> tuple[bool, float]:
        return value is None, -(value or 0.0)

    keys = {
        "rank": lambda v, f: least(v.rank),
        "state": lambda v, f: least(STATE_ORDER.get(v.state, 2)),
        "free": lambda v, f: least(f.available),
        "gpu": lambda v, f: least(f.gpu),
        "temp": lambda v, f: most(f.temp),
        "power": lambda v, f: least(f.power),
        "fabric": lambda v, f: least(f.rx),
        "load": lambda v, f: most(f.load),
        "age": lambda v, f: most(number(v.age_s)),
    }
    key = keys.get(by)
    return list(views) if key is None else sorted(views, key=lambda pair: key(*pair))


class NodePane(Pane):
    """Draws the nodes of a snapshot."""

    NAME = "Cluster"

    class Open(Message):
        """Show this node in full."""

        def __init__(self, node: str) -> None:
            super().__init__()
            self.node = node

    def __init__(self, hub: HubApi, *, id: str = "cluster") -> None:  # noqa: A002
        super().__init__(id=id)
        self.hub = hub
        self.glyphs: Glyphs = UNICODE
        self.sort = "file"
        self.words = ""
        self._snapshot: Snapshot | None = None
        self._stand = Standouts()
        self._figures: dict[str, tuple[object, Figures]] = {}
        self._histories: dict[str, tuple[float, Sequence[float | None]]] = {}

    def compose(self) -> ComposeResult:
        yield Grid(id="nodes")
        yield Lines(id="node-detail")
        prompt = Input(placeholder="show nodes with these words: dgx6, lost, refused …", id="node-filter", compact=True)
        prompt.display = False
        yield prompt

    @property
    def grid(self) -> Grid:
        return self.query_one(Grid)

    @property
    def target(self) -> Widget:
        return self.grid

    @while_here
    def set_paint(self, paint: Paint, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        self.grid.cursor_sign = glyphs.cursor
        self.grid.set_paint(paint)
        self.query_one(Lines).set_paint(paint)
        self.retitle(paint)
        self.draw()

    @while_here
    def show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.draw()

    def on_resize(self, _event: events.Resize) -> None:
        self._histories.clear()
        self.draw()

    @while_here
    def draw(self) -> None:
        snapshot = self._snapshot
        if snapshot is None or not self.is_mounted or not self.size.width:
            return
        width = max(20, self.size.width - 1)
        names = max((len(safe(n.node.name)) for n in snapshot.nodes), default=6)
        look = Look(width, self.glyphs, min(14, max(4, names)), self.sort)
        all_views = [(view, self._figures_of(view)) for view in snapshot.nodes]
        self._stand = standouts([(v.node.name, f) for v, f in all_views if v.state == "fresh"])
        shown = [pair for pair in all_views if self._wanted(pair[0])]
        shown = sorted_views(shown, self.sort)
        height, now, stand = 1 if look.wide else 2, self.hub.now(), self._stand

        def row(view: NodeView, figures: Figures) -> tuple[Line, ...]:
            return lines(view, figures, stand, look, self._history(view.node.name, look.spark_width, now))

        rows = [LateRow(v.node.name, height, partial(row, v, f)) for v, f in shown]
        totals = {f.total for _, f in all_views if f.total is not None}
        self.grid.set_content(header(look, max(totals) if totals else None), rows)
        self.set_title(self._heading(snapshot, len(shown)))
        self._draw_detail(width)

    def _figures_of(self, view: NodeView) -> Figures:
        """Of a hundred nodes few have spoken since the last picture."""
        kept = self._figures.get(view.node.name)
        if kept is None or kept[0] is not view.sample:
            kept = self._figures[view.node.name] = (view.sample, figures_of(view))
        return kept[1]

    def _history(self, name: str, points: int, now: float) -> Sequence[float | None]:
        """Of the rows that are looked at. It moves slowly: read at 1 Hz, the figures as often as they change."""
        kept = self._histories.get(name)
        if kept is None or not 0.0 <= now - kept[0] < 1.0 or len(kept[1]) != points:
            values = self.hub.series(name, "mem_used", seconds=HISTORY_S, points=points)
            kept = self._histories[name] = (now, values)
        return kept[1]

    def _wanted(self, view: NodeView) -> bool:
        if not self.words:
            return True
        hay = f"{view.node.name} {view.node.host} {view.state} {view.trouble} {view.why} rank {view.rank}".lower()
        return all(word in hay for word in self.words.lower().split())

    def _heading(self, snapshot: Snapshot, shown: int) -> Line:
        spans: list[Span] = [("Cluster ", "title"), (f"{safe(snapshot.cluster.name, limit=30)} ", "strong")]
        total = len(snapshot.nodes)
        counts = {state: sum(1 for n in snapshot.nodes if n.state == state) for state in ("late", "lost", "waiting")}
        words = [f"{total} nodes", *(f"{n} {state}" for state, n in counts.items() if n)]
        spans.append((", ".join(words) + " ", "bad" if counts["lost"] else "warn" if counts["late"] else "dim"))
        if self.words:
            spans.append((f"{self.glyphs.dot} {shown} with “{safe(self.words, limit=30)}” ", "warn"))
        if self.sort != "file":
            spans.append((f"{self.glyphs.dot} by {self.sort} ", "dim"))
        return tuple(spans)

    def _draw_detail(self, width: int) -> None:
        snapshot, detail = self._snapshot, self.query_one(Lines)
        key = self.grid.cursor_key
        view = next((n for n in snapshot.nodes if n.node.name == key), None) if snapshot is not None else None
        detail.set_lines(clip(self.detail_of(view), width) if view is not None else ())

    def detail_of(self, view: NodeView) -> Line:
        """The node under the cursor: how it is reached and what troubles it, else the finer figures."""
        spans: list[Span] = [(f" {safe(view.node.name)} ", "strong")]
        if view.state in ("lost", "late") or view.trouble:
            since = "never seen" if isinstance(view.age_s, Absent) else f"last seen {age(view.age_s)} ago"
            spans += [
                (f"{safe(view.why) or view.state}", "bad" if view.state == "lost" else "warn"),
                (f"  {since}", "dim"),
            ]
            if view.remedy:
                spans += [(f"  {self.glyphs.arrow} ", "dim"), (safe(view.remedy), "ok")]
            return tuple(spans)
        f = figures_of(view)
        parts = [
            f"{safe(view.node.host)}"
            + (f" fabric {safe(view.node.fabric_address)}" if view.node.fabric_address else "")
        ]
        parts.append(f"used {gib(f.used)} of {gib(f.total)} GiB" + ("" if f.dedicated else " unified"))
        parts.append(f"shmem {gib(f.shmem)}  swap {size(f.swap)}")
        parts.append(f"memory stall {one(f.mem_full)} %  io stall {one(f.io_full)} %")
        spans.append(("  ".join(parts), "dim"))
        boot = self._snapshot.boot if self._snapshot is not None else None
        if boot is not None and (guard := guard_of(view, boot.deployment)) is not None:
            words, role = guard_words(guard)
            spans.append((f"  {words}", "dim" if role == "ok" else role))
        if f.throttle:
            spans.append((f"  throttled: {safe(', '.join(f.throttle))}", "warn"))
        if f.errors:
            spans.append((f"  {f.errors} fabric errors", "bad"))
        if odd := self._stand.remark(view.node.name):
            spans.append((f"  {odd}", "warn"))
        return tuple(spans)

    def next_sort(self) -> None:
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.draw()

    def ask_filter(self) -> None:
        prompt = self.query_one(Input)
        prompt.value = self.words
        prompt.display = True
        prompt.focus()

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()
        self._draw_detail(max(20, self.size.width - 1))

    def on_grid_picked(self, event: Grid.Picked) -> None:
        event.stop()
        self.post_message(self.Open(event.key))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input.display:
            self.words = event.value
            self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        event.input.display = False
        self.grid.focus()

    def on_key(self, event: events.Key) -> None:
        prompt = self.query_one(Input)
        if event.key == "escape" and (prompt.display or self.words):
            event.stop()
            self.words = prompt.value = ""
            prompt.display = False
            self.grid.focus()
            self.draw()
