"""The command line: every command, its options, and the exit codes, in one place."""

from __future__ import annotations

import argparse

from console import __version__
from console.cli.parser_ledger import add_ledger_commands

EPILOG = """\
exit codes: 0 done · 1 failed, and the output says what · 2 wrong use or a bad file · 3 not ready in time ·
4 partly done · 130 interrupted. Without a command the console opens.

first steps:
  nightdeck lab                          a simulated eight-node cluster to look at: nothing of yours is touched
  nightdeck cluster init dgx1 dgx2 …     look at your nodes over SSH and write cluster.toml
  nightdeck cluster check                can every node do what a launch needs?
  nightdeck plan NAME                    the exact commands, nothing runs
  nightdeck launch NAME                  launch, and follow to ready
"""


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"0 to 86400 seconds, not {text}")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"1 or more, not {text}")
    return value


def _speed(text: str) -> float:
    value = float(text)
    if not 0 < value <= 10_000:
        raise argparse.ArgumentTypeError(f"above 0, at most 10000, not {text}")
    return value


def _globals(parser: argparse.ArgumentParser, *, top: bool) -> None:
    """The options that every command takes, before or after its name; a default is set once, at the top."""
    none = None if top else argparse.SUPPRESS
    off = False if top else argparse.SUPPRESS
    group = parser.add_argument_group("general options")
    group.add_argument("--cluster", metavar="FILE|lab|local", default=none, help="cluster file; `lab`; this machine")
    group.add_argument("--recipes", metavar="DIR", default=none, help="a folder of recipes that comes first")
    group.add_argument("--json", action="store_true", default=off, help="data for scripts on stdout")
    group.add_argument("--read-only", action="store_true", default=off, help="nothing that changes a node")
    group.add_argument("--color", choices=("auto", "truecolor", "256", "16", "none"), default=none)
    group.add_argument("--theme", metavar="NAME", default=none, help="theme of the console")
    group.add_argument("--ascii", action="store_true", default=off, help="draw with ASCII alone")
    group.add_argument("--speed", type=_speed, metavar="N", default=none, help="with the lab: how fast its time runs")
    group.add_argument("--scenario", metavar="NAME", default=none, help="with the lab: a fault by name")
    group.add_argument("--lab-nodes", type=_count, metavar="N", default=none, help="with the lab: how many nodes")


def _recipe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a recipe's folder name, or a path to a recipe.toml")
    parser.add_argument("--nodes", type=_count, metavar="N", help="take N nodes (tensor parallel over N)")
    parser.add_argument("--head", metavar="NODE", help="this node is rank 0")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Errors of use end the process with status 2, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="nightdeck",
        description="A terminal console for one large model across several machines: recipes, nodes, launch, logs.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"nightdeck {__version__}")
    _globals(parser, top=True)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def add(name: str, help_text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help_text, description=help_text[0].upper() + help_text[1:] + ".")
        _globals(sub, top=False)
        return sub

    p = add("recipes", "list the recipes, or show one")
    p.add_argument("name", metavar="NAME", nargs="?")

    p = add("plan", "show the exact commands of a launch; nothing runs")
    _recipe_options(p)
    p.add_argument("--offline", action="store_true", help="do not ask the nodes; what only they know stays open")
    p.add_argument("--full", action="store_true", help="every rank's command in full")

    p = add("preflight", "check what a launch needs, on every node; nothing runs")
    _recipe_options(p)
    p.add_argument("--deep", action="store_true", help="ask the image's own --help, load each GPU a few seconds")
    p.add_argument("--all", action="store_true", help="the whole table of what nodes have, not only what differs")

    p = add("launch", "launch a recipe and follow it to ready")
    _recipe_options(p)
    p.add_argument("--detach", action="store_true", help="return once every container was started")
    p.add_argument("--follow", action="store_true", help="print what happens until ready (the default)")
    p.add_argument("--override", action="append", default=[], metavar="CODE", help="go on in spite of this finding")
    p.add_argument("--rollback", action="store_true", help="if the launch fails, remove what was started")
    p.add_argument("--dry-run", action="store_true", help="show everything, run nothing")
    p.add_argument("--drop-caches", action="store_true", help="give the nodes' page cache back first")
    group = p.add_mutually_exclusive_group()
    group.add_argument("--sync-image", action="store_true", help="copy the image to nodes that lack it or have another")
    group.add_argument("--no-sync-image", action="store_true", help="refuse where the image is missing, copy nothing")
    p.add_argument("--note", metavar="TEXT", help="a note for the ledger")
    p.add_argument("--take-over", action="store_true", help="take the controls from whoever has them, knowingly")

    p = add("status", "what runs, and how it is, asked now")
    p = add("top", "memory, GPU, fabric and disk of every node")
    p.add_argument("--once", action="store_true", help="one sample of each node (the default when piped)")
    p.add_argument("--follow", action="store_true", help="go on; with --json one object a line")
    orders = ("file", "name", "age", "available", "used", "gpu", "temp", "power", "load")
    p.add_argument("--sort", choices=orders, default="file", metavar="BY", help=f"{', '.join(orders)} (worst first)")
    p.add_argument("--filter", default="", metavar="WORDS", help="nodes with these words in name, host, state or rank")

    p = add("alarms", "what raises an alarm, what holds now, and a test of how alarms get out")
    p.add_argument("alarms_command", metavar="now|test", nargs="?", choices=("now", "test"), help="default: the rules")
    p.add_argument("way", metavar="WAY", nargs="?", help="with test: bell, terminal, command or webhook alone")

    p = add("export", "figures for a Prometheus (OpenMetrics) until interrupted")
    p.add_argument("--port", type=int, default=9464, metavar="PORT", help="default 9464")
    p.add_argument("--listen", default="127.0.0.1", metavar="ADDRESS", help="default: this machine alone")

    p = add("record", "record telemetry, events and logs into a file until interrupted")
    p.add_argument("file", metavar="FILE", help="a new file")

    p = add("replay", "a recording or a boot of the ledger, played in the console")
    p.add_argument("what", metavar="FILE|BOOT", help="a recording, or number or id of a boot (`last`: the newest)")
    p.add_argument("--events", action="store_true", help="the telling events as text, without the console")

    p = add("logs", "the engine's logs of all ranks, or of one: of what runs, or of a boot that was kept")
    p.add_argument("boot", metavar="BOOT", nargs="?", help="a boot of the ledger by number, id or `last`")
    p.add_argument("--grep", metavar="TEXT", help="with BOOT: the lines with this text")
    p.add_argument("--regex", action="store_true", help="with --grep: TEXT is a regular expression")
    p.add_argument("-i", "--ignore-case", action="store_true", help="with --grep: capital letters or not")
    p.add_argument("-f", "--follow", action="store_true", help="go on as lines come")
    p.add_argument("--rank", type=int, metavar="N", help="this rank alone")
    p.add_argument("--tail", type=_count, metavar="N", help="the last N lines of each rank")

    p = add("stop", "stop a deployment: head first, every node asked, nothing called stopped that was not")
    p.add_argument("deployment", metavar="DEPLOYMENT", nargs="?", help="which, where several live")
    p.add_argument("--all", action="store_true", help="everything of ours on the nodes, ended containers too")
    p.add_argument("--discard-logs", action="store_true", help="remove containers whose logs could not be saved too")
    p.add_argument("--grace", type=_seconds, default=30.0, metavar="SECONDS", help="then the engine kills (default 30)")
    p.add_argument("--take-over", action="store_true", help="take the controls from whoever has them, knowingly")

    p = add("restart", "stop, verify, launch again with the recipe as it is now")
    p.add_argument("name", metavar="NAME", nargs="?", help="default: the recipe that runs")
    p.add_argument("--nodes", type=_count, metavar="N")
    p.add_argument("--head", metavar="NODE")
    p.add_argument("--detach", action="store_true")
    p.add_argument("--follow", action="store_true")
    p.add_argument("--discard-logs", action="store_true", help="remove containers whose logs could not be saved too")
    p.add_argument("--override", action="append", default=[], metavar="CODE")
    p.add_argument("--grace", type=_seconds, default=30.0, metavar="SECONDS")
    p.add_argument("--take-over", action="store_true", help="take the controls from whoever has them, knowingly")

    p = add("controls", "who may change the nodes now; ask for it, take it, give it back")
    how = p.add_mutually_exclusive_group()
    how.add_argument("--ask", action="store_true", help="ask the holder, and wait until it hands over")
    how.add_argument("--take-over", action="store_true", help="take them knowingly: the holder becomes read-only")
    how.add_argument("--release", action="store_true", help="give back what another terminal of yours holds")
    p.add_argument("--wait", type=_seconds, default=60.0, metavar="SECONDS", help="with --ask (default 60)")

    p = add("smoke", "ask the running model something and judge the answer")

    p = add("diagnose", "say which rank failed first and why, from saved logs")
    p.add_argument(
        "files", metavar="FILE", nargs="*", help="logs, or a folder of evidence; `-` or none: standard input"
    )

    add_ledger_commands(add)

    p = add("cluster", "write or check the cluster file")
    sub = p.add_subparsers(dest="cluster_command", metavar="init|check", required=True)
    i = sub.add_parser("init", help="look at the nodes over SSH and write cluster.toml")
    _globals(i, top=False)
    i.add_argument("hosts", metavar="HOST", nargs="+", help="ssh aliases or addresses; dgx[1-8] is a range")
    i.add_argument("-o", "--output", metavar="FILE", help="where to write (default: the configuration folder)")
    i.add_argument("--force", action="store_true", help="overwrite an existing file")
    i.add_argument("--user", metavar="NAME")
    i.add_argument("--name", metavar="NAME", default="cluster")
    i.add_argument("--ssh-config", metavar="FILE", help="instead of ~/.ssh/config, as ssh -F")
    i.add_argument("--container-cli", metavar="CLI", help="docker, podman or nerdctl (default: what is found)")
    c = sub.add_parser("check", help="can every node do what a launch needs?")
    _globals(c, top=False)

    p = add("image", "one image on every node: copy it, or build it")
    sub = p.add_subparsers(dest="image_command", metavar="sync|build", required=True)
    s = sub.add_parser("sync", help="copy a recipe's image to the nodes that lack it, node to node")
    _globals(s, top=False)
    s.add_argument("name", metavar="NAME", help="a recipe, or an image reference")
    s.add_argument("--on", action="append", metavar="NODE", help="only these nodes (default: all)")
    s.add_argument("--from", dest="source", metavar="NODE", help="this node's image counts where images differ")
    s.add_argument("--through-console", action="store_true", help="not node to node")
    b = sub.add_parser("build", help="build a recipe's image from its docker_image_dir on one node")
    _globals(b, top=False)
    b.add_argument("name", metavar="NAME", help="a recipe's folder name, or a path to a recipe.toml")
    b.add_argument("--on", dest="node", metavar="NODE", help="where (default: the first node)")

    p = add("lab", "a simulated cluster over real SSH, and the console on it")
    p.add_argument("--serve", action="store_true", help="only serve it, for other commands with --cluster lab")
    p.add_argument("--list", action="store_true", help="the scenarios by name")
    return parser
