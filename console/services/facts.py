"""Facts of all nodes at once: each node answers or not for itself, and no one waits for another."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from console.base.absent import Absent
from console.base.text import clean_bytes
from console.cluster.facts import NodeFacts
from console.cluster.facts_parse import parse_facts
from console.cluster.model import Cluster, Node
from console.probe import facts_program as base_text
from console.probe import launch_facts_program
from console.transport.base import Fleet, Link, TransportError, Trouble

# What one question on a node may take; the program itself ends after twice that and a second.
QUESTION_LIMIT_S: Final = 8.0
# How much longer a busy node's container engine is waited for the second time.
PATIENCE: Final = 2.0
_SLOW: Final = re.compile(r"gave no answer in [0-9.]+ s \(load ")


@cache
def facts_program() -> bytes:
    """The text of the program that runs on a node."""
    return base_text()


@cache
def launch_program() -> bytes:
    """The same with what a launch asks beside."""
    return launch_facts_program()


async def gather_facts(
    fleet: Fleet,
    cluster: Cluster,
    images: Sequence[str] = (),
    *,
    timeout: float,
    paths: Sequence[str] = (),
    nodes: Sequence[str] | None = None,
    wall: Callable[[], float] = time.time,
    asks: Mapping[str, Mapping[str, Any]] | None = None,
    only: Sequence[str] = (),
    heard: Callable[[str], None] = lambda _node: None,
) -> Mapping[str, NodeFacts | Absent]:
    """Facts by node name, within `timeout` seconds, or three times that where a busy node's container engine is asked
    once more (`node_facts`); a node that cannot be asked is Absent with the reason.

    images: references whose Ids are asked for. paths: where free space is asked for (`~` expands on the node), beside
    the container engine's root and the node's hf_cache. nodes: only these; wall: the console's clock, epoch seconds.
    asks: what a launch asks beside, by node (`console.plan.launch_ask.asks`). only: facts by name, and what comes with
    them; all where it is empty. heard: called with each node's name when it answered, or cannot."""

    async def one(node: Node) -> NodeFacts | Absent:
        try:
            return await node_facts(
                fleet.link(node.name),
                node,
                images,
                timeout=timeout,
                paths=paths,
                wall=wall,
                ask=(asks or {}).get(node.name),
                only=only,
            )
        finally:
            heard(node.name)

    wanted = [n for n in cluster.nodes if nodes is None or n.name in nodes]
    found = await asyncio.gather(*(one(n) for n in wanted))
    return {n.name: facts for n, facts in zip(wanted, found, strict=True)}


async def node_facts(
    link: Link,
    node: Node,
    images: Sequence[str] = (),
    *,
    timeout: float,
    paths: Sequence[str] = (),
    wall: Callable[[], float] = time.time,
    ask: Mapping[str, Any] | None = None,
    only: Sequence[str] = (),
) -> NodeFacts | Absent:
    """Facts of one node. Never raises for what the node or the way to it does.

    A container engine that gave no answer in time on a node with more work than processors is asked once more, with
    twice the time: slow is not dead. A node that is not busy is not waited for again."""

    async def told(factor: float) -> NodeFacts | Absent:
        return await ask_facts(
            link, node, images, timeout=factor * timeout, paths=paths, wall=wall, ask=ask, only=only, factor=factor
        )

    try:
        facts = await told(1.0)
    except TransportError as error:
        return Absent(f"{error.trouble}: {error.what}")
    if not only_slow(facts):
        return facts
    try:
        return await told(PATIENCE)
    except TransportError:
        return facts  # all but the engine's answer is known by the first


def only_slow(facts: NodeFacts | Absent) -> bool:
    """The container engine's answer is missing, and the node says that it has more to do than it has processors."""
    if isinstance(facts, Absent):
        return False
    asked = (facts.container_version, facts.image_ids)
    return any(isinstance(fact, Absent) and _SLOW.search(fact.reason) for fact in asked)


async def ask_facts(
    link: Link,
    node: Node,
    images: Sequence[str] = (),
    *,
    timeout: float,
    paths: Sequence[str] = (),
    wall: Callable[[], float] = time.time,
    ask: Mapping[str, Any] | None = None,
    only: Sequence[str] = (),
    factor: float = 1.0,
) -> NodeFacts | Absent:
    """Facts of one node; Absent when it answered without a report. factor: of the time that one question may take.
    Raises TransportError, whose remedy `node_facts` has no place for."""
    asked = dict.fromkeys([*(p for p in (node.hf_cache,) if p), *paths])
    request: dict[str, Any] = {
        "cli": node.container_cli,
        "images": list(images),
        "paths": list(asked),
        "limit_s": max(0.5, min(factor * QUESTION_LIMIT_S, (timeout - 2.0) / 2)),
    }
    if ask is not None:
        request.update(ask)
    if only:
        request["only"] = list(only)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await link.connect(timeout=timeout)  # apart, so that the connecting does not count in the clock's offset
    left = max(0.1, timeout - (loop.time() - began))
    sent = wall()
    try:
        done = await link.run(
            ["python3", "-I", "-S", "-", json.dumps(request)],
            timeout=left,
            stdin=facts_program() if ask is None else launch_program(),
            limit=8 << 20,
        )
    except TransportError as error:
        if error.trouble is not Trouble.DEADLINE:
            raise
        raise TransportError(
            error.trouble, f"python3 did not start, or gave no answer in {left:.3g} s", node=link.node
        ) from None
    received = wall()
    facts = parse_facts(done.stdout, node.name, received, sent, received)
    if isinstance(facts, Absent) and done.status == 127:
        return Absent("python3 is not installed on the node")
    if isinstance(facts, Absent) and not done.ok and not done.stdout:
        how = f"exit status {done.status}" if done.status is not None else f"signal {done.signal}"
        return Absent(f"python3 did not run ({how}): {clean_bytes(done.stderr[-300:], limit=300) or 'it said nothing'}")
    if isinstance(facts, Absent) and done.stderr:
        said = clean_bytes(b" ".join(done.stderr[-300:].split()), limit=300)
        return Absent(f"{facts.reason}: {said}")
    return facts
