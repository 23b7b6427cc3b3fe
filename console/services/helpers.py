"""Containers that ask an image something and go: labelled, so that one whose console died in between can be found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from console.base.text import clean_bytes
from console.cluster.model import Cluster
from console.services.images import cli_of
from console.transport.base import Fleet, TransportError

# Not the label of a deployment: a helper is none, and the census of deployments must not take it for one.
LABEL_HELPER: Final = "nightdeck.helper"
HELPER_ARGS: Final = ("--label", f"{LABEL_HELPER}=1")
REMOVE_S: Final = 30.0
# $1: container CLI, $2: label filter. The ids are hexadecimal words of the engine's own, so splitting them is safe.
_SWEEP: Final = (
    'ids=$("$1" ps -aq --no-trunc --filter "label=$2") || exit $?; '
    'for c in $ids; do "$1" rm -f -v "$c" >/dev/null && echo "$c"; done'
)


async def remove_helpers(fleet: Fleet, cluster: Cluster, nodes: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Remove what was left behind, on all nodes at once: ids by node, of nodes that had any. Never raises for a node:
    one that does not answer has none that could be removed now."""
    names = list(nodes)
    found = await asyncio.gather(*(_sweep(fleet, cluster, name) for name in names))
    return {name: ids for name, ids in zip(names, found, strict=True) if ids}


async def _sweep(fleet: Fleet, cluster: Cluster, node: str) -> tuple[str, ...]:
    try:
        done = await fleet.link(node).run(
            ["sh", "-c", _SWEEP, "sh", cli_of(cluster, node), LABEL_HELPER], timeout=REMOVE_S
        )
    except TransportError:
        return ()
    return tuple(clean_bytes(word, limit=64) for word in done.stdout.split()[:100])
