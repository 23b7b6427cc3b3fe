"""`measure`: how fast what serves is, and how much that varies."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from console.base.errors import ExitCode, UsageError
from console.boot.spread import Spread, spread_of_json
from console.cli.out import Out
from console.cli.world import World
from console.services.measure import MeasureSpec


def parse_levels(text: str) -> tuple[int, ...]:
    """`1,2,4` or `1-4`. Raises UsageError."""
    try:
        if "-" in text:
            low, high = (int(part) for part in text.split("-", 1))
            levels = tuple(range(low, high + 1))
        else:
            levels = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"--concurrency: {text!r} is no list of numbers", remedy="1,2,4 or 1-4") from error
    if not levels or any(not 1 <= n <= 256 for n in levels) or len(levels) > 64:
        raise UsageError(f"--concurrency: {text!r}: levels are from 1 to 256, at most 64 of them")
    return levels


async def measure(args: argparse.Namespace, world: World, out: Out) -> int:
    spec = MeasureSpec(parse_levels(args.concurrency), max(1, args.repeats), max(2, args.max_tokens))
    async with world.hub() as hub:
        await hub.settled(timeout=20.0)
        result = await hub.measure(spec, out.say)
    if out.as_json:
        out.data(dict(result))
    else:
        show(result, out)
    return ExitCode.DONE


def show(result: Mapping[str, Any], out: Out) -> None:
    rows = [
        [
            str(level["concurrency"]),
            words(spread_of_json(level["total_tokens_per_s"])),
            words(spread_of_json(level["stream_tokens_per_s"])),
            words(spread_of_json(level["ttft_s"]), digits=2),
            str(level["rounds"]) + (f" ({level['failed_rounds']} failed)" if level["failed_rounds"] else ""),
        ]
        for level in result["levels"]
    ]
    out.table(["at once", "tokens/s in all", "a stream", "first token, s", "rounds"], rows, right=[0])
    if any(level["counted_by"] == "pieces" for level in result["levels"]):
        out.say("the engine gives no usage: pieces of the stream were counted, which may hold several tokens each")
    for level in result["levels"]:
        for error in level["errors"]:
            out.say(f"{level['concurrency']} at once: {error}")


def words(found: Spread | None, digits: int = 1) -> str:
    """`95.9 (92.1-97.3)`, or n/a."""
    if found is None:
        return "n/a"
    return f"{found.median:.{digits}f} ({found.low:.{digits}f}-{found.high:.{digits}f})"
