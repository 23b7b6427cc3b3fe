"""`export`: figures for a Prometheus; `record`: a session into a file."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from console.base.errors import ExitCode
from console.boot.events import Event, RankProgress, StatsSeen
from console.cli.out import Out
from console.cli.times import clock
from console.cli.world import World
from console.services.export import Exporter
from console.services.openmetrics import openmetrics


async def export(args: argparse.Namespace, world: World, out: Out) -> int:
    """Serve until interrupted."""
    async with (
        world.hub() as hub,
        Exporter(lambda: openmetrics(hub.snapshot(), hub.now()), args.listen, args.port) as server,
    ):
        host = f"[{args.listen}]" if ":" in args.listen else args.listen
        out.say(f"http://{host}:{server.port}/metrics")
        if args.listen not in ("127.0.0.1", "::1", "localhost"):
            out.say("nightdeck: whoever reaches this address can read these figures: there is no password")
        await asyncio.Event().wait()
    return ExitCode.DONE


async def record(args: argparse.Namespace, world: World, out: Out) -> int:
    """Record until interrupted; the file is whole at every moment."""
    path = Path(args.file)
    async with world.hub(record=path) as hub:

        def heard(deployment: str, event: Event) -> None:
            if not isinstance(event, (RankProgress, StatsSeen)):
                out.say(f"{clock(event.at)} {deployment}: {type(event).__name__}")

        hub.listen(heard)
        out.say(f"recording into {path}; interrupt to end it, `nightdeck replay {path}` shows it")
        await asyncio.Event().wait()
    return ExitCode.DONE
