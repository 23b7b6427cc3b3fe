"""`top`: every node's figures, once, as a live picture for people, or one JSON object a line."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from typing import Any

from console.base.errors import ExitCode
from console.base.text import clean_line
from console.base.units import duration
from console.boot.to_json import stamp
from console.cli.cmd_status import SETTLE_S, node_cells, node_rows
from console.cli.out import Out
from console.cli.world import World
from console.services.hub import HubApi, Snapshot
from console.services.ways_out import alarm_json

HEADS = ("node", "state", "age", "used", "available", "page cache", "gpu", "temp", "power", "load", "")
RIGHT = (2, 3, 4, 5, 6, 7, 8, 9)
BEAT_S = 1.0


async def top(args: argparse.Namespace, world: World, out: Out) -> int:
    live = not args.once and (args.follow or (out.terminal and not out.as_json))
    async with world.hub(follow=live) as hub:
        if live and out.terminal and not out.as_json:
            hub.use_terminal(_to_terminal)
            return await _picture(hub, out)
        await hub.settled(timeout=SETTLE_S)
        if not live:
            _once(hub, out, line=False)
            return ExitCode.DONE
        while True:
            _once(hub, out, line=True)
            await asyncio.sleep(BEAT_S)


def _once(hub: HubApi, out: Out, *, line: bool) -> None:
    snap = hub.snapshot()
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
        },
        "alarms": [alarm_json(a) for a in snap.alarms if a.active],
    }


async def _picture(hub: HubApi, out: Out) -> int:
    """Redraw each second in place, no wider and no higher than the terminal; plain text, so any terminal will do."""
    sys.stdout.write("\x1b[2J")
    while True:
        size = shutil.get_terminal_size()
        lines = [clean_line(line, limit=size.columns) for line in picture(hub.snapshot(), hub.now())]
        if len(lines) >= size.lines:
            left = len(lines) - size.lines + 2
            lines = [*lines[: size.lines - 2], f"… {left} more lines: make the window higher"]
        sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in lines) + "\x1b[J")
        sys.stdout.flush()
        await asyncio.sleep(BEAT_S)


def picture(snap: Snapshot, now: float) -> list[str]:
    """The live picture: a line of what matters most, the nodes, the deployment, what is wrong."""
    fresh = sum(1 for v in snap.nodes if v.state == "fresh")
    low = "" if snap.lowest is None else f"   {snap.lowest.sentence}"
    lines = [
        f"{snap.cluster.name}   {fresh} of {len(snap.nodes)} nodes answer{low}   {(stamp(now) or '')[11:19]} UTC",
        "",
    ]
    lines += columns(HEADS, [node_cells(v) for v in snap.nodes], RIGHT)
    boot = snap.boot
    if boot is not None:
        took = duration((boot.ended_at or now) - boot.launched_at)
        lines += ["", f"boot {boot.number}  {boot.recipe}  {boot.phase}  {took} of {duration(boot.deadline_s)}"]
        figures = engine_line(boot.stats, now)
        if figures and not boot.phase.over:
            lines.append(figures)
        if boot.failed_why:
            lines.append(f"failed: {boot.failed_why}")
        if boot.cause is not None:
            lines.append(f"why: {boot.cause.sentence}")
    active = [a for a in snap.alarms if a.active]
    if active:
        lines += ["", *(f"! {(stamp(a.raised_at) or '')[11:19]} {a.text}" for a in active)]
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
