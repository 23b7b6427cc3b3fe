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
BUSY: Final = 0.75  # runnable tasks for each core: above it the processors are what is waited for, not the link
_ASK: Final = "command -v zstd >/dev/null && read -r load _ </proc/loadavg && echo $load $(nproc)"
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
    for why in await asyncio.gather(*(_against(fleet, n) for n in (source, *nodes))):
        if why:
            return False, why
    rate = await _rate(fleet, source, now)
    if rate is None:
        return False, f"the way to {source} could not be measured"
    each = rate / max(1, len(nodes))
    return each < PAYS_BELOW, f"{each / 1e6:.0f} MB/s for each node"


async def _against(fleet: Fleet, node: str) -> str:
    """Why this node should not compress; empty where nothing speaks against it."""
    try:
        done = await fleet.link(node).run(["sh", "-c", _ASK], timeout=ASK_S)
    except TransportError as error:
        return error.what
    words = done.stdout.split()
    if not done.ok or len(words) != 2:
        return f"no zstd on {node}"
    try:
        busy = float(words[0]) / max(1, int(words[1]))
    except ValueError:
        return f"{node} does not say how busy it is"
    return f"{node} is busy" if busy > BUSY else ""


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
