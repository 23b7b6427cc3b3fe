"""`controls`: who may change the nodes now; ask for that, take it, give it back."""

from __future__ import annotations

import argparse
import asyncio

from console.base.errors import ExitCode, UsageError
from console.boot.to_json import stamp
from console.cli.out import Out
from console.cli.world import World
from console.services.hub import ControlsView, HubApi
from console.services.lease import LeaseHeld


async def controls(args: argparse.Namespace, world: World, out: Out) -> int:
    if args.read_only and (args.ask or args.take_over or args.release):
        raise UsageError("this is --read-only: it can only look who has the controls")
    async with world.hub(watch=False) as hub:
        seen = await hub.look_at_controls()
        if args.ask:
            return await _ask(hub, args.wait, out)
        if args.take_over or args.release:
            return await _end(hub, seen, args, out)
    _show(seen, out)
    return ExitCode.FAILED if seen.state == "unknown" else ExitCode.DONE


def _show(seen: ControlsView, out: Out, *, result: str = "") -> None:
    if out.as_json:
        out.data(
            {
                "schema": 1,
                "state": seen.state,
                "holder": seen.holder or None,
                "asked_by": list(seen.asked_by),
                "at": stamp(seen.at) if seen.at is not None else None,
                "why": seen.why or None,
                "result": result or None,
            }
        )
        return
    words = {"free": "nobody has the controls", "unknown": "it is not known who has the controls"}
    out.line(result or words.get(seen.state, f"{seen.holder} has the controls"))
    if seen.why:
        out.line(f"  not asked: {seen.why}")


async def _ask(hub: HubApi, wait_s: float, out: Out) -> int:
    """Until they were handed over. This command holds them no longer than that: the next one takes them."""
    news = asyncio.Event()
    quiet = hub.subscribe(news.set)
    try:
        seen = await hub.ask_controls()
        if seen.state == "asking":
            out.say(f"asked {seen.holder or 'the holder'}; waiting up to {wait_s:.0f} s (Ctrl-C withdraws it)")
        try:
            async with asyncio.timeout(wait_s):
                while (seen := hub.snapshot().controls).state == "asking":
                    news.clear()
                    await news.wait()
        except TimeoutError:
            seen = await hub.release_controls()
            _show(
                seen, out, result=f"not handed over in {wait_s:.0f} s: {seen.holder or 'the holder'} has the controls"
            )
            return ExitCode.NOT_READY
        if seen.state != "mine":
            _show(seen, out, result=f"not handed over: {seen.why or seen.holder}")
            return ExitCode.FAILED
        _show(await hub.release_controls(), out, result="the controls were handed over; nobody has them now")
        return ExitCode.DONE
    finally:
        quiet()


async def _end(hub: HubApi, seen: ControlsView, args: argparse.Namespace, out: Out) -> int:
    """End another's hold: anybody's knowingly, or with --release only one's own from another terminal."""
    if seen.state == "free":
        _show(seen, out)
        return ExitCode.DONE
    if args.release and not seen.holder.startswith(f"{hub.by},"):
        raise UsageError(
            f"the controls are not yours to release: {seen.holder} has them", remedy="--ask, or --take-over"
        )
    try:
        await hub.hold_controls(take_over=True)
    except LeaseHeld as held:
        raise LeaseHeld(held.node, f"{held.holder} (it did not let go, and could not be ended from here)") from held
    how = f"taken from {seen.holder}" if args.take_over else f"released ({seen.holder})"
    _show(await hub.release_controls(), out, result=f"the controls were {how}; nobody has them now")
    return ExitCode.DONE
