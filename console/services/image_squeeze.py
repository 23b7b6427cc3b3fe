"""Compressing an image on its way through the console, where the way is slower than compressing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from console.transport.base import Fleet, TransportError

ASK_S: Final = 10.0
SAMPLE_BYTES: Final = 4 << 20
SAMPLE_S: Final = 20.0
# zstd -1 on one core takes in 300-500 MB/s, and an image's libraries shrink to about half [inf]: below this rate for
# each receiver the link is what is waited for.
PAYS_BELOW: Final = 200e6
# $1: container CLI, $2: image. A pipeline's status is its last command's; here that of the first counts too.
_SAVE: Final = (
    'exec 3>&1; status=$( { { "$1" save "$2" 4>&-; echo $? >&4; } | zstd -q -1 -c >&3 4>&-; } 4>&1 ); '
    'exit "${status:-1}"'
)
# $1: container CLI. A stream that was cut off makes zstd fail, and what it gave by then has no manifest at its end.
_LOAD: Final = 'zstd -q -d -c | "$1" load'


def save_argv(cli: str, image: str, *, squeezed: bool) -> list[str]:
    return ["sh", "-c", _SAVE, "sh", cli, image] if squeezed else [cli, "save", image]


def load_argv(cli: str, *, squeezed: bool) -> list[str]:
    return ["sh", "-c", _LOAD, "sh", cli] if squeezed else [cli, "load"]


async def pays(
    fleet: Fleet, source: str, nodes: Sequence[str], *, now: Callable[[], float] = time.monotonic
) -> tuple[bool, str]:
    """Whether to compress what goes from `source` through the console to so many nodes at once, and why (not)."""
    tools = await asyncio.gather(*(_has_zstd(fleet, n) for n in (source, *nodes)))
    lack = [n for n, has in zip((source, *nodes), tools, strict=True) if not has]
    if lack:
        return False, f"no zstd on {', '.join(lack[:3])}"
    rate = await _rate(fleet, source, now)
    if rate is None:
        return False, f"the way to {source} could not be measured"
    each = rate / max(1, len(nodes))
    return each < PAYS_BELOW, f"{each / 1e6:.0f} MB/s for each node"


async def _has_zstd(fleet: Fleet, node: str) -> bool:
    try:
        done = await fleet.link(node).run(["sh", "-c", "command -v zstd >/dev/null"], timeout=ASK_S)
    except TransportError:
        return False
    return done.ok


async def _rate(fleet: Fleet, source: str, now: Callable[[], float]) -> float | None:
    """Bytes/s from the node to the console, without the time until the first byte."""
    got, began, ended = 0, 0.0, 0.0
    argv = ["head", "-c", str(SAMPLE_BYTES), "/dev/urandom"]
    try:
        async with asyncio.timeout(SAMPLE_S), fleet.link(source).stream(argv) as stream:
            async for block in stream.blocks():
                if not got:
                    began = now()
                got += len(block)
                ended = now()
    except (TransportError, TimeoutError):
        return got / SAMPLE_S if got else None
    return got / max(ended - began, 1e-3) if got > SAMPLE_BYTES // 2 else None
