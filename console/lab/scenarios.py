"""The faults that a lab can have, by name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

from console.base.errors import UsageError


@dataclass(frozen=True, slots=True)
class Scenario:
    """summary: one line for a list. node: which node it strikes, counted from 1 (a smaller cluster: its last;
    a boot that does not use it: its last rank); 0: none in particular. What strikes at once, before anything is
    launched, strikes a node that every recipe uses. at_once: it strikes when chosen, whether or not a boot runs."""

    name: str
    summary: str
    node: int = 0
    at_once: bool = False

    def target(self, nodes: int) -> int:
        return min(self.node, nodes)


_ALL: Final = (
    Scenario("healthy", "every rank comes up and serves"),
    Scenario("rank-dies-loading", "rank 5 (or the last) meets a damaged shard and exits; the others see it gone", 6),
    Scenario("node-silent", "one node's SSH accepts and says nothing more, and its rank stands still", 7),
    Scenario("node-cut", "one node drops its SSH connections and refuses new ones; its engine runs on", 7),
    Scenario("image-missing", "one node does not have the image", 3, at_once=True),
    Scenario("memory-collapse", "one node's available memory falls to half a GiB, then the node stands still", 4),
    Scenario("garbage-answers", "a clean boot whose answers are one repeated token; nothing drafted is accepted"),
    Scenario("slow-weights", "weights load so slowly that the deadline passes first"),
    Scenario("half-stop", "one node's container survives stop, kill and rm -f", 6),
    Scenario("oom-gate", "one rank finds less free memory than its share and exits", 4),
    Scenario("bad-flag", "the engine does not know one of its arguments"),
    Scenario("port-in-use", "another server holds port 8000 on the head, and answers", 1, at_once=True),
    Scenario("rendezvous-timeout", "one rank never reaches the head's store", 8),
    Scenario("worker-dies-serving", "one worker ends after ready: the head stays healthy, no request is answered", 4),
    Scenario("hostile", "logs and labels full of escapes, broken UTF-8, an endless line and no end", 3, at_once=True),
    Scenario("clock-latch", "one GPU is held at 507 MHz and 14 W", 4, at_once=True),
    Scenario("docker-dead", "one node's docker daemon does not answer", 4, at_once=True),
)  # fmt: skip
SCENARIOS: Final = {s.name: s for s in _ALL}


def scenario(name: str) -> Scenario:
    """Raises UsageError with the nearest name."""
    if name in SCENARIOS:
        return SCENARIOS[name]
    near = difflib.get_close_matches(name, SCENARIOS, 1)
    raise UsageError(
        f"the lab has no scenario {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        remedy="one of: " + ", ".join(SCENARIOS),
    )
