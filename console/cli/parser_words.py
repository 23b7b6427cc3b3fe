"""How a command describes itself: general options, values that are checked, help that fits eighty columns."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

Add = Callable[..., argparse.ArgumentParser]
COLUMNS = 79


def seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"0 to 86400 seconds, not {text}")
    return value


def count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"1 or more, not {text}")
    return value


def speed(text: str) -> float:
    value = float(text)
    if not 0 < value <= 10_000:
        raise argparse.ArgumentTypeError(f"above 0, at most 10000, not {text}")
    return value


def gib(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"0 or more GiB, not {text}")
    return value


def port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65_535:
        raise argparse.ArgumentTypeError(f"0 to 65535, not {text}")
    return value


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Descriptions and examples as they are; options in one column, however wide the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=COLUMNS)


class CommandParser(argparse.ArgumentParser):
    """A command: what it does not know is told with its own usage, not with that of the whole."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left


def make_adder(commands: argparse._SubParsersAction[Any], before: str = "nightdeck") -> Add:
    """Adds a command. help_text: a sentence. usage: what follows its name. more: further paragraphs. examples: whole
    command lines, each with what it is for."""

    def add(
        name: str, help_text: str, usage: str = "", *, more: str = "", examples: Sequence[tuple[str, str]] = ()
    ) -> argparse.ArgumentParser:
        about = textwrap.fill(help_text[0].upper() + help_text[1:] + ".", COLUMNS)
        paragraphs = [textwrap.fill(" ".join(part.split()), COLUMNS) for part in more.split("\n\n") if part.strip()]
        sub: argparse.ArgumentParser = commands.add_parser(
            name,
            help=help_text,
            prog=f"{before} {name}",
            usage=f"{before} {name} [options]{' ' + usage if usage else ''}",
            description="\n\n".join([about, *paragraphs]),
            epilog=shown(examples),
            formatter_class=Formatter,
        )
        general(sub, top=False)
        return sub

    return add


def shown(examples: Sequence[tuple[str, str]]) -> str | None:
    """Examples under their heading, each command on one line, to be copied."""
    if not examples:
        return None
    lines = ["examples:"]
    for command, what in examples:
        lines += [f"  {command}", f"      {what}"]
    return "\n".join(lines)


def general(parser: argparse.ArgumentParser, *, top: bool) -> None:
    """The options that every command takes, before or after its name; a default is set once, at the top."""
    none = None if top else argparse.SUPPRESS
    off = False if top else argparse.SUPPRESS
    group = parser.add_argument_group("general options (before or after the command)")
    group.add_argument(
        "--cluster",
        metavar="WHERE",
        default=none,
        help="a cluster file, `lab` (simulated) or `local` (this machine); default: cluster.toml of the configuration",
    )
    group.add_argument(
        "--recipes",
        metavar="DIR",
        default=none,
        help="a folder of recipes beside the others (./recipes, the configuration's, those that ship); a name that "
        "stands in two of them is an error that names both files (default: none)",
    )
    group.add_argument("--json", action="store_true", default=off, help="data for scripts on stdout, nothing else")
    group.add_argument("--read-only", action="store_true", default=off, help="refuse whatever changes a node")
    group.add_argument(
        "--color",
        choices=("auto", "truecolor", "256", "16", "none"),
        default=none,
        metavar="HOW",
        help="the console's colours: auto, truecolor, 256, 16 or none (default: the settings', else auto)",
    )
    group.add_argument(
        "--theme", metavar="NAME", default=none, help="the console's theme (default: the settings', else nightdeck)"
    )
    group.add_argument("--ascii", action="store_true", default=off, help="let the console draw with ASCII alone")
    group.add_argument(
        "--speed",
        type=speed,
        metavar="N",
        default=none,
        help="of a lab: its seconds in one of ours (default: $NIGHTDECK_LAB_SPEED, else 12 on screens, 30 in commands)",
    )
    group.add_argument(
        "--scenario", metavar="NAME", default=none, help="of a lab: a fault by name (default: healthy, none)"
    )
    group.add_argument(
        "--lab-nodes", type=count, metavar="N", default=none, help="of a lab: how many nodes, up to 128 (default: 8)"
    )


def recipe(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Which recipe, on which nodes."""
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?" if optional else None,
        help="a recipe's folder name, or a path to a recipe.toml"
        + (" (default: the recipe that runs)" if optional else ""),
    )
    parser.add_argument(
        "--nodes",
        type=count,
        metavar="N",
        help="take N nodes, tensor parallel over N (default: as many as the recipe requires)",
    )
    parser.add_argument(
        "--head", metavar="NODE", help="this node is rank 0 (default: the recipe's choice, else the first node)"
    )


def override(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="CODE",
        help="go on in spite of this blocking finding, named by its code as `preflight` prints it; kept with the boot; "
        "may be given several times (default: none)",
    )


def take_over(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="take the controls from whoever has them, knowingly: that console then only watches",
    )


def grace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grace",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long an engine may take to end by itself before its container is killed (default: 30)",
    )


def discard_logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--discard-logs",
        action="store_true",
        help="remove containers whose logs could not be saved too (default: they are stopped and kept)",
    )


def follow_or_detach(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--detach", action="store_true", help="return once every container was started; `status` tells how it goes on"
    )
    parser.add_argument("--follow", action="store_true", help="print what happens until ready (the default)")
