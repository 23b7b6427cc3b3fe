"""Containers that ask an image something and go: labelled, so that one whose console died in between can be found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from console.base.absent import Absent
from console.base.text import clean_bytes, clean_line
from console.cluster.model import Cluster
from console.services.census import Quick, epoch
from console.services.images import cli_of
from console.transport.base import Completed, Fleet, TransportError

# Not the label of a deployment: a helper is none, and the census of deployments must not take it for one.
LABEL_HELPER: Final = "nightdeck.helper"
HELPER_ARGS: Final = ("--label", f"{LABEL_HELPER}=1")
REMOVE_S: Final = 30.0
# $1: container CLI, $2: label filter. The ids are hexadecimal words of the engine's own, so splitting them is safe.
_SWEEP: Final = (
    'ids=$("$1" ps -aq --no-trunc --filter "label=$2") || exit $?; '
    'for c in $ids; do "$1" rm -f -v "$c" >/dev/null && echo "$c"; done'
)


# By the beginning of a helper's name: what it does, for whoever finds it on a node.
PURPOSES: Final = {
    "nd-load-": "loads the GPU for some seconds (preflight --deep)",
    "nd-help-": "asks the image's own --help (preflight --deep)",
    "nd-drop-": "gives the node's page cache back",
}
_LIST: Final = "{{.Names}}\t{{.State}}"
ASK_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class Helper:
    """One helper container. state: the engine's word; started_at: epoch s, None where the engine does not tell."""

    node: str
    name: str
    state: str = ""
    started_at: float | None = None

    @property
    def what(self) -> str:
        known = next((text for prefix, text in PURPOSES.items() if self.name.startswith(prefix)), "")
        return known or "a helper whose name tells no purpose"


async def find_helpers(
    fleet: Fleet, cluster: Cluster, nodes: Iterable[str], quick: Quick
) -> dict[str, tuple[Helper, ...] | Absent]:
    """Helpers on each node now, all nodes at once; Absent with the reason where one cannot say. quick: asked first."""
    names = list(nodes)
    found = await asyncio.gather(*(_find(fleet, cluster, name, quick) for name in names))
    return dict(zip(names, found, strict=True))


async def _find(fleet: Fleet, cluster: Cluster, node: str, quick: Quick) -> tuple[Helper, ...] | Absent:
    rows = await quick(node)
    if rows is not None:
        return tuple(_helper(node, row) for row in rows[:100] if isinstance(row, dict))
    argv = [cli_of(cluster, node), "ps", "-a", "--filter", f"label={LABEL_HELPER}", "--format", _LIST]
    try:
        done = await fleet.link(node).run(argv, timeout=ASK_S)
    except TransportError as error:
        return Absent(error.what)
    return read_list(node, done)


def read_list(node: str, done: Completed) -> tuple[Helper, ...] | Absent:
    """The engine's list of names and states."""
    if not done.ok:
        said = clean_bytes(done.stderr.strip().split(b"\n")[-1], limit=200)
        return Absent(said or f"the container engine answered with exit status {done.status}")
    rows = [line.partition(b"\t") for line in done.stdout.splitlines()[:100] if line.strip()]
    return tuple(Helper(node, clean_bytes(name, limit=200), clean_bytes(state, limit=40)) for name, _, state in rows)


def _helper(node: str, row: Mapping[str, Any]) -> Helper:
    state = row.get("State")
    state = state if isinstance(state, dict) else {}
    return Helper(
        node,
        clean_line(str(row.get("Name") or ""), limit=200).lstrip("/"),
        clean_line(str(state.get("Status") or ""), limit=40),
        epoch(state.get("StartedAt")),
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
