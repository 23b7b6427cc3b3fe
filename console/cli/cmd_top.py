"""`top`: every node's figures, once, as a live picture for people, or one JSON object a line."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from console.base.absent import Absent
from console.base.errors import ExitCode
from console.base.text import clean_line
from console.base.units import duration
from console.boot.figures import elapsed_text
from console.boot.to_json import stamp
from console.boot.words import phase_word
from console.cli.cmd_status import SETTLE_S, node_cells, node_rows
from console.cli.out import Out
from console.cli.times import clock
from console.cli.world import World
from console.services.hub import HubApi, NodeView, Snapshot
from console.services.ways_out import alarm_json
from console.telemetry.sample import Gpu, Sample

HEADS = ("node", "state", "age", "used", "available", "page cache", "gpu", "temp", "power", "load", "")
RIGHT = (2, 3, 4, 5, 6, 7, 8, 9)
BEAT_S = 1.0
# What goes first where the window is too narrow; the rest is cut at its edge.
SPARE: Final = ("used", "load", "power", "gpu")


def _gpu(pick: Callable[[Gpu], float | Absent]) -> Callable[[Sample], float | Absent]:
    def value(sample: Sample) -> float | Absent:
        rows = () if isinstance(sample.gpus, Absent) else sample.gpus
        known = [v for v in (pick(g) for g in rows) if not isinstance(v, Absent)]
        return max(known) if known else Absent("no GPU says")

    return value


# (what is sorted by, whether the largest comes first); the node that deserves a look is on top.
SORTS: Final[dict[str, tuple[Callable[[Sample], float | Absent], bool]]] = {
    "available": (lambda s: s.memory.available_bytes, False),
    "used": (lambda s: s.memory.used_bytes, True),
    "gpu": (_gpu(lambda g: g.util_percent), True),
    "temp": (_gpu(lambda g: g.temp_c), True),
    "power": (_gpu(lambda g: g.power_w), True),
    "load": (lambda s: s.cpu.load1, True),
}
ORDERS: Final = ("file", "name", "age", *SORTS)


def chosen(views: Sequence[NodeView], order: str = "file", words: str = "") -> list[NodeView]:
    """The nodes that hold all these words in name, host, state, trouble or rank, in this order; nodes without the
    figure come last, in the order of the cluster file."""
    wanted = words.lower().split()
    rows = [v for v in views if all(w in _hay(v) for w in wanted)]
    if order == "name":
        return sorted(rows, key=lambda v: v.node.name)
    if order == "age":
        return sorted(rows, key=lambda v: -1e18 if isinstance(v.age_s, Absent) else -v.age_s)
    if order not in SORTS:
        return rows
    pick, largest = SORTS[order]

    def key(view: NodeView) -> tuple[bool, float]:
        value = view.sample if isinstance(view.sample, Absent) else pick(view.sample)
        return (True, 0.0) if isinstance(value, Absent) else (False, -value if largest else float(value))

    return sorted(rows, key=key)


def _hay(view: NodeView) -> str:
    rank = "" if view.rank is None else f"rank {view.rank}"
    return f"{view.node.name} {view.node.host} {view.state} {view.trouble} {view.why} {rank}".lower()


def _narrowed(snap: Snapshot, args: argparse.Namespace) -> Snapshot:
    return replace(snap, nodes=tuple(chosen(snap.nodes, args.sort, args.filter)))


async def top(args: argparse.Namespace, world: World, out: Out) -> int:
    live = not args.once and (args.follow or (out.terminal and not out.as_json))
    async with world.hub(follow=live) as hub:
        if live and out.terminal and not out.as_json:
            hub.use_terminal(_to_terminal)
            return await _picture(args, hub)
        await hub.settled(timeout=SETTLE_S)
        if not live:
            _once(args, hub, out, line=False)
            return ExitCode.DONE
        while True:
            _once(args, hub, out, line=True)
            await asyncio.sleep(BEAT_S)


def _once(args: argparse.Namespace, hub: HubApi, out: Out, *, line: bool) -> None:
    snap = _narrowed(hub.snapshot(), args)
    if out.as_json:
        out.data(top_json(snap), line=line)
        return
    out.table(HEADS, [node_cells(v) for v in snap.nodes], right=RIGHT)
    out.flush()


def top_json(snap: Snapshot) -> dict[str, Any]:
    """`top --json`: fields are added, never renamed."""
    low = snap.lowest
    return {
        "schema": 1,
        "at": stamp(snap.at),
        "nodes": node_rows(snap),
        "lowest": None
        if low is None
        else {
            "node": low.node,
            "mem_available_bytes": low.available_bytes,
            "seconds_to_empty": None if low.seconds_to_empty is None else round(low.seconds_to_empty, 1),
            "age_s": None if low.age_s is None else round(low.age_s, 1),
            "not_counted": list(low.not_counted),
        },
        "alarms": [alarm_json(a) for a in snap.alarms if a.active],
    }


async def _picture(args: argparse.Namespace, hub: HubApi) -> int:
    """Redraw each second in place, no wider and no higher than the terminal; plain text, so any terminal will do."""
    sys.stdout.write("\x1b[2J")
    while True:
        columns, rows = _size()
        found = picture(_narrowed(hub.snapshot(), args), hub.now(), columns, len(hub.snapshot().nodes))
        lines = [clean_line(line, limit=columns) for line in found]
        if len(lines) >= rows:
            left = len(lines) - rows + 2
            lines = [*lines[: max(0, rows - 2)], f"… {left} more lines: make the window higher"[:columns]]
        sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in lines) + "\x1b[J")
        sys.stdout.flush()
        await asyncio.sleep(BEAT_S)


def _size() -> tuple[int, int]:
    """The terminal's own word: COLUMNS and LINES of the environment are those of the moment when it was started."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return 80, 24
    return (size.columns or 80), (size.lines or 24)


def picture(snap: Snapshot, now: float, width: int = 1000, total: int | None = None) -> list[str]:
    """The live picture: a line of what matters most, the nodes, the deployment, what is wrong. total: nodes of the
    cluster, where not all are shown."""
    fresh = sum(1 for v in snap.nodes if v.state == "fresh")
    of = f"{fresh} of {len(snap.nodes)} nodes answer"
    if total is not None and total != len(snap.nodes):
        of = f"{fresh} of {len(snap.nodes)} nodes shown answer ({total} in all)"
    low = "" if snap.lowest is None else f"   {snap.lowest.sentence}"
    lines = [
        f"{snap.cluster.name}   {of}{low}   {clock(now)}",
        "",
    ]
    lines += fitted([node_cells(v) for v in snap.nodes], width)
    boot = snap.boot
    if boot is not None:
        took = elapsed_text(boot, now)
        lines += ["", f"boot {boot.number}  {boot.recipe}  {phase_word(boot)}  {took} of {duration(boot.deadline_s)}"]
        figures = engine_line(boot.stats, now)
        if figures and not boot.phase.over:
            lines.append(f"engine: {figures}")
        if boot.failed_why:
            lines.append(f"failed: {boot.failed_why}")
        if boot.cause is not None:
            lines.append(f"why: {boot.cause.sentence}")
    active = [a for a in snap.alarms if a.active]
    if active:
        lines += ["", *(f"! {clock(a.raised_at)} {a.text}" for a in active)]
    return lines


def engine_line(stats: Any, now: float) -> str:
    """The engine's figures in words; their age where they are old."""
    parts = []
    for key, word in (("generation_tokens_per_s", "tok/s"), ("prompt_tokens_per_s", "prompt tok/s")):
        if key in stats:
            parts.append(f"{stats[key]:.1f} {word}")
    for key, word in (("running", "running"), ("waiting", "waiting")):
        if key in stats:
            parts.append(f"{stats[key]:.0f} {word}")
    if "kv_usage" in stats:
        parts.append(f"KV {100 * stats['kv_usage']:.0f} %")
    if "prefix_hit" in stats:
        parts.append(f"prefix hits {100 * stats['prefix_hit']:.0f} %")
    if "acceptance_length" in stats:
        parts.append(f"accepts {stats['acceptance_length']:.2f}")
    if "ttft_s" in stats:
        parts.append(f"first token {stats['ttft_s']:.2f} s")
    at = stats.get("at")
    if parts and at is not None and now - at > 15:
        parts.append(f"{duration(now - at)} ago")
    return "   ".join(parts)


def fitted(rows: list[list[str]], width: int) -> list[str]:
    """The table, without those of the spare columns that do not fit; why a node is silent may be cut."""
    left = list(range(len(HEADS)))
    for spare in ("", *SPARE):
        left = [i for i in left if HEADS[i] != spare or not spare]
        shown = columns(
            tuple(HEADS[i] for i in left),
            [[r[i] for i in left] for r in rows],
            tuple(n for n, i in enumerate(left) if i in RIGHT),
        )
        core = columns(
            tuple(HEADS[i] for i in left[:-1]),
            [[r[i] for i in left[:-1]] for r in rows],
            tuple(n for n, i in enumerate(left[:-1]) if i in RIGHT),
        )
        if max(len(line) for line in core) <= width:
            break
    return shown


def columns(heads: tuple[str, ...], rows: list[list[str]], right: tuple[int, ...]) -> list[str]:
    """Rows as lines, each column as wide as what it holds."""
    cells = [list(heads), *rows]
    widths = [max(len(r[i]) for r in cells) for i in range(len(heads))]
    return [
        "  ".join(
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))
        ).rstrip()
        for r in cells
    ]


def _to_terminal(text: str) -> None:
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), text.encode())
