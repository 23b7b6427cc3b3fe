"""`python -m tests.bench`: brings up eight hosts, measures, prints tables."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Callable, Sequence
from typing import cast

from tests.bench import limits, own, own_console, own_hub, own_images, own_ledger, own_logs, own_preflight, own_screen
from tests.bench.ground import Ground
from tests.bench.measure import Measure, series
from tests.bench.table import Series, render
from tests.testbed.bed import Bed, BedUnavailable

# To add a figure: write one async function that returns seconds, and name it here or in its module's tuple.
TABLES: dict[str, tuple[str, tuple[Measure, ...]]] = {
    "base": ("connections", limits.BASE),
    "launch": ("launch on eight hosts", (*limits.LAUNCH, *own_hub.LAUNCH, *own.LAUNCH)),
    "watch": ("watching eight hosts", (*own_hub.WATCH, *own_screen.SCREEN)),
    "preflight": ("preflight of eight hosts", own_preflight.PREFLIGHT),
    "images": ("an image of 130 MB to seven hosts", own_images.IMAGES),
    "stop": ("stop on eight hosts", (*limits.STOP, *own_hub.STOP, *own.STOP)),
    "logs": ("reading engine logs, per million lines", own_logs.LOGS),
    "restart": ("restart on eight hosts", own_hub.RESTART),
}
# These need no host, only this machine's disk.
DISK: dict[str, tuple[str, tuple[Measure, ...]]] = {
    "ledger": ("2,000 boots", own_ledger.LEDGER),
    "search": ("a log of 5,000,000 lines", own_ledger.LOGS),
}

# These bring up labs of their own, in other processes.
LAB: dict[str, Callable[[], None]] = {"cost": own_console.report}


async def table(name: str, ground: Ground, rounds: int) -> str:
    title, measures = (TABLES | DISK)[name]
    rows: list[Series] = []
    limit: Series | None = None
    for measure in measures:
        print(f"  {name}: {measure.name}", file=sys.stderr, flush=True)
        row = await series(measure, ground, rounds)
        rows.append(row)
        if measure.limit:
            limit = row
    return render(title, rows, limit)


async def everything(bed: Bed, names: Sequence[str], rounds: int) -> None:
    ground = Ground(bed)
    for name in names:
        print(f"\n{await table(name, ground, rounds)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("tables", nargs="*", help=f"which tables: {', '.join([*TABLES, *DISK, *LAB])} (all)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--hosts", type=int, default=8)
    args = parser.parse_args()
    if unknown := [name for name in args.tables if name not in {*TABLES, *DISK, *LAB}]:
        parser.error(f"no such table: {', '.join(unknown)}")
    wanted = args.tables or [*DISK, *LAB, *TABLES]
    for name in (n for n in wanted if n in DISK):
        print(f"\n{asyncio.run(table(name, cast(Ground, None), args.rounds))}", flush=True)
    for name in (n for n in wanted if n in LAB):
        print(f"\n{name}: what watching costs this machine", flush=True)
        LAB[name]()
    if not any(n in TABLES for n in wanted):
        return 0
    try:
        with Bed.up(args.hosts) as bed:
            print(f"{args.hosts} hosts and this side share {os.cpu_count()} cores; Python {platform.python_version()};")
            print("the engine is a stub that boots in 0 s: every figure is the launcher's own.")
            bed.each(lambda host: host.put_model(own_hub.MODEL))
            asyncio.run(everything(bed, [n for n in wanted if n in TABLES], args.rounds))
    except BedUnavailable as reason:
        print(f"no bench here: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
