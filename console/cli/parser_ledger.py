"""The options of the commands about boots that were, and about the night."""

from __future__ import annotations

import argparse
from collections.abc import Callable

Add = Callable[[str, str], argparse.ArgumentParser]


def add_ledger_commands(add: Add) -> None:
    """add: makes a command with the general options."""
    p = add("boots", "the ledger: every boot that was kept; or one, and what to do with it")
    p.add_argument(
        "words",
        metavar="ID | note ID TEXT | star ID | unstar ID | rm ID… | export ID | prune",
        nargs="*",
        help="a boot by number, id, `last` or `served`; without one, the list",
    )
    p.add_argument("--recipe", metavar="NAME", help="boots of this recipe alone")
    p.add_argument(
        "--state", metavar="STATE", help="with this verdict alone (several with commas); `served`: was ready"
    )
    p.add_argument("--since", metavar="TIME", help="8h, 3d, 2026-09-18, or with a time and a zone")
    p.add_argument("--limit", type=int, metavar="N", help="the newest N")
    p.add_argument("-o", "--output", metavar="FILE", help="export: where to write (default: ID.tar.gz here)")
    p.add_argument("--keep", type=int, metavar="N", help="prune: keep the newest N boots (else: the settings')")
    p.add_argument("--keep-gib", type=float, metavar="GIB", help="prune: keep at most so much on disk")
    p.add_argument("--dry-run", action="store_true", help="prune: say what would go, and by which rule; remove nothing")
    p.add_argument("--marked-too", action="store_true", help="prune: noted and starred boots may go as well")

    p = add("diff", "two boots side by side: what was asked for, the nodes, times, memory, speed, text")
    p.add_argument(
        "names",
        metavar="A B",
        nargs="*",
        help="boots by number, id, `last` or `served`, or recipes; one recipe: against its last boot; one boot or "
        "none: against the last one before it that served",
    )

    p = add("bisect", "which change between two boots broke it: proposes the recipe between, keeps the search")
    p.add_argument("words", metavar="GOOD BAD | good | bad | status | reset", nargs="*")
    p.add_argument("--one-by-one", action="store_true", help="one change at a time instead of halves")

    p = add("measure", "tokens a second and first tokens of what serves, with their spread")
    p.add_argument("--concurrency", metavar="LEVELS", default="1,2,4", help="streams at once: 1,2,4 or 1-4")
    p.add_argument("--repeats", type=int, metavar="N", default=3, help="rounds that count; one more is dropped")
    p.add_argument("--max-tokens", type=int, metavar="N", default=128, help="of each answer")

    p = add("night", "run a queue of trials without you: conditions, a hard end, the baseline back at the end")
    p.add_argument(
        "words",
        metavar="QUEUE.toml | status | attach | stop | resume | list | check QUEUE.toml",
        nargs="*",
        help="a night's file, or what to do with the night (default: its status)",
    )
    p.add_argument("--foreground", action="store_true", help="run it here instead of by itself")
    p.add_argument("--if-interrupted", action="store_true", help="resume: do nothing where no night was cut short")
    p.add_argument("--print-unit", action="store_true", help="resume: print the systemd unit that does so at start-up")
    p.add_argument("--run-id", metavar="ID", help=argparse.SUPPRESS)
    p.add_argument("--keep-alive", action="store_true", help=argparse.SUPPRESS)

    p = add("report", "the night in the morning: ledger, charts, causes, speed, what to try next")
    p.add_argument("--night", metavar="ID", help="which night (default: the newest)")
    p.add_argument("--since", metavar="TIME", help="the boots since then instead: 8h, 2026-09-18T22:00+02:00")
    p.add_argument("-o", "--output", metavar="DIR", default="nightdeck-report", help="folder for the two files")
