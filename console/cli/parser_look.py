"""The options of the commands that look: nodes, logs, alarms, recordings."""

from __future__ import annotations

from console.cli import parser_words as words
from console.cli.parser_words import Add

ORDERS = ("file", "name", "age", "available", "used", "gpu", "temp", "power", "load")


def add_look_commands(add: Add) -> None:
    """add: makes a command with the general options."""
    add(
        "status",
        "what runs, and how it is, asked now",
        more="Deployments with their ranks, helper containers of ours, the nodes, and a night that was interrupted.",
        examples=[
            ("nightdeck status", "in words"),
            ("nightdeck status --json", "the same for scripts"),
        ],
    )
    p = add(
        "top",
        "memory, GPU, fabric and disk of every node",
        examples=[
            ("nightdeck top", "goes on until Ctrl-C"),
            ("nightdeck top --once --sort available", "once, the least memory first"),
            ("nightdeck top --json --follow", "an object a line, until interrupted"),
        ],
    )
    p.add_argument("--once", action="store_true", help="one sample of each node (the default when piped)")
    p.add_argument("--follow", action="store_true", help="go on (the default on a terminal); JSON is an object a line")
    p.add_argument(
        "--sort",
        choices=ORDERS,
        default="file",
        metavar="BY",
        help=f"worst first by one of: {', '.join(ORDERS)} (default: file, the cluster file's order)",
    )
    p.add_argument(
        "--filter",
        default="",
        metavar="WORDS",
        help="only nodes with these words in name, host, state or rank (default: all)",
    )
    _alarms(add)
    _recordings(add)
    _logs(add)


def _alarms(add: Add) -> None:
    p = add(
        "alarms",
        "what raises an alarm, what holds now, and a test of how alarms get out",
        "[now|test] [WAY]",
        examples=[
            ("nightdeck alarms", "the rules, and the ways out that are set up"),
            ("nightdeck alarms test webhook", "send a test by the webhook alone"),
        ],
    )
    p.add_argument(
        "alarms_command",
        metavar="now|test",
        nargs="?",
        choices=("now", "test"),
        help="now: what holds at this moment; test: send one (default: the rules)",
    )
    p.add_argument(
        "way",
        metavar="WAY",
        nargs="?",
        help="with test: bell, terminal, command or webhook alone (default: all that are set up)",
    )


def _recordings(add: Add) -> None:
    p = add(
        "export",
        "figures for a Prometheus (OpenMetrics) until interrupted",
        examples=[("nightdeck export --listen 0.0.0.0", "http://this-machine:9464/metrics for the whole network")],
    )
    p.add_argument("--port", type=int, default=9464, metavar="PORT", help="the TCP port to listen on (default: 9464)")
    p.add_argument(
        "--listen",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the address to listen on (default: 127.0.0.1, this machine alone)",
    )

    p = add(
        "record",
        "record telemetry, events and logs into a file until interrupted",
        "FILE",
        examples=[("nightdeck record night.ndr", "then: nightdeck replay night.ndr")],
    )
    p.add_argument("file", metavar="FILE", help="a new file; one that is there is never overwritten")

    p = add(
        "replay",
        "a recording or a boot of the ledger, played in the console",
        "FILE|BOOT",
        examples=[
            ("nightdeck replay last", "the newest boot, as it was lived"),
            ("nightdeck replay 11 --events", "what happened in boot 11, a line each"),
        ],
    )
    p.add_argument("what", metavar="FILE|BOOT", help="a recording, or number or id of a boot (`last`: the newest)")
    p.add_argument("--events", action="store_true", help="the telling events as text (default: the console plays it)")


def _logs(add: Add) -> None:
    p = add(
        "logs",
        "the engine's logs of all ranks, or of one: of what runs, or of a boot that was kept",
        "[BOOT]",
        examples=[
            ("nightdeck logs -f --rank 5", "of what runs, as it comes, rank 5 alone"),
            ("nightdeck logs 11 --grep 'out of memory' -i", "of boot 11, wherever it says so"),
        ],
    )
    p.add_argument("boot", metavar="BOOT", nargs="?", help="a kept boot by number, id or `last` (default: what runs)")
    p.add_argument("--grep", metavar="TEXT", help="with BOOT: only the lines with this text (default: all)")
    p.add_argument("--regex", action="store_true", help="with --grep: TEXT is a regular expression")
    p.add_argument("-i", "--ignore-case", action="store_true", help="with --grep: capital letters or not")
    p.add_argument("-f", "--follow", action="store_true", help="go on as lines come, until interrupted")
    p.add_argument("--rank", type=int, metavar="N", help="this rank alone, counted from 0 (default: all)")
    p.add_argument("--tail", type=words.count, metavar="N", help="the last N lines of each rank (default: all)")

    p = add(
        "diagnose",
        "say which rank failed first and why, from saved logs",
        "[FILE ...]",
        more="Logs as they come: docker, journald, kubectl, compose, gz. The rank is the `rankN` of a file's name.",
        examples=[
            ("nightdeck diagnose rank0.log rank1.log", "logs of two ranks"),
            ("docker logs head 2>&1 | nightdeck diagnose", "from standard input"),
        ],
    )
    p.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="logs, or a folder of evidence (default, and `-`: standard input)",
    )
