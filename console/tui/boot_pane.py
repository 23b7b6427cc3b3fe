"""The boot pane: the board, or what took its place (steps, failure, stop, nothing)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from console.boot.awaited import late_ranks
from console.boot.state import BootState, Phase
from console.enginelog.stages_model import CellState, Stage
from console.services.hub import BootSummary, Snapshot
from console.tui.board_rows import COLUMNS, BoardLook, board_header, board_row, cell_of, cell_words, laggards
from console.tui.boot_lines import advice_lines, clock_line, failure_lines, idle_lines, step_lines
from console.tui.controls_lines import holder_words
from console.tui.glyphs import UNICODE, Glyphs
from console.tui.grid import Grid, LateRow
from console.tui.guards import GuardView, guards_of
from console.tui.lasting import while_here
from console.tui.paint import Paint
from console.tui.pane import Lines, Pane, Paper
from console.tui.spans import Line, Span, safe
from console.tui.stop_lines import stop_lines

OTHER_ROWS = 3  # beside the ranks and the advice: clock, header, the words of the cell
STAGES: tuple[Stage, ...] = tuple(stage for stage, *_ in COLUMNS)


class Board(Grid):
    """The grid of ranks and stages, with a cursor on one cell."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "column(-1)", "stage before", show=False, id="board.left"),
        Binding("right", "column(1)", "stage after", show=False, id="board.right"),
    ]

    class CellMoved(Message):
        """The cursor stands on another stage."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.column = int(Stage.WEIGHTS)
        self.touched = False

    def action_column(self, by: int) -> None:
        self.touched = True
        self.column = min(max(0, self.column + by), len(STAGES) - 1)
        self.post_message(self.CellMoved())

    def action_move(self, by: int) -> None:
        self.touched = True
        super().action_move(by)


class BootPane(Pane):
    """Draws a boot's state; asks to jump to a line of the log."""

    NAME = "Boot"

    class Jump(Message):
        """Show this line of a rank's log."""

        def __init__(self, rank: int, line: int) -> None:
            super().__init__()
            self.rank = rank
            self.line = line

    def __init__(self, *, id: str = "boot") -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs: Glyphs = UNICODE
        self.keys: Mapping[str, str] = {}
        self.boot: BootState | None = None
        self.ledger: Sequence[BootSummary] = ()
        self.now = 0.0
        self.guards: Mapping[int, GuardView] = {}
        self.holder = ""
        self.me = ""
        self.replayed = False
        self.looked = True
        self.job = ""

    def compose(self) -> ComposeResult:
        yield Lines(id="boot-clock")
        yield Lines(id="boot-advice")
        yield Board(id="board")
        yield Paper(id="boot-paper")
        yield Lines(id="boot-detail")

    @property
    def board(self) -> Board:
        return self.query_one(Board)

    @property
    def paper(self) -> Paper:
        return self.query_one(Paper)

    @property
    def target(self) -> Widget:
        return self.board if self.board.display else self.paper

    @while_here
    def set_paint(self, paint: Paint, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        for widget in self.query(Lines):
            widget.set_paint(paint)
        self.board.cursor_sign = glyphs.cursor
        self.board.set_paint(paint)
        self.paper.set_paint(paint)
        self.retitle(paint)
        self.draw()

    @while_here
    def show(self, snapshot: Snapshot, ledger: Sequence[BootSummary], now: float) -> None:
        boot = snapshot.boot
        self.boot, self.ledger, self.now = boot, ledger, now
        self.guards = guards_of(snapshot, boot) if boot is not None else {}
        self.holder = holder_words(snapshot.controls)
        self.replayed = snapshot.replay is not None
        self.looked = snapshot.looked
        self.job = snapshot.job
        self.draw()

    def on_resize(self, _event: events.Resize) -> None:
        self.draw()

    @property
    def mode(self) -> str:
        """`idle`, `failed`, `stop`, `steps` or `board`."""
        boot = self.boot
        if boot is None:
            return "idle"
        if boot.phase in (Phase.STOPPING, Phase.STOPPED):
            return "stop"
        if boot.phase == Phase.FAILED:
            return "failed"
        if boot.steps and not any(rank.cells or rank.status for rank in boot.ranks):
            return "steps"
        return "board"

    @while_here
    def draw(self) -> None:
        if not self.size.width:
            return
        boot, now, g = self.boot, self.now, self.glyphs
        width = max(20, self.size.width - 1)
        mode = self.mode
        self._switch(mode == "board")
        clock = self.query_one("#boot-clock", Lines)
        detail = self.query_one("#boot-detail", Lines)
        clock.display = boot is not None
        advice = advice_lines(boot, width, self.keys) if boot is not None and mode == "board" else []
        spare = self.size.height - OTHER_ROWS - (len(boot.ranks) if boot is not None else 0)
        advice = advice[: max(0, spare)]
        told = self.query_one("#boot-advice", Lines)
        told.display = bool(advice)
        told.styles.height = max(1, len(advice))
        told.set_lines(*advice)
        detail.display = mode == "board"
        self.set_title(self._heading())
        if boot is None:
            self.paper.set_lines(
                idle_lines(
                    self.ledger,
                    width,
                    g,
                    self.keys.get("deployment.launch", ""),
                    self.looked,
                    then=self.replayed,
                    job=self.job,
                )
            )
            return
        clock.set_lines(clock_line(boot, now, width, g))
        if mode == "board":
            double = 2 * len(boot.ranks) <= self.size.height - OTHER_ROWS - len(advice)
            self._draw_board(boot, BoardLook(width, g, self._name_width(boot), double, self.guards), detail)
        elif mode == "failed":
            height = max(6, self.size.height - 1)
            self.paper.set_lines(failure_lines(boot, width, height, g, self.keys))
        elif mode == "stop":
            self.paper.set_lines(stop_lines(boot, now, width, g, self.keys.get("deployment.stop", ""), me=self.me))
        else:
            self.paper.set_lines(step_lines(boot.steps, now, width, g))

    def _switch(self, board: bool) -> None:
        if self.board.display == board and self.paper.display != board:
            return
        had_focus = self.board.has_focus or self.paper.has_focus
        self.board.display = board
        self.paper.display = not board
        if had_focus:
            self.target.focus()

    @staticmethod
    def _name_width(boot: BootState) -> int:
        return min(14, max((len(safe(r.node)) for r in boot.ranks), default=6))

    def _draw_board(self, boot: BootState, look: BoardLook, detail: Lines) -> None:
        board = self.board
        lag = laggards(boot.ranks, self.now) | late_ranks(boot, self.now)
        if not board.touched:
            board.column = self._frontier(boot)
        current = board.cursor_key
        stage = STAGES[board.column]
        rows: list[LateRow] = []
        for rank in boot.ranks:
            marked = stage if board.has_focus and str(rank.rank) == (current or str(boot.ranks[0].rank)) else None
            row = partial(board_row, rank, boot, look, self.now, lag.get(rank.rank, ""), marked)
            rows.append(LateRow(str(rank.rank), 2 if look.double and not look.wide else 1, row))
        board.set_content(board_header(look), rows)
        at = next((r for r in boot.ranks if str(r.rank) == board.cursor_key), None)
        guard = self.guards.get(at.rank) if at is not None else None
        words = guard.words if guard is not None else ""
        detail.set_lines(cell_words(at, stage, self.now, look.width, words) if at is not None else ())

    @staticmethod
    def _frontier(boot: BootState) -> int:
        stages = [int(r.stage) for r in boot.ranks if r.stage is not None]
        return max(stages, key=stages.count) if stages else 0

    def _heading(self) -> Line:
        boot = self.boot
        held: list[Span] = [(f"{self.glyphs.dot} {safe(self.holder)} ", "warn")] if self.holder else []
        if boot is None:
            return (("Boot ", "title"), *held)
        spans: list[Span] = [(f"Boot {boot.number} ", "title"), (f"{safe(boot.recipe, limit=60)} ", "strong"), *held]
        if boot.adopted and not boot.phase.over and boot.phase is not Phase.STOPPING:
            spans.append((f"{self.glyphs.dot} found running ", "dim"))
        if boot.changed:
            spans.append((f"{self.glyphs.dot} since the boot before: {safe('; '.join(boot.changed))} ", "dim"))
        return tuple(spans)

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()
        self.draw()

    def on_board_cell_moved(self) -> None:
        self.draw()

    def on_descendant_focus(self) -> None:
        self.draw()

    def on_descendant_blur(self) -> None:
        self.draw()

    def on_grid_picked(self, event: Grid.Picked) -> None:
        """Enter: the line that opened the stage; without one, the last stage of this rank that has one."""
        event.stop()
        boot = self.boot
        rank = next((r for r in boot.ranks if str(r.rank) == event.key), None) if boot is not None else None
        if rank is None:
            return
        cell = cell_of(rank, STAGES[self.board.column])
        if cell.line is not None:
            self.post_message(self.Jump(rank.rank, cell.line))
            return
        reached = [c for c in rank.cells if c.line is not None and c.state != CellState.PENDING]
        if reached and reached[-1].line is not None:
            self.post_message(self.Jump(rank.rank, reached[-1].line))
        else:
            self.notify("no line of the log is known for this stage", severity="warning")
