"""The options of the commands that plan, launch, restart and stop."""

from __future__ import annotations

from console.cli import parser_words as words
from console.cli.parser_words import Add


def add_run_commands(add: Add) -> None:
    """add: makes a command with the general options."""
    _before(add)
    _launch(add)
    _restart(add)
    _stop(add)
    _controls(add)
    add(
        "smoke",
        "ask the running model something and judge the answer",
        more="Exit code 0 only where the answers have sense.",
        examples=[("nightdeck smoke", "the recipe's own prompts, and the speed of the answer")],
    )


def _before(add: Add) -> None:
    p = add(
        "recipes",
        "list the recipes, or show one",
        "[NAME]",
        more="Files that cannot be used are named with line and column, after the good ones; then the exit code is 2.",
        examples=[
            ("nightdeck recipes", "what could run, and which files are broken"),
            ("nightdeck recipes dsv41-flash-8x-safe", "one recipe, as it was read"),
        ],
    )
    p.add_argument("name", metavar="NAME", nargs="?", help="a recipe's folder name (default: all, one a line)")

    p = add(
        "plan",
        "show the exact commands of a launch; nothing runs",
        "NAME",
        examples=[
            ("nightdeck plan dsv41-flash-8x-safe", "one command, and what differs from rank to rank"),
            ("nightdeck plan tiny-cpu --nodes 3 --full", "all three commands, to be copied"),
        ],
    )
    words.recipe(p)
    p.add_argument(
        "--offline", action="store_true", help="do not ask the nodes; what only they know stays open, and is said to be"
    )
    p.add_argument("--full", action="store_true", help="every rank's command, whole (default: one, and what differs)")

    p = add(
        "preflight",
        "check what a launch needs, on every node; nothing is launched",
        "NAME",
        more="Ends with `may launch`, `may launch, with 2 warnings` or `not yet: 2 blocks` (exit code 1). "
        "docs/preflight.md explains every code.",
        examples=[
            ("nightdeck preflight dsv41-flash-8x-safe", "a few seconds: asks, and starts nothing"),
            ("nightdeck preflight dsv41-flash-8x-safe --deep", "half a minute: measures every GPU under load"),
        ],
    )
    words.recipe(p)
    p.add_argument(
        "--deep",
        action="store_true",
        help="start short-lived containers too: ask the image's own --help, and load each GPU for a few seconds "
        "(prints clock, power and speed of each)",
    )
    p.add_argument("--all", action="store_true", help="the whole table of what nodes have (default: only what differs)")


def _launch(add: Add) -> None:
    p = add(
        "launch",
        "launch a recipe and follow it to ready",
        "NAME",
        more="Interrupting it once the containers run only ends the following; before that, what was started "
        "is kept and named.",
        examples=[
            ("nightdeck launch dsv41-flash-8x-safe", "to ready, or to the first cause of what went wrong"),
            ("nightdeck launch tiny-cpu --nodes 3 --detach", "return once three containers were started"),
            (
                "nightdeck launch dsv41-flash-8x --override memory-exhausted",
                "in spite of a finding that would block it",
            ),
        ],
    )
    words.recipe(p)
    words.follow_or_detach(p)
    words.override(p)
    p.add_argument(
        "--rollback",
        action="store_true",
        help="if the launch fails, also while it loads, save the logs and remove what was started (default: keep it; "
        "with --detach only a failed start counts)",
    )
    p.add_argument("--dry-run", action="store_true", help="show the plan with its findings, run nothing")
    p.add_argument(
        "--drop-caches",
        action="store_true",
        help="give the nodes' page cache back first (default: as the recipe says, else not)",
    )
    group = p.add_mutually_exclusive_group()
    group.add_argument(
        "--sync-image",
        action="store_true",
        help="copy the image to nodes that lack it or have another (default: as the recipe says, else where it lacks)",
    )
    group.add_argument("--no-sync-image", action="store_true", help="copy nothing: refuse where the image is missing")
    p.add_argument("--note", metavar="TEXT", help="a note for the ledger (default: none)")
    words.take_over(p)


def _restart(add: Add) -> None:
    p = add(
        "restart",
        "stop, verify that nothing is left, launch again with the recipe as it is now",
        "[NAME]",
        more="What changed since the last boot (recipe, nodes, image, overrides) is printed before anything stops. A "
        "boot that cannot be is refused while the old one still runs.",
        examples=[
            ("nightdeck restart", "the recipe that runs, as its file is now"),
            ("nightdeck restart dsv41-flash-4x --grace 60", "another recipe; engines get a minute to end"),
        ],
    )
    words.recipe(p, optional=True)
    p.add_argument("--note", metavar="TEXT", help="a note for the ledger, on the new boot (default: none)")
    words.follow_or_detach(p)
    words.override(p)
    words.grace(p)
    words.discard_logs(p)
    words.take_over(p)


def _stop(add: Add) -> None:
    p = add(
        "stop",
        "stop a deployment: head first, every node asked, nothing called stopped that was not",
        "[DEPLOYMENT]",
        more="Exit code 0 only where every node answered that nothing is left; 4 where some did.",
        examples=[
            ("nightdeck stop", "what runs, its logs saved first"),
            ("nightdeck stop --all --grace 5", "everything of ours, ended containers and helpers too"),
        ],
    )
    p.add_argument(
        "deployment", metavar="DEPLOYMENT", nargs="?", help="which one, where several live (default: the only one)"
    )
    p.add_argument("--all", action="store_true", help="everything of ours on the nodes, ended containers too")
    words.discard_logs(p)
    words.grace(p)
    words.take_over(p)


def _controls(add: Add) -> None:
    p = add(
        "controls",
        "who may change the nodes now; ask for it, take it, give it back",
        examples=[
            ("nightdeck controls", "who has them, asked on every node"),
            ("nightdeck controls --ask --wait 120", "ask, and wait two minutes for the answer"),
        ],
    )
    how = p.add_mutually_exclusive_group()
    how.add_argument("--ask", action="store_true", help="ask the holder, and wait until it hands over")
    how.add_argument("--take-over", action="store_true", help="take them knowingly: the holder becomes read-only")
    how.add_argument("--release", action="store_true", help="give back what another terminal of yours holds")
    p.add_argument(
        "--wait",
        type=words.seconds,
        default=60.0,
        metavar="SECONDS",
        help="with --ask: how long to wait before the request is withdrawn (default: 60)",
    )
