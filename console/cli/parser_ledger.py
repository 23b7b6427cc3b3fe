"""The options of the commands about boots that were, and about the night."""

from __future__ import annotations

import argparse

from console.cli import parser_words as words
from console.cli.parser_words import Add


def add_ledger_commands(add: Add) -> None:
    """add: makes a command with the general options."""
    _boots(add)
    _compare(add)
    _night(add)


def _boots(add: Add) -> None:
    p = add(
        "boots",
        "the ledger: every boot that was kept; or one, and what to do with it",
        "[BOOT | ACTION ...]",
        more="A BOOT is a number, an id, `last` or `served`. The actions: note BOOT TEXT; star, unstar or rm BOOT ...; "
        "export BOOT; prune.",
        examples=[
            ("nightdeck boots --since 8h --state failed", "what failed in this night"),
            ("nightdeck boots 11", "one boot: stages, lowest memory, cause, logs"),
            ("nightdeck boots note 11 'the cable of dgx6'", "kept with it, shown in every list"),
            ("nightdeck boots export 11 -o boot11.tar.gz", "all of it, secrets masked"),
            ("nightdeck boots prune --keep 50 --dry-run", "what would go, and by which rule"),
        ],
    )
    p.add_argument("words", metavar="BOOT | ACTION", nargs="*", help="a boot, or an action (default: the list)")
    p.add_argument("--recipe", metavar="NAME", help="boots of this recipe alone (default: all)")
    p.add_argument(
        "--state",
        metavar="STATE",
        help="with this verdict alone, several with commas; `served`: was ready (default: all)",
    )
    p.add_argument("--since", metavar="TIME", help="8h, 3d, 2026-09-18, or with a time and a zone (default: all)")
    p.add_argument("--limit", type=int, metavar="N", help="the newest N (default: all)")
    p.add_argument("-o", "--output", metavar="FILE", help="export: where to write (default: ID.tar.gz here)")
    p.add_argument(
        "--keep", type=int, metavar="N", help="prune: keep the newest N boots (default: the settings', else 500)"
    )
    p.add_argument(
        "--keep-gib",
        type=words.gib,
        metavar="GIB",
        help="prune: keep at most so much on disk (default: the settings', else 20)",
    )
    p.add_argument("--dry-run", action="store_true", help="prune: say what would go, and by which rule; remove nothing")
    p.add_argument("--marked-too", action="store_true", help="prune: noted and starred boots may go as well")


def _compare(add: Add) -> None:
    p = add(
        "diff",
        "two boots side by side: what was asked for, the nodes, times, memory, speed, text",
        "[A] [B]",
        more="A and B are boots (number, id, `last`, `served`) or recipes. One recipe: against its last boot. One "
        "boot, or none: against the last one before it that served.",
        examples=[
            ("nightdeck diff", "the newest boot against the last one that served"),
            ("nightdeck diff 10 11", "two boots"),
            ("nightdeck diff dsv41-flash-8x", "the file as it is now against its last boot"),
        ],
    )
    p.add_argument("names", metavar="A B", nargs="*", help="what to compare (default: see above)")

    p = add(
        "bisect",
        "which change between two boots broke it: proposes the recipe between, keeps the search",
        "[GOOD BAD | good | bad | status | reset]",
        examples=[
            ("nightdeck bisect 9 11", "begin: 9 served, 11 did not"),
            ("nightdeck bisect bad", "the recipe that was proposed fails too"),
        ],
    )
    p.add_argument(
        "words",
        metavar="WORDS",
        nargs="*",
        help="two boots begin a search; good or bad is the verdict on what was proposed; reset forgets the search "
        "(default: status)",
    )
    p.add_argument("--one-by-one", action="store_true", help="one change at a time (default: halves)")
    p.add_argument(
        "--by-hand",
        action="store_true",
        help="good and bad are what you say, as slow or wrong answers (default: refused where the bad boot served, or "
        "the good one failed)",
    )

    p = add(
        "measure",
        "tokens a second and first tokens of what serves, with their spread",
        examples=[("nightdeck measure --concurrency 1,8 --repeats 5", "a few minutes; kept with the boot")],
    )
    p.add_argument(
        "--concurrency", metavar="LEVELS", default="1,2,4", help="streams at once: 1,2,4 or 1-4 (default: 1,2,4)"
    )
    p.add_argument(
        "--repeats", type=int, metavar="N", default=3, help="rounds that count; one more is dropped (default: 3)"
    )
    p.add_argument("--max-tokens", type=int, metavar="N", default=128, help="tokens of each answer (default: 128)")


def _night(add: Add) -> None:
    p = add(
        "night",
        "run a queue of trials without you: conditions, a hard end, the baseline back at the end",
        "QUEUE.toml | ACTION",
        more="The actions: check QUEUE.toml, status, attach, stop, resume, list. docs/night.md has a worked example.",
        examples=[
            ("nightdeck night check levers.toml", "reads the queue and all its recipes; nothing runs"),
            ("nightdeck night levers.toml", "begins; the terminal may go"),
            ("nightdeck night resume", "goes on with a night that was interrupted"),
            ("nightdeck night resume --print-unit", "what to install so that a reboot does that by itself"),
        ],
    )
    p.add_argument(
        "words", metavar="QUEUE.toml | ACTION", nargs="*", help="a night's file, an action (default: status)"
    )
    p.add_argument("--foreground", action="store_true", help="run it here (default: by itself, in the background)")
    p.add_argument("--if-interrupted", action="store_true", help="resume: do nothing where no night was cut short")
    p.add_argument(
        "--print-unit",
        action="store_true",
        help="resume: print the systemd user unit that does so at start-up, and the crontab line; install nothing",
    )
    p.add_argument("--run-id", metavar="ID", help=argparse.SUPPRESS)
    p.add_argument("--keep-alive", action="store_true", help=argparse.SUPPRESS)

    p = add(
        "report",
        "the night in the morning: ledger, charts, causes, speed, what to try next",
        more="Prints Markdown and writes nothing, unless -o says where. What is there is not replaced.",
        examples=[
            ("nightdeck report", "the newest night, as text"),
            ("nightdeck report -o morning", "morning/report.md and morning/report.html, with charts"),
            ("nightdeck report --since 8h -o - > boots.md", "the boots of the last eight hours"),
        ],
    )
    p.add_argument("--night", metavar="ID", help="which night, as `night list` names it (default: the newest)")
    p.add_argument(
        "--since",
        metavar="TIME",
        help="the boots since then instead: 8h, 2026-09-18T22:00 (default: 12h where no night was)",
    )
    p.add_argument(
        "-o",
        "--output",
        metavar="WHERE",
        help="a folder for report.md and report.html, one file FILE.md or FILE.html, or `-` (default: -, the terminal)",
    )
    p.add_argument("--force", action="store_true", help="with -o: replace files that are there (default: refuse)")
