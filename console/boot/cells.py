"""What the board shows beyond the rank's log: the image, the container, and the console's own requests."""

from __future__ import annotations

from dataclasses import replace

from console.boot.state import GONE, BootState, Phase, RankState
from console.enginelog.stages_model import Cell, CellState, Stage

_OUTSIDE = (Stage.IMAGE, Stage.CONTAINER, Stage.SMOKE, Stage.SERVING)


def with_cells(state: BootState) -> BootState:
    """The state with these cells set on every rank; ranks that do not change stay the same objects."""
    ranks = tuple(_rank(state, rank) for rank in state.ranks)
    return state if all(a is b for a, b in zip(ranks, state.ranks, strict=True)) else replace(state, ranks=ranks)


def _rank(state: BootState, rank: RankState) -> RankState:
    cells = rank.cells or tuple(Cell(stage) for stage in Stage)
    if len(cells) != len(Stage):
        return rank
    shown = tuple(_cell(state, rank, cell) if cell.stage in _OUTSIDE else cell for cell in cells)
    return rank if shown == rank.cells else replace(rank, cells=shown)


def _cell(state: BootState, rank: RankState, cell: Cell) -> Cell:
    match cell.stage:
        case Stage.IMAGE:
            return _image(state, rank)
        case Stage.CONTAINER:
            return _container(state, rank)
        case Stage.SMOKE:
            return _smoke(state, rank)
        case _:
            return _serving(state, rank)


def _step(state: BootState, node: str) -> tuple[str, str]:
    """How the launch went on a node: state and detail of its start step."""
    for step in state.steps:
        if step.name.startswith("start") and node in step.states:
            return step.states[node], step.details.get(node, "")
    return "", ""


def _image(state: BootState, rank: RankState) -> Cell:
    word, detail = _step(state, rank.node)
    if word == "failed" and "image" in detail.lower():
        return Cell(Stage.IMAGE, CellState.FAILED, detail=detail)
    if rank.status is not None or word == "done":
        return Cell(Stage.IMAGE, CellState.DONE)  # a container was made of it
    return Cell(Stage.IMAGE)


def _container(state: BootState, rank: RankState) -> Cell:
    word, detail = _step(state, rank.node)
    if rank.status == "running":
        took = ""
        if rank.started_at is not None and not state.adopted and 0 <= rank.started_at - state.launched_at < 600:
            took = f"{rank.started_at - state.launched_at:.1f}s"
        return Cell(Stage.CONTAINER, CellState.DONE, rank.started_at, detail=took)
    if rank.status in GONE:
        how = "gone" if rank.status == "absent" else f"exit {rank.exit_code}" if rank.exit_code is not None else "ended"
        failed = state.phase not in (Phase.STOPPING, Phase.STOPPED)
        kind = CellState.FAILED if failed else CellState.DONE
        return Cell(Stage.CONTAINER, kind, rank.started_at, rank.finished_at, detail=how)
    if word == "failed":
        return Cell(Stage.CONTAINER, CellState.FAILED, detail=detail)
    if word == "unknown":
        return Cell(Stage.CONTAINER, CellState.UNKNOWN, detail=detail)
    if word == "running" or rank.status == "created":
        return Cell(Stage.CONTAINER, CellState.ACTIVE)
    return Cell(Stage.CONTAINER, CellState.DONE) if word == "done" else Cell(Stage.CONTAINER)


def _smoke(state: BootState, rank: RankState) -> Cell:
    if rank.rank != 0:
        return Cell(Stage.SMOKE, CellState.SKIPPED)
    if state.smoke_ok is None:
        return Cell(Stage.SMOKE, CellState.ACTIVE if state.api == "healthy" else CellState.PENDING)
    if state.smoke_ok:
        took = "" if state.first_token_s is None else f"{state.first_token_s:.2f}s"
        return Cell(Stage.SMOKE, CellState.DONE, state.ready_at, detail=took)
    return Cell(Stage.SMOKE, CellState.FAILED, detail=state.smoke_why)


def _serving(state: BootState, rank: RankState) -> Cell:
    """A rank has no word of its own for serving: that the whole serves is inferred for each."""
    if state.ready_at is None:
        return Cell(Stage.SERVING)
    if rank.status != "running":
        return Cell(Stage.SERVING, CellState.FAILED if rank.status in GONE else CellState.UNKNOWN)
    kind = CellState.ACTIVE if state.phase is Phase.READY else CellState.UNKNOWN
    return Cell(Stage.SERVING, kind, state.ready_at, inferred=rank.rank != 0)
