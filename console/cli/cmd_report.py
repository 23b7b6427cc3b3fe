"""`report`: the night, or the boots since some time: Markdown on standard output, or files where they are asked for."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from console.base.errors import ExitCode, UsageError
from console.boot.report import duels, headline, next_steps
from console.cli.cmd_boots import parse_since
from console.cli.out import Out
from console.cli.world import World
from console.files.night_store import NightStore
from console.services.report import markdown, report_of_night, report_since, write_report


def report(args: argparse.Namespace, world: World, out: Out) -> int:
    if args.night and args.since:
        raise UsageError("--night or --since, not both")
    index, now = world.ledger().index, time.time()
    store = NightStore(world.state_folder / "nights")
    if args.since or (not args.night and not store.nights()):
        made = report_since(index, parse_since(args.since or "12h", now), now)
    else:
        made = report_of_night(index, store.read(store.find(args.night)), now)
    paths = () if args.output in (None, "-") else write_report(made, Path(args.output), force=args.force)
    if out.as_json:
        out.data(
            {
                "schema": 1,
                "files": [str(p.absolute()) for p in paths],
                "headline": headline(made),
                "boots": [b.record.id for b in made.boots],
                "duels": [
                    {
                        "label": d.label,
                        "concurrency": d.concurrency,
                        "baseline": d.baseline.as_json(),
                        "lever": d.lever.as_json(),
                        "verdict": d.verdict,
                    }
                    for d in duels(made)
                ],
                "next": next_steps(made),
            }
        )
    elif paths:
        out.line(headline(made))
        for path in paths:
            out.line(f"  {path.absolute()}")
    else:
        for line in markdown(made).splitlines():
            out.line(line)
        out.flush()
        if args.output is None and out.terminal:
            out.say("\nNothing was written: `-o DIR` writes report.md and report.html (with charts) into DIR.")
    return ExitCode.DONE
