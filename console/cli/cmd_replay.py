"""`replay`: a recording or a boot of the ledger, in the console, or its telling events as text."""

from __future__ import annotations

import argparse

from console.base.errors import ExitCode
from console.base.units import duration
from console.boot.events import Event
from console.boot.to_json import event_json
from console.cli.out import Out
from console.cli.world import World
from console.services.replay import TELLING


async def events(args: argparse.Namespace, world: World, out: Out) -> int:
    """`replay WHAT --events`: every telling event with its time in the recording."""
    hub = world.replay(args.what)

    def heard(deployment: str, event: Event) -> None:
        if not isinstance(event, TELLING):
            return
        if out.as_json:
            out.data({"position_s": round(hub.position, 3), "deployment": deployment, **event_json(event)}, line=True)
        else:
            row = event_json(event)
            words = [
                f"{k} {v}" for k, v in row.items() if k not in ("event", "at") and isinstance(v, (str, int)) and v != ""
            ]
            out.line(f"{duration(hub.position):>9}  {str(row['event']).replace('_', ' ')}  {'  '.join(words[:6])}")

    hub.listen(heard)
    while await hub.jump():
        out.flush()
    if hub.damage or hub.replaying.why:
        out.say(f"{args.what}: {hub.damage or hub.replaying.why}")
    return ExitCode.DONE
