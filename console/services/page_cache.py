"""Giving the page cache back before a launch: the gate of an engine on unified memory counts what is free now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from console.base.text import clean_line
from console.cluster.model import Cluster
from console.recipe.model import Recipe
from console.services.engine_words import telling
from console.services.helpers import LABEL_HELPER
from console.services.images import cli_of
from console.transport.base import Fleet, TransportError

DROP_S: Final = 90.0  # a node with 100 GiB of cache takes 5-20 s [inf]
# $1: container CLI, $2: image, $3: the label of helpers. Tried in this order: as root, by sudo without a password, by
# a container of the recipe's own image that may write to the host's /proc/sys. Each failure is told, and the last line
# says how it went.
_DROP: Final = """p=${HOST_PROC:-/proc}
f=$p/sys/vm/drop_caches
free() { while read -r k v _; do [ "$k" = MemAvailable: ] && a=$v; [ "$k" = MemFree: ] && m=$v; done <"$p/meminfo"; }
free; a0=$a; m0=$m
how=
if [ -w "$f" ] && echo 3 2>/dev/null >"$f"; then how=root; fi
if [ -z "$how" ] && command -v sudo >/dev/null 2>&1; then
  sudo -n sh -c 'echo 3 >"$1"' sh "$f" && how=sudo
elif [ -z "$how" ]; then echo "sudo is not installed" >&2; fi
if [ -z "$how" ]; then
  n=nd-drop-$$
  "$1" run --rm --name "$n" --label "$3=1" --pull never --privileged --network none --entrypoint sh "$2" \
    -c 'echo 3 >/proc/sys/vm/drop_caches' >/dev/null && how=container
  "$1" rm -f "$n" >/dev/null 2>&1  # one that was refused stays behind, --rm or not
fi
free
[ -n "$how" ] || exit 1
echo "dropped $how $m0 $m $a0 $a"
"""


@dataclass(frozen=True, slots=True)
class Dropped:
    """One node's result. state: `dropped`, `failed`, `unknown`. how: `root`, `sudo` or `container`. freed_bytes: what
    became free, as MemFree tells."""

    state: str
    how: str = ""
    freed_bytes: int = 0
    detail: str = ""


def wants_drop(recipe: Recipe) -> bool:
    """`[launch] drop_caches = true` in the recipe."""
    return recipe.launch.drop_caches


async def drop_caches(
    fleet: Fleet, cluster: Cluster, image: str, nodes: Iterable[str], *, timeout: float = DROP_S
) -> dict[str, Dropped]:
    """On all nodes at once. Never raises for what a node does; a node that could not says why, in its own words."""
    names = list(nodes)
    results = await asyncio.gather(*(_drop(fleet, cluster, image, n, timeout) for n in names))
    return dict(zip(names, results, strict=True))


async def _drop(fleet: Fleet, cluster: Cluster, image: str, node: str, timeout: float) -> Dropped:
    argv = ["sh", "-c", _DROP, "sh", cli_of(cluster, node), image, LABEL_HELPER]
    try:
        done = await fleet.link(node).run(argv, timeout=timeout)
    except TransportError as error:
        return Dropped("unknown", detail=error.what)
    words = done.stdout.split()
    if done.ok and len(words) >= 6 and words[-6] == b"dropped":
        try:
            freed = (int(words[-3]) - int(words[-4])) * 1024
        except ValueError:
            freed = 0
        return Dropped("dropped", words[-5].decode("ascii", "replace"), max(0, freed))
    said = clean_line("; ".join(telling(done)), limit=400)
    return Dropped("failed", detail=said or f"exit status {done.status}")
