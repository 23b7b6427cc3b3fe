"""Every GPU under load for a few seconds before a launch, in containers of the recipe's own image."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from console.base.absent import Absent
from console.base.text import decode
from console.cluster.model import Cluster
from console.plan.preflight_load import Loaded
from console.services.engine_words import last_words
from console.services.helpers import HELPER_ARGS
from console.services.images import cli_of
from console.telemetry.pick import amount
from console.transport.base import Completed, Fleet, Link, TransportError

LOAD_S: Final = 6  # seconds of work; a clock settles within two
LIMIT_S: Final = 120.0  # importing torch takes 10-40 s where it is not in the page cache
BUSY: Final = 50.0  # percent
# What runs in the container: products of 8192 x 8192 in bf16, 384 MiB of memory beside CUDA's own.
PROGRAM: Final = """\
import sys, time
import torch
n = 8192
a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
for _ in range(3):
    a @ b
torch.cuda.synchronize()
count, begun = 0, time.monotonic()
while time.monotonic() - begun < float(sys.argv[1]):
    for _ in range(5):
        a @ b
    torch.cuda.synchronize()
    count += 5
print("burn %.2f" % (2 * n**3 * count / (time.monotonic() - begun) / 1e12))
"""
# "$@": the command. While it runs, a line of nvidia-smi twice a second.
_WATCH: Final = (
    '"$@" & c=$!; i=0; while kill -0 $c 2>/dev/null && [ $i -lt 240 ]; do i=$((i+1)); nvidia-smi '
    "--query-gpu=clocks.sm,power.draw,utilization.gpu,name --format=csv,noheader,nounits 2>/dev/null | "
    "sed 's/^/smi /'; sleep 0.5; done; wait $c"
)


async def load_gpus(
    fleet: Fleet, cluster: Cluster, image: str, gpus: str, nodes: Iterable[str]
) -> dict[str, Loaded | Absent]:
    """On all nodes at once. Never raises for what a node does. Only for nodes on which nothing else works."""
    names = list(nodes)
    found = await asyncio.gather(*(_load(fleet.link(n), cli_of(cluster, n), image, gpus) for n in names))
    return dict(zip(names, found, strict=True))


async def _load(link: Link, cli: str, image: str, gpus: str) -> Loaded | Absent:
    name = f"nd-load-{secrets.token_hex(4)}"
    argv = [cli, "run", "--rm", "--name", name, *HELPER_ARGS, "--pull", "never", "--network", "none", "--gpus", gpus]
    argv += ["--entrypoint", "python3", image, "-c", PROGRAM, str(LOAD_S)]
    try:
        done = await link.run(["sh", "-c", _WATCH, "sh", *argv], timeout=LIMIT_S)
    except TransportError as error:
        return Absent(error.what)
    finally:
        await asyncio.shield(_remove(link, cli, name))  # ending its client does not end a container
    return read_load(done)


async def _remove(link: Link, cli: str, name: str) -> None:
    with contextlib.suppress(TransportError):  # the node went away: nothing can be removed there now
        await link.run([cli, "rm", "-f", name], timeout=15.0)


def read_load(done: Completed) -> Loaded | Absent:
    """Never raises, whatever was printed."""
    rate: float | None = None
    rows: list[Sequence[str]] = []
    for line in decode(done.stdout).splitlines():
        word, _, rest = line.partition(" ")
        if word == "burn":
            rate = _number(rest)
        elif word == "smi":
            rows.append([part.strip() for part in rest.split(", ", 3)])
    if not done.ok or rate is None:
        return Absent(f"the GPU could not be loaded: {last_words(done) or f'exit status {done.status}'}")
    busy = [row for row in rows if len(row) == 4 and (_number(row[2]) or 0.0) >= BUSY]
    return Loaded(
        rate,
        _middle([row[0] for row in busy], "no sample was taken under load"),
        _middle([row[1] for row in busy], "nvidia-smi does not tell the power"),
        busy[-1][3] if busy else "",
    )


def _middle(texts: Iterable[str], why: str) -> float | Absent:
    values = [v for v in map(_number, texts) if v is not None]
    return statistics.median(values) if values else Absent(why)


def _number(text: str) -> float | None:
    value = amount(text)
    return value if value is not None and value < 1e9 else None


def summary(loads: Mapping[str, Loaded | Absent]) -> str:
    """One line for people; empty where nothing was measured."""
    told = [f"{node} {load.words}" for node, load in loads.items() if isinstance(load, Loaded)]
    return "GPUs under load: " + "; ".join(told) if told else ""
