"""The board: a row per rank, a column per stage; who lags, who is silent. Pure: a boot's state in, spans out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from console.base.containers import ENDED
from console.boot.state import BootState, Phase, RankState
from console.boot.words import bare
from console.enginelog.stages_model import Cell, CellState, Stage
from console.tui.figures import span
from console.tui.glyphs import Glyphs, bar
from console.tui.guards import GuardView
from console.tui.spans import Line, Span, clip, fit, fit_name, safe, spread, width_of

WIDE: Final = 134  # cells from which every stage has a column with words
SILENT_S: Final = 60.0  # a booting rank that printed nothing for so long is worth a remark
GRACE_S: Final = 3.0
TOLD: Final = 24  # cells under a narrow row for a bar, or what a stage told
# (stage, heading, two letters, width)
COLUMNS: Final[tuple[tuple[Stage, str, str, int], ...]] = (
    (Stage.IMAGE, "image", "im", 6),
    (Stage.CONTAINER, "cont.", "ct", 6),
    (Stage.ARGUMENTS, "args", "ar", 6),
    (Stage.RENDEZVOUS, "joined", "jo", 7),
    (Stage.NCCL, "nccl", "nc", 6),
    (Stage.MODEL, "model", "mo", 7),
    (Stage.WEIGHTS, "weights", "we", 19),
    (Stage.LOADED, "loaded", "ld", 11),
    (Stage.PROFILE, "profile", "pr", 8),
    (Stage.KV_CACHE, "KV cache", "kv", 9),
    (Stage.WARMUP, "warm-up", "wa", 8),
    (Stage.GRAPHS, "graphs", "gr", 7),
    (Stage.HTTP, "http", "ht", 6),
    (Stage.SMOKE, "smoke", "sm", 6),
    (Stage.SERVING, "serve", "sv", 6),
)
ROLES: Final = {
    CellState.PENDING: "pending",
    CellState.ACTIVE: "active",
    CellState.DONE: "done",
    CellState.FAILED: "failed",
    CellState.SKIPPED: "pending",
    CellState.UNKNOWN: "inferred",
}


@dataclass(frozen=True, slots=True)
class BoardLook:
    """double: a narrow board has room for two lines a rank. guards: by rank; a column of their own where known."""

    width: int
    glyphs: Glyphs
    name_width: int = 6
    double: bool = True
    guards: Mapping[int, GuardView] = field(default_factory=dict)

    @property
    def wide(self) -> bool:
        return self.width >= WIDE


def cell_of(rank: RankState, stage: Stage) -> Cell:
    """The cell of a stage; pending when nothing is known of it."""
    return next((c for c in rank.cells if c.stage == stage), Cell(stage))


def laggards(ranks: Sequence[RankState], now: float | None = None) -> dict[int, str]:
    """Ranks that are behind most of the others, with the reason in words; nobody lags among fewer than three."""
    running = [r for r in ranks if r.stage is not None]
    if len(running) < 3:
        return {}
    middle = median(int(r.stage) for r in running if r.stage is not None)
    out: dict[int, str] = {}
    same: list[tuple[int, float]] = []
    for rank in running:
        stage = rank.stage
        if stage is None:
            continue
        if stage < middle:
            left = [r.stage_since for r in running if r.stage is not None and r.stage > stage]
            if now is not None and any(at is not None and now - at < GRACE_S for at in left[: len(left) // 2 + 1]):
                continue  # the others have only just moved on
            out[rank.rank] = f"still in {stage.word}"
        elif stage == middle and rank.progress is not None:
            same.append((rank.rank, rank.progress))
    if len(same) >= 3:
        typical = median(p for _, p in same)
        slow = min(same, key=lambda pair: pair[1])
        if typical - slow[1] >= 0.08:
            out[slow[0]] = f"slowest, median {typical * 100:.0f}%"
    # When half of the ranks lag, the others are ahead: nobody stands out.
    return out if len(out) * 2 < len(running) else {}


def silent_for(rank: RankState, boot: BootState, now: float) -> float | None:
    """Seconds without a line of a rank that should be printing, when they are many."""
    if boot.phase not in (Phase.STARTING, Phase.BOOTING, Phase.STALLED) or rank.last_line_at is None:
        return None
    quiet = now - rank.last_line_at
    return quiet if quiet >= SILENT_S else None


def board_header(look: BoardLook) -> Line:
    lead = f" {'rank':>4} {fit('node', look.name_width)}   " + ("guard " if look.wide else "g ")
    names = "".join(fit(head if look.wide else short, wide if look.wide else 3) for _, head, short, wide in COLUMNS)
    return clip(((lead, "head"), (names, "head"), ("" if look.wide else " now", "head")), look.width, "head")


def board_row(
    rank: RankState, boot: BootState, look: BoardLook, now: float, behind: str, marked: Stage | None = None
) -> tuple[Line, ...]:
    """A rank's passage: one line where there is room, else two. `marked`: the stage under the cursor, in reverse."""
    g = look.glyphs
    quiet = silent_for(rank, boot, now)
    sign, sign_role = (g.outlier, "laggard bold") if behind else (" ", "text")
    if quiet is not None:
        sign, sign_role = g.pause, "warn bold"
    if not rank.reachable:
        sign, sign_role = g.lost, "lost bold"
    spans: list[Span] = [
        (f" {rank.rank:>4} ", "strong"),
        (fit_name(safe(rank.node), look.name_width), "text" if rank.reachable else "lost"),
        (f" {sign} ", sign_role),
    ]
    sign, role = look.guards.get(rank.rank, GuardView("unknown")).cell(g)
    spans += [(fit(sign, 5) + " ", role)] if look.wide else [(f"{sign[:1]} ", role)]
    for stage, _, _, wide in COLUMNS:
        cell = cell_of(rank, stage)
        here = " reverse" if stage == marked else ""
        if look.wide:
            spans += _wide_cell(cell, rank, wide, g, now, here)
        else:
            mark = g.inferred if cell.inferred else " "
            spans += [(f"{mark}{_sign(cell, g)}", _role(cell) + here), (" ", "text")]
    remark, role = _remark(rank, behind, quiet)
    if look.wide:
        return (clip((*spans, (" " + remark, role)), look.width),)
    if not look.double:  # one of the two has room; where it is was said by the columns
        last = [(remark, role)] if remark else _current(rank, look, now)
        return (clip((*spans, (" ", "text"), *last), look.width),)
    spans += [(" ", "text"), *_current(rank, look, now)]
    return (clip(spans, look.width), clip((*_second(rank, look, now, quiet), (f"  {remark}", role)), look.width))


def _sign(cell: Cell, g: Glyphs) -> str:
    if cell.stage == Stage.SERVING and cell.state == CellState.ACTIVE:
        return g.fresh
    return {
        CellState.PENDING: g.pending,
        CellState.ACTIVE: g.active,
        CellState.DONE: g.done,
        CellState.FAILED: g.failed,
        CellState.SKIPPED: g.skipped,
        CellState.UNKNOWN: g.unknown,
    }[cell.state]


def _role(cell: Cell) -> str:
    if cell.stage == Stage.SERVING and cell.state == CellState.ACTIVE:
        return "ok"
    return "inferred" if cell.inferred and cell.state == CellState.DONE else ROLES[cell.state]


def _since(cell: Cell, rank: RankState, now: float) -> float | None:
    """Seconds in the stage: the console's own clock for what still runs, the node's stamps for what is over."""
    if cell.state == CellState.ACTIVE:
        start = rank.stage_since if rank.stage == cell.stage and rank.stage_since is not None else cell.at
        return None if start is None else max(0.0, now - start)
    return None if cell.at is None or cell.until is None else max(0.0, cell.until - cell.at)


def _wide_cell(cell: Cell, rank: RankState, width: int, g: Glyphs, now: float, here: str) -> list[Span]:
    mark = g.inferred if cell.inferred else ""
    room = width - 1
    took = _since(cell, rank, now)
    role = _role(cell) + here
    if cell.state == CellState.ACTIVE and cell.progress is not None and width >= 16:
        full, empty = bar(g, cell.progress, 8)
        tail = f"{cell.progress * 100:>4.0f}%" + (f" {span(took)}" if took is not None else "")
        return [
            (full, _role(cell)),
            (empty, "grid"),
            (fit(mark + tail, room - 8), role),
            (" ", "text"),
        ]
    words = safe(cell.detail, limit=40)
    if cell.state == CellState.ACTIVE:
        words = f"{cell.progress * 100:.0f}%" if cell.progress is not None else span(took) if took is not None else ""
    elif cell.state == CellState.DONE and not words and took is not None and took >= 1:
        words = span(took)
    sign = f"{_sign(cell, g)}{mark}"
    words = shortened(words, room - len(sign) - 1)
    return [(fit(f"{sign} {words}" if words else sign, room), role), (" ", "text")]


def shortened(words: str, room: int) -> str:
    """The words, or the first figure in them with its unit or alone, or nothing: a cut figure would be a wrong one."""
    parts = words.split()
    at = next((i for i, w in enumerate(parts) if any(c.isdigit() for c in w)), None)
    figure = "" if at is None else parts[at]
    unit = parts[at + 1] if at is not None and at + 1 < len(parts) and parts[at + 1].isalpha() else ""
    return next((w for w in (words, words.replace(" ", ""), figure + unit, figure) if width_of(w) <= room), "")


def _current(rank: RankState, look: BoardLook, now: float) -> list[Span]:
    """Where a rank is now, in words, for the narrow board."""
    cell = next((c for c in reversed(rank.cells) if c.state in (CellState.ACTIVE, CellState.FAILED)), None)
    if cell is None:
        return [("", "text")]
    took = _since(cell, rank, now)
    percent = f" {cell.progress * 100:.0f}%" if cell.progress is not None else ""
    words = f"{cell.stage.word}{percent}" + (f" {span(took)}" if took is not None else "")
    return [(words, ROLES[cell.state])]


def _second(rank: RankState, look: BoardLook, now: float, quiet: float | None) -> list[Span]:
    """Under a narrow row: progress as a bar, how long ago it printed, what its stages told."""
    lead: Span = (" " * (look.name_width + 11), "text")
    spans: list[Span] = [lead]
    if rank.progress is not None:
        full, empty = bar(look.glyphs, rank.progress, TOLD)
        spans += [(full, "active"), (empty, "grid")]
    else:
        told = next((c for c in reversed(rank.cells) if c.state == CellState.DONE and c.detail), None)
        words = "" if told is None else f"{told.stage.word} {safe(told.detail, limit=TOLD)}"
        spans.append((fit(words if width_of(words) <= TOLD else told.stage.word if told else "", TOLD), "dim"))
    if rank.last_line_at is not None and quiet is None:
        spans.append((f"  line {span(now - rank.last_line_at)} ago", "dim"))
    return spans


def _remark(rank: RankState, behind: str, quiet: float | None) -> Span:
    if not rank.reachable:
        return f"node lost: {safe(bare(rank.node, rank.trouble) or 'no answer')}", "lost"
    if rank.status in ENDED:
        code = "" if rank.exit_code is None else f" {rank.exit_code}"
        return f"{rank.status}{code}" + (" OOM-killed" if rank.oom_killed else ""), "bad"
    if rank.status == "absent":
        return "no container", "bad"
    if quiet is not None:
        return f"silent {span(quiet)}" + (f", {behind}" if behind else ""), "warn"
    return behind, "laggard"


def cell_words(rank: RankState, stage: Stage, now: float, width: int, guard: str = "") -> Line:
    """The cell under the cursor in full, for the line under the board."""
    cell = cell_of(rank, stage)
    took = _since(cell, rank, now)
    parts = [f"rank {rank.rank} {safe(rank.node)}", f"{stage.word} {cell.state}"]
    if cell.progress is not None:
        parts.append(f"{cell.progress * 100:.0f} %")
    if took is not None:
        parts.append(f"{span(took)} in it")
    if cell.detail:
        parts.append(safe(cell.detail, limit=80))
    if cell.inferred:
        parts.append("inferred, not said by this rank's log")
    if rank.last_line_at is not None:
        parts.append(f"last line {span(now - rank.last_line_at)} ago")
    if guard:
        parts.append(guard)
    jump = f"   enter: log line {cell.line + 1:,} " if cell.line is not None else ""
    while len(parts) > 2 and 1 + width_of("   ".join(parts)) + width_of(jump) > width:
        parts.pop()  # the least wanted stands last; half a figure would be a wrong one
    return spread(((" " + "   ".join(parts), "dim"),), ((jump, "key"),), width)
