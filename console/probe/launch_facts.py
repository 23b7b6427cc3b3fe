"""Runs on a node: all facts of a launch in one report; the last part of the program that is sent."""

from __future__ import annotations

from console.probe.facts import main as facts_main
from console.probe.launch_engines import MORE


def main() -> None:
    """argv[1] is the request of the facts program with `mounts`, `models`, `peers` and `user` beside."""
    facts_main(more=MORE)
