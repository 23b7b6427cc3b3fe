"""nightdeck's own figures with the console already open: what an operator waits for after a key."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from console.assemble import DiskWorld
from console.boot.state import Phase
from console.cli.parser import build_parser
from console.services.console_hub import ConsoleHub
from console.services.hub import HubApi, Snapshot
from tests.bench.ground import Ground
from tests.bench.limits import bare, cleared
from tests.bench.measure import Measure, Unmeasurable
from tests.bench.own import RECIPE, nightdeck, overridden
from tests.testbed.host import Host

GUARDS_TOLD_S = 3.0
PROBES_AT_REST_S = 2.0  # a probe's first look at everything is its dearest
MODEL = "deepseek-ai/DeepSeek-V4.1-Flash"


@dataclass(slots=True)
class _Open:
    """The hub that is open between `before` and `after`."""

    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    hub: HubApi | None = None


_open = _Open()


def _world(ground: Ground) -> DiskWorld:
    home = ground.bed.folder / "hub-home"
    os.environ |= {"NIGHTDECK_STATE_DIR": f"{home}/state", "NIGHTDECK_CONFIG_DIR": f"{home}/config"}
    args: argparse.Namespace = build_parser().parse_args(["--cluster", str(ground.bed.cluster_toml()), "status"])
    return DiskWorld(args)


async def _until(hub: HubApi, wanted: Callable[[Snapshot], bool], what: str, seconds: float = 30) -> None:
    changed = asyncio.Event()
    quiet = hub.subscribe(changed.set)
    try:
        async with asyncio.timeout(seconds):
            while not wanted(hub.snapshot()):
                await changed.wait()
                changed.clear()
    except TimeoutError:
        raise Unmeasurable(f"no {what} in {seconds:.0f} s") from None
    finally:
        quiet()


def hub() -> HubApi:
    assert _open.hub is not None
    return _open.hub


async def watched(ground: Ground) -> None:
    """The console is open for a moment, every node has spoken, the plan has been looked at."""
    await overridden(ground)
    _open.hub = await _open.stack.enter_async_context(_world(ground).hub())
    await hub().settled(timeout=30)
    await hub().plan(RECIPE)
    await asyncio.sleep(PROBES_AT_REST_S)


async def gone(ground: Ground) -> None:
    await _open.stack.aclose()
    _open.stack, _open.hub = AsyncExitStack(), None
    await cleared(ground)


async def _start(ground: Ground) -> None:
    codes = (ground.overrides or [])[1::2]
    await hub().launch(RECIPE, override=codes)


async def launched(ground: Ground) -> None:
    await watched(ground)
    await _start(ground)


async def serving(ground: Ground) -> None:
    await launched(ground)
    await _until(hub(), lambda s: s.boot is not None and s.boot.phase is Phase.READY, "ready")


async def settled(ground: Ground) -> None:
    """A deployment as it is stopped in life: it serves, and what follows a launch (logs read, guards told) is done."""
    await serving(ground)
    opened = hub()
    assert isinstance(opened, ConsoleHub)
    await opened.vigil.guards_stand()
    await _until(opened, lambda s: s.boot is not None and all(r.lines for r in s.boot.ranks), "line of every rank")
    await asyncio.sleep(GUARDS_TOLD_S)


async def launch(ground: Ground) -> float:
    """From the key that confirms to the last container's start."""
    start = time.perf_counter()
    await _start(ground)
    return time.perf_counter() - start


async def stop(ground: Ground) -> float:
    """From the key that confirms to the last node's word that nothing is left."""
    start = time.perf_counter()
    results = await hub().stop()
    if {state for state, _ in results.values()} != {"stopped"}:
        raise Unmeasurable(f"the stop said {results}")
    return time.perf_counter() - start


async def serving_and_open(ground: Ground) -> None:
    await serving(ground)
    await ground.open()


async def restart(ground: Ground) -> float:
    """From the key that confirms to the last container's start."""
    codes = (ground.overrides or [])[1::2]
    start = time.perf_counter()
    await hub().restart(RECIPE, override=codes, grace_s=10.0)
    return time.perf_counter() - start


async def restart_adds(ground: Ground) -> float:
    """What a restart takes beyond its bare commands: the same stops, removals and starts in the same order, on open
    connections, while the same console watches. Both end the engine by itself, and start it with the same words."""
    ours = await restart(ground)
    shown = hub().snapshot().boot
    assert shown is not None
    await _until(hub(), lambda s: s.boot is not None and s.boot.phase is Phase.READY, "ready")
    plan = await hub().plan(RECIPE)
    old = {r.rank: r.container for r in shown.ranks}
    workers = [r.rank for r in plan.ranks if not r.is_head]
    argv = {r.rank: r.argv for r in plan.ranks}
    start = time.perf_counter()
    await bare(ground.connections[0], ["docker", "stop", "-t", "10", old[0]])
    await asyncio.gather(*(bare(ground.connections[r], ["docker", "stop", "-t", "10", old[r]]) for r in workers))
    await asyncio.gather(*(bare(ground.connections[r], ["docker", "rm", "-f", "-v", old[r]]) for r in old))
    await asyncio.gather(*(bare(ground.connections[r], argv[r]) for r in workers))
    await bare(ground.connections[0], argv[0])
    return ours - (time.perf_counter() - start)


async def first_samples(ground: Ground) -> float:
    """From nothing to memory, load and GPU of eight nodes: connecting included."""
    world = _world(ground)
    start = time.perf_counter()
    async with world.hub() as hub:
        await _until(hub, lambda s: all(v.sample for v in s.nodes), "sample of every node")
        return time.perf_counter() - start


async def status(ground: Ground) -> float:
    seconds, code, _, said = await nightdeck(ground, "status")
    if code != 0:
        raise Unmeasurable(f"`nightdeck status` ended with {code}: {said.strip()[-120:]}")
    return seconds


async def death(ground: Ground) -> float:
    """From the signal that kills a rank's process on its node to the console's word that the boot has failed."""
    victim = ground.bed[6]
    start = time.perf_counter()
    await asyncio.to_thread(_kill, victim)
    await _until(
        hub(), lambda s: s.boot is not None and s.boot.phase in (Phase.DEGRADED, Phase.FAILED), "word of the death"
    )
    return time.perf_counter() - start


def _kill(host: Host) -> None:
    status, said = host.docker_api("POST", f"/containers/{host.containers()[0]}/kill")
    if status >= 300:
        raise RuntimeError(f"{host.name}: {said!r}")


LAUNCH = (Measure("nightdeck, console open: launch", launch, watched, gone),)
RESTART = (
    Measure("nightdeck, console open: restart", restart, serving, gone),
    Measure("nightdeck, console open: what a restart adds", restart_adds, serving_and_open, gone),
)
STOP = (Measure("nightdeck, console open: stop", stop, settled, gone),)
WATCH = (
    Measure("nightdeck: first sample of eight nodes, cold", first_samples),
    Measure("nightdeck status, from the prompt", status),
    Measure("nightdeck: a rank's death to the word of it", death, serving, gone),
)
