"""`logs BOOT`: what a boot that was kept has logged: its end, or the lines that say something."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from console.base.errors import ExitCode, UsageError
from console.base.text import clean_line, decode
from console.cli.out import Out
from console.cli.world import World
from console.files.archive import log_files
from console.files.log_search import Query, search, tail

LINES = 200  # of each rank, where nothing says how many


def kept(args: argparse.Namespace, world: World, out: Out) -> int:
    """Lines as the engine logged them, with its time stamps; each rank's in order, one rank after another."""
    if args.follow:
        raise UsageError("a boot that was kept has no more lines to follow", remedy="`nightdeck logs -f`: what runs")
    query = Query(args.grep, regex=args.regex, ignore_case=args.ignore_case) if args.grep is not None else None
    listed = world.ledger().index.find(args.boot)
    files = log_files(listed.entry.path)
    if args.rank is not None and args.rank not in files:
        raise UsageError(f"boot {listed.entry.number} kept no log of rank {args.rank}", where=str(listed.entry.path))
    found = 0
    for rank, file in files.items():
        if args.rank is None or rank == args.rank:
            found += _print(rank, _wanted(file, query, args.tail), out)
    out.flush()
    return ExitCode.DONE if found or query is None else ExitCode.FAILED


def _wanted(file: Path, query: Query | None, count: int | None) -> Iterable[bytes]:
    if query is None:
        return tail(file, count or LINES)
    lines = search(file, query)
    return lines if count is None else list(lines)[-count:]


def _print(rank: int, lines: Iterable[bytes], out: Out) -> int:
    count = 0
    for count, line in enumerate(lines, 1):  # noqa: B007  the last number is how many there were
        text = clean_line(decode(line))
        if out.as_json:
            stamp, _, rest = text.partition(" ")
            out.data({"rank": rank, "at": stamp, "text": rest}, line=True)
        else:
            out.line(f"r{rank} {text}")
    return count
