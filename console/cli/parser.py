"""The command line: every command, its options, and the exit codes, in one place."""

from __future__ import annotations

import argparse

from console import __version__
from console.cli.parser_ledger import add_ledger_commands
from console.cli.parser_look import add_look_commands
from console.cli.parser_run import add_run_commands
from console.cli.parser_setup import add_setup_commands
from console.cli.parser_words import CommandParser, Formatter, general, make_adder

EPILOG = """\
exit codes: 0 done; 1 failed, and the output says what; 2 wrong use or a bad
file; 3 not ready in time; 4 partly done (some nodes); 130 interrupted.
Without a command the console opens. `nightdeck COMMAND --help` has examples.

first steps:
  nightdeck lab
      a simulated eight-node cluster to look at: nothing of yours is touched
  nightdeck cluster init dgx1 dgx2
      look at your nodes over SSH and write cluster.toml
  nightdeck cluster check
      can every node do what a launch needs?
  nightdeck plan dsv41-flash-8x-safe
      the exact commands, nothing runs
  nightdeck launch dsv41-flash-8x-safe
      launch, and follow to ready
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Errors of use end the process with status 2, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="nightdeck",
        usage="nightdeck [options] [COMMAND] ...",
        description="A terminal console for one large model across several machines:\nrecipes, nodes, launch, logs.",
        epilog=EPILOG,
        formatter_class=Formatter,
    )
    parser.add_argument("--version", action="version", version=f"nightdeck {__version__}", help="the version, and end")
    general(parser, top=True)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=CommandParser)
    add = make_adder(commands)
    add_run_commands(add)
    add_look_commands(add)
    add_ledger_commands(add)
    add_setup_commands(add)
    return parser
