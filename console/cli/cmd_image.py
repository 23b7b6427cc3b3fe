"""`image sync`, `image build`: one image on every node."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

from console.base.absent import Absent
from console.base.errors import ExitCode, UsageError
from console.base.units import duration, rate_text, size_text
from console.cli.out import Out
from console.cli.world import World
from console.services.image_sync import NodeImage

_EVERY_S = 1.0


class Progress:
    """Lines for people on stderr: each change of state, and how far each copy is, once a second and node."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._last: dict[str, tuple[str, float]] = {}

    def told(self, row: NodeImage) -> None:
        state, at = self._last.get(row.node, ("", 0.0))
        now = time.monotonic()
        moving = row.state == "copying" and row.moved_bytes > 0
        if state == row.state and not (moving and now - at >= _EVERY_S):
            return
        self._last[row.node] = (row.state, now)
        if moving:
            left = "" if isinstance(row.left_s, Absent) else f", {duration(row.left_s)} left"
            share = size_text(row.moved_bytes) + (f" of {size_text(row.total_bytes)}" if row.total_bytes else "")
            self._out.say(f"{row.node}: {share} from {row.via} at {rate_text(row.rate)}{left}")
        else:
            via = f" from {row.via}" if row.via else ""
            detail = f": {row.detail}" if row.detail else ""
            self._out.say(f"{row.node}: {row.state.replace('_', ' ')}{via}{detail}")


async def sync(args: argparse.Namespace, world: World, out: Out) -> int:
    _may_change(args, "image sync")
    async with world.hub(watch=False) as hub:
        done = await hub.sync_image(
            args.name, nodes=args.on, source=args.source, direct=not args.through_console, told=Progress(out).told
        )
    return tell_sync(done, out)


def tell_sync(done: Mapping[str, NodeImage], out: Out) -> int:
    good = [row for row in done.values() if row.good]
    word = "done" if len(good) == len(done) else "partly" if good else "failed"
    if out.as_json:
        rows = [
            {
                "node": row.node,
                "result": row.state,
                "detail": row.detail,
                "from": row.via or None,
                "moved_bytes": row.moved_bytes,
                "seconds": round(row.seconds, 3),
            }
            for row in done.values()
        ]
        out.data({"schema": 1, "result": word, "nodes": rows})
    else:
        table = [[r.node, r.state.replace("_", " "), r.via, f"{r.seconds:.1f} s", r.detail] for r in done.values()]
        out.table(["node", "result", "from", "took", ""], table, right=[3])
    return {"done": ExitCode.DONE, "partly": ExitCode.PARTLY}.get(word, ExitCode.FAILED)


async def build(args: argparse.Namespace, world: World, out: Out) -> int:
    _may_change(args, "image build")
    async with world.hub(watch=False) as hub:
        node, image = await hub.build_image(args.name, node=args.node, said=out.say)
    if out.as_json:
        out.data({"schema": 1, "result": "built", "node": node, "image_id": image.id, "size_bytes": image.size})
    else:
        out.line(f"{node} has {image.id[:19]}, {size_text(image.size)}; `nightdeck image sync {args.name}` copies it")
    return ExitCode.DONE


def _may_change(args: argparse.Namespace, command: str) -> None:
    if args.read_only:
        raise UsageError(f"`{command}` changes nodes, and this is --read-only")
