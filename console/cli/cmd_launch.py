"""`launch`, `restart`, `stop`, `smoke`: what changes the nodes."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence

from console.base.errors import ExitCode, UsageError
from console.boot.events import Event, StepChanged, StopSeen
from console.boot.state import STOP_STEPS
from console.boot.to_json import deployment_json, plain
from console.cli.cmd_plan import show_findings, show_plan
from console.cli.follow import Teller, follow_to_ready, tell_notices
from console.cli.out import Out
from console.cli.world import World
from console.plan.to_json import plan_json
from console.recipe.model import SyncImage
from console.services.hub import HubApi
from console.services.launch import LaunchFailed
from console.services.stop import in_words, kept_in

ROLLBACK_GRACE_S = 10.0  # nothing serves; what still loads has nothing to bring to its end


def _may_change(args: argparse.Namespace) -> None:
    if args.read_only:
        raise UsageError(f"`{args.command}` changes nodes, and this is --read-only")


async def launch(args: argparse.Namespace, world: World, out: Out) -> int:
    if args.dry_run:
        async with world.hub(watch=False) as hub:
            made = await hub.plan(args.name, nodes=args.nodes, head=args.head, sync_image=_sync(args))
        if out.as_json:
            out.data({"schema": 1, **plan_json(made)})
        else:
            show_plan(made, out)
        return ExitCode.FAILED if made.blocks else ExitCode.DONE
    _may_change(args)
    async with world.hub(watch=False) as hub:  # nothing is watched before it is there: the nodes have enough to do
        teller = Teller(out)
        quiet = hub.listen(teller.heard)
        try:
            return await _launch(args, hub, out, teller)
        finally:
            quiet()
            teller.flush()
            tell_notices(hub, out)


async def _launch(args: argparse.Namespace, hub: HubApi, out: Out, teller: Teller) -> int:
    try:
        state = await hub.launch(
            args.name,
            nodes=args.nodes,
            head=args.head,
            override=tuple(args.override),
            keep_on_failure=not args.rollback,
            take_over=args.take_over,
            drop_caches=args.drop_caches,
            sync_image=_sync(args),
        )
    except LaunchFailed as failed:
        _tell_nodes(failed.results, out)
        raise
    except asyncio.CancelledError:
        _tell_abort(hub, out)
        raise
    if args.note:
        await hub.note(args.note)
    if args.detach:
        if out.as_json:
            out.data({"schema": 1, "deployments": [deployment_json(state, hub.now())]}, line=True)
        else:
            out.line(f"boot {state.number} of {state.recipe}: every container was started; `nightdeck status` follows")
        return ExitCode.DONE
    await hub.start()
    code = await follow_to_ready(hub, out, state.deployment, teller, kept=not args.rollback)
    if args.rollback and code == ExitCode.FAILED:
        await roll_back(hub, out, state.deployment)
    return code


async def roll_back(hub: HubApi, out: Out, deployment: str) -> None:
    """Save the logs of a launch that failed and remove its containers; one whose log is not saved stays."""
    results = await hub.stop(deployment, grace_s=ROLLBACK_GRACE_S)
    if out.as_json:
        _tell_nodes(results, out, result="rolled_back")
    else:
        out.line(f"rolled back: {in_words(results)}")


def _tell_abort(hub: HubApi, out: Out) -> None:
    """What is true on each node now; a boot that this console did not open is not spoken of."""
    boot = hub.snapshot().boot
    steps = [] if boot is None or boot.adopted else [s for s in boot.steps if s.name.startswith("start")]
    words = {"done": "started", "running": "unknown"}
    results = {n: (words.get(state, state), s.details.get(n, "")) for s in steps for n, state in s.states.items()}
    if any(state in ("started", "unknown") for state, _ in results.values()):
        out.say("aborted; what was started is kept: `nightdeck status` shows it, `nightdeck stop` removes it")
    else:
        out.say("aborted; nothing was started")
    _tell_nodes(results, out, result="aborted")


def _sync(args: argparse.Namespace) -> SyncImage | None:
    """None: as the recipe says."""
    return "differs" if args.sync_image else "never" if args.no_sync_image else None


def _tell_nodes(results: Mapping[str, tuple[str, str]], out: Out, *, result: str = "failed") -> None:
    if out.as_json:
        rows = [{"node": n, "result": r, "detail": d} for n, (r, d) in results.items()]
        out.data({"schema": 1, "result": result, "nodes": rows}, line=True)
        return
    for node, (result, detail) in results.items():
        out.line(f"  {node}: {result.replace('_', ' ')}{': ' + detail if detail else ''}")


async def stop(args: argparse.Namespace, world: World, out: Out) -> int:
    _may_change(args)
    async with world.hub(watch=False) as hub:
        which = "*" if args.all else args.deployment
        seen: dict[str, tuple[str, str]] = {}
        quiet = hub.listen(lambda _, event: heard_of_stop(seen, event))
        try:
            results = await hub.stop(
                which, grace_s=args.grace, take_over=args.take_over, discard_logs=args.discard_logs
            )
        except asyncio.CancelledError:
            tell_cut_stop(seen, [v.node.name for v in hub.snapshot().nodes], out)
            raise
        finally:
            quiet()
        tell_notices(hub, out)
    return tell_stop(results, out)


def heard_of_stop(seen: dict[str, tuple[str, str]], event: Event) -> None:
    """What is known of each node while a stop goes on: its engine's answer, then the look whether nothing is left."""
    if isinstance(event, StopSeen):
        seen[event.node] = (event.result, event.detail)
    elif isinstance(event, StepChanged) and event.step in STOP_STEPS:
        words = {"done": "ended, not verified", "running": "asked, not known"}
        seen[event.node] = (words.get(event.state, event.state), event.detail)


def tell_cut_stop(seen: Mapping[str, tuple[str, str]], nodes: Sequence[str], out: Out) -> None:
    """Interrupted in its midst: what holds on each node, as far as it was heard."""
    rows = {node: seen.get(node, ("not asked yet", "")) for node in nodes}
    out.say("the stop was interrupted; what is known of each node, and `nightdeck stop` goes on with the rest:")
    _tell_nodes(rows, out, result="interrupted")


def tell_stop(results: Mapping[str, tuple[str, str]], out: Out) -> int:
    states = [state for state, _ in results.values()]
    kept = kept_in(results)
    if all(s == "nothing" for s in states):
        word, code = "nothing", ExitCode.DONE
    elif all(s in ("stopped", "nothing") for s in states):
        word, code = "stopped", ExitCode.PARTLY if kept else ExitCode.DONE
    elif "stopped" in states:
        word, code = "partly", ExitCode.PARTLY
    else:
        word, code = "failed", ExitCode.FAILED
    if out.as_json:
        rows = [{"node": n, "result": r, "detail": d} for n, (r, d) in results.items()]
        out.data({"schema": 1, "result": word, "kept": list(kept), "nodes": rows})
    else:
        out.line(in_words(results))
        if kept:
            out.say("`nightdeck stop --all` saves and removes them once it can; --discard-logs removes them unsaved")
    return code


async def restart(args: argparse.Namespace, world: World, out: Out) -> int:
    _may_change(args)
    async with world.hub(watch=False) as hub:
        teller = Teller(out)
        quiet = hub.listen(teller.heard)
        try:
            state = await hub.restart(
                args.name,
                nodes=args.nodes,
                head=args.head,
                override=tuple(args.override),
                grace_s=args.grace,
                take_over=args.take_over,
                discard_logs=args.discard_logs,
                told=lambda lines: _tell_changes(lines, out),
            )
            if args.note:
                await hub.note(args.note)
            if args.detach:
                if out.as_json:
                    out.data({"schema": 1, "deployments": [deployment_json(state, hub.now())]}, line=True)
                return ExitCode.DONE
            await hub.start()
            return await follow_to_ready(hub, out, state.deployment, teller)
        except LaunchFailed as failed:
            _tell_nodes(failed.results, out)
            raise
        except asyncio.CancelledError:
            _tell_abort(hub, out)
            raise
        finally:
            quiet()
            teller.flush()
            tell_notices(hub, out)


def _tell_changes(lines: Sequence[str], out: Out) -> None:
    """What a restart changes, before it begins."""
    if out.as_json:
        changed = [line.strip() for line in lines[1:]]
        out.data({"event": "restart_changes", "text": lines[0], "changed": changed}, line=True)
        return
    for line in lines:
        out.line(line)
    out.flush()


async def smoke(args: argparse.Namespace, world: World, out: Out) -> int:
    async with world.hub(watch=False) as hub:
        result = await hub.smoke()
    if out.as_json:
        out.data({"schema": 1, **plain(result)})
    else:
        out.line(f"ok: {result['text']}" if result["ok"] else f"not ok: {result['why']}")
        if result.get("text") and not result["ok"]:
            out.line(f"  the answer: {result['text']}")
        if result.get("first_token_s") is not None and result.get("tokens_per_s") is not None:
            out.line(f"  first token {result['first_token_s']:.2f} s, {result['tokens_per_s']:.1f} tokens/s")
        for note in result.get("notes", ()):
            out.line(f"  note: {note}")
    return ExitCode.DONE if result["ok"] else ExitCode.FAILED


__all__ = ["launch", "restart", "show_findings", "smoke", "stop", "tell_stop"]
