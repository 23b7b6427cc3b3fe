"""The options of the commands that set a cluster up: its file, its image, a simulated one."""

from __future__ import annotations

import argparse

from console.cli.parser_words import Add, count, make_adder


def add_setup_commands(add: Add) -> None:
    """add: makes a command with the general options."""
    p = add("cluster", "write or check the cluster file", "init|check ...")
    _cluster(p)
    p = add("image", "one image on every node: copy it, or build it", "sync|build ...")
    _image(p)
    p = add(
        "lab",
        "a simulated cluster over real SSH, and the console on it",
        more="Without an option the console opens on a lab of its own, which ends with it. Nothing of yours is used.",
        examples=[
            ("nightdeck lab", "eight healthy nodes: press l to launch, ? for all keys"),
            ("nightdeck lab --nodes 128", "as many as there can be"),
            ("nightdeck lab --scenario rank-dies-loading", "a fault to watch"),
            ("nightdeck lab --serve --lab-nodes 4", "for other terminals: `nightdeck --cluster lab status`"),
            ("nightdeck lab --set node-cut", "a fault, now, in the lab that is served"),
        ],
    )
    way = p.add_mutually_exclusive_group()
    way.add_argument(
        "--serve",
        action="store_true",
        help="only serve it, until Ctrl-C, for other commands with `--cluster lab`; says how on a terminal, in one "
        "line of JSON with --json or where piped",
    )
    way.add_argument("--list", action="store_true", help="the scenarios by name")
    # The same as --lab-nodes, which every command has: here it is what one types.
    p.add_argument(
        "--nodes",
        dest="lab_nodes",
        type=count,
        metavar="N",
        default=argparse.SUPPRESS,
        help="how many nodes, as --lab-nodes (default: 8)",
    )
    way.add_argument("--set", metavar="NAME", help="give the lab that is served this scenario from now on")


def _cluster(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_subparsers(dest="cluster_command", metavar="init|check", required=True)
    add = make_adder(parts, "nightdeck cluster")
    p = add(
        "init",
        "look at the nodes over SSH and write cluster.toml",
        "HOST ...",
        examples=[
            ("nightdeck cluster init dgx[1-8]", "eight nodes by their ssh names"),
            ("nightdeck cluster init 10.0.0.1 10.0.0.2 --user ops -o lab.toml", "by address, into a file of your own"),
        ],
    )
    p.add_argument("hosts", metavar="HOST", nargs="+", help="ssh aliases or addresses; dgx[1-8] is a range")
    p.add_argument(
        "-o", "--output", metavar="FILE", help="where to write (default: cluster.toml of the configuration folder)"
    )
    p.add_argument("--force", action="store_true", help="overwrite a file that is there (default: refuse)")
    p.add_argument("--user", metavar="NAME", help="the user on the nodes (default: as ssh would choose)")
    p.add_argument("--name", metavar="NAME", default="cluster", help="what to call the cluster (default: cluster)")
    p.add_argument("--ssh-config", metavar="FILE", help="as ssh -F (default: ~/.ssh/config)")
    p.add_argument("--container-cli", metavar="CLI", help="docker, podman or nerdctl (default: what is found)")
    add(
        "check",
        "can every node do what a launch needs?",
        examples=[("nightdeck cluster check", "exit code 1 where something blocks")],
    )


def _image(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_subparsers(dest="image_command", metavar="sync|build", required=True)
    add = make_adder(parts, "nightdeck image")
    p = add(
        "sync",
        "copy a recipe's image to the nodes that lack it, node to node",
        "NAME",
        examples=[("nightdeck image sync dsv41-flash-8x-safe", "each node hands it on to the next, over the fabric")],
    )
    p.add_argument("name", metavar="NAME", help="a recipe, or an image reference")
    p.add_argument("--on", action="append", metavar="NODE", help="only this node; may be repeated (default: all)")
    p.add_argument(
        "--from",
        dest="source",
        metavar="NODE",
        help="this node's image counts where they differ (default: what most have)",
    )
    p.add_argument("--through-console", action="store_true", help="through this machine (default: node to node)")
    p = add(
        "build",
        "build a recipe's image from its docker_image_dir on one node",
        "NAME",
        examples=[("nightdeck image build tiny-cpu --on dgx1", "then: nightdeck image sync tiny-cpu")],
    )
    p.add_argument("name", metavar="NAME", help="a recipe's folder name, or a path to a recipe.toml")
    p.add_argument("--on", dest="node", metavar="NODE", help="the node that builds (default: the first)")
