"""`status`, `logs`: what runs, how the nodes are, what the ranks say."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from console.base.absent import Absent, known
from console.base.errors import ExitCode, UsageError
from console.base.units import duration, size_text
from console.boot.awaited import awaited
from console.boot.figures import elapsed_text, ready_by, ready_seconds, ready_text
from console.boot.state import BootState
from console.boot.to_json import deployment_json, stamp
from console.boot.words import expected_now, out_of_sight, phase_word, stage_now, victims_in_words
from console.cli.follow import tell_notices
from console.cli.guard_lines import guard_json, guard_lines
from console.cli.out import Out
from console.cli.times import clock, minute
from console.cli.world import World
from console.files.night_store import NightStore
from console.services.helpers import Helper
from console.services.hub import HubApi, LogLine, NodeView, Snapshot
from console.services.night_cut import told
from console.services.stop import said_of
from console.telemetry.freshness import Freshness, State
from console.telemetry.to_json import node_json

SETTLE_S = 20.0


def node_rows(snap: Snapshot) -> list[dict[str, object]]:
    """`nodes[]` of `top` and `status`."""
    out: list[dict[str, object]] = []
    for view in snap.nodes:
        age = None if isinstance(view.age_s, Absent) else view.age_s
        # Before the first sample nothing is known of the node: for a script that is `lost` with its reason.
        state = State.LOST if view.state == "waiting" else State(view.state)
        why = view.why or ("no sample yet" if age is None else "")
        row = node_json(
            view.node.name, Freshness(state, age, why), None if isinstance(view.sample, Absent) else view.sample
        )
        row["remedy"] = view.remedy or None
        row["rank"] = view.rank
        out.append(row)
    return out


async def status(args: argparse.Namespace, world: World, out: Out) -> int:
    async with world.hub(follow=False) as hub:
        await hub.settled(timeout=SETTLE_S)
        helpers = await hub.helpers()
        snap = hub.snapshot()
        now = hub.now()
        tell_notices(hub, out)
    if cut := told(NightStore(world.state_folder / "nights"), world.now()):
        out.say(cut)
    if out.as_json:
        boots = [_with_guards(deployment_json(b, now), snap) for b in snap.boots]
        beside = {"helpers": _helpers_json(helpers), "helpers_why": _unknown_helpers(helpers)}
        out.data({"schema": 1, "at": stamp(now), "deployments": boots, **beside, "nodes": node_rows(snap)})
        return ExitCode.DONE
    if not snap.boots:
        silent = {v.node.name: why for v in snap.nodes if (why := _cannot_say(v))}
        if silent:
            left = len(snap.nodes) - len(silent)
            where = f"no deployment on the {left} node{'s' if left != 1 else ''} that could say"
            out.line(where if left else "no node could say what runs on it")
            for name, why in silent.items():
                out.line(f"  not known of {said_of(name, why)}")
        else:
            out.line(f"no deployment on any of {len(snap.nodes)} nodes")
    for boot in snap.boots:
        _tell_boot(boot, now, out)
    _tell_helpers(helpers, now, out)
    for line in guard_lines(snap):
        out.line(line)
    _tell_nodes(snap, out)
    return ExitCode.DONE


def _helpers_json(found: Mapping[str, tuple[Helper, ...] | Absent]) -> list[dict[str, Any]]:
    rows = [h for helpers in found.values() if not isinstance(helpers, Absent) for h in helpers]
    return [
        {"node": h.node, "container": h.name, "what": h.what, "state": h.state, "started_at": stamp(h.started_at)}
        for h in rows
    ]


def _unknown_helpers(found: Mapping[str, tuple[Helper, ...] | Absent]) -> dict[str, str]:
    """Why a node that answers cannot say which helpers it has."""
    return {node: helpers.reason for node, helpers in found.items() if isinstance(helpers, Absent)}


def _tell_helpers(found: Mapping[str, tuple[Helper, ...] | Absent], now: float, out: Out) -> None:
    """What of ours runs beside a deployment, and what a console that died left; `stop --all` removes them."""
    for helpers in found.values():
        for h in () if isinstance(helpers, Absent) else helpers:
            since = "" if h.started_at is None else f", for {duration(max(0.0, now - h.started_at))}"
            state = since if h.state == "running" else f", {h.state or 'state not told'}"
            out.line(f"helper on {h.node}: {h.name} {h.what}{state}")
    for node, why in _unknown_helpers(found).items():
        out.line(f"helpers on {node}: not known: {why}")


def _with_guards(row: dict[str, Any], snap: Snapshot) -> dict[str, Any]:
    """The deployment with the memory guard of each rank."""
    for rank in row["ranks"]:
        rank["guard"] = guard_json(snap, row["deployment"], rank["rank"], rank["node"])
    return row


def _cannot_say(view: NodeView) -> str:
    """Why a node cannot tell what runs on it: no answer, or a container engine that gives none."""
    if view.trouble:
        return view.why
    found = view.sample.containers if not isinstance(view.sample, Absent) else view.sample
    return found.reason if isinstance(found, Absent) else found.why


def _tell_boot(boot: BootState, now: float, out: Out) -> None:
    out.line(
        f"boot {boot.number}  {boot.recipe}  {phase_word(boot)}  {elapsed_text(boot, now)} of "
        f"{duration(boot.deadline_s)}  {boot.title}"
    )
    if boot.ready_at is not None:
        out.line(f"  ready     after {ready_text(ready_seconds(boot), ready_by(boot))}")
    if boot.ready_at is None and not boot.phase.over and (text := expected_now(boot, minute)):
        out.line(f"  expected  {text}")
    if boot.half_stopped:
        for node, (result, detail) in boot.stop_results.items():
            if result not in ("stopped", "nothing"):
                words = f"{result.replace('_', ' ')}{': ' + detail if detail else ''}"
                out.line(f"  {node}: {words}; `nightdeck stop` asks again")
    if boot.failed_why:
        out.line(f"  failed    {boot.failed_why}")
    if boot.cause is not None:
        if boot.cause.who:
            fell = victims_in_words(boot.cause, [r.rank for r in boot.ranks])
            out.line(f"  who       {'; '.join(part for part in (boot.cause.who, fell) if part)}")
        out.line(f"  why       {boot.cause.sentence}")
        out.line(f"  what now  {boot.cause.action}")
    if boot.smoke_why:
        out.line(f"  request   {boot.smoke_why}")
    if waiting := awaited(boot, now):
        out.line(f"  waiting   {waiting.sentence}")
    if unseen := out_of_sight(boot):
        out.line(f"  unseen    {unseen}")
    for note in boot.smoke_notes:
        out.line(f"  note      {note}")
    rows = []
    for r in boot.ranks:
        state = r.status or "not seen"
        if not r.reachable:
            state = f"unknown (was {r.status})" if r.status else "unknown"
        if r.exit_code is not None:
            state += f" {r.exit_code}"
        at, _, inferred = stage_now(boot, r)
        stage = "-" if at is None else f"{at.word}, inferred" if inferred else at.word
        percent = "" if r.progress is None or at is not r.stage else f"{100 * r.progress:.0f} %"
        age = "" if r.last_line_at is None else duration(now - r.last_line_at)
        rows.append([str(r.rank), r.node, r.container, state, stage, percent, age])
    out.table(["rank", "node", "container", "state", "stage", "done", "last line"], rows, right=[0, 5, 6])


def _tell_nodes(snap: Snapshot, out: Out) -> None:
    out.table(
        ["node", "state", "age", "used", "available", "page cache", "gpu", "temp", "power", "load", ""],
        [node_cells(v) for v in snap.nodes],
        right=[2, 3, 4, 5, 6, 7, 8],
    )


def node_cells(view: NodeView) -> list[str]:
    """A node as a row of `status` and `top`."""
    age = "n/a" if isinstance(view.age_s, Absent) else f"{view.age_s:.0f} s"
    s = view.sample
    if isinstance(s, Absent):
        return [view.node.name, view.state, age, *["n/a"] * 7, f"{view.why}{'; ' + view.remedy if view.remedy else ''}"]
    gpu = s.gpus[0] if known(s.gpus) and s.gpus else None

    def figure(value: float | Absent | None, unit: str) -> str:
        return "n/a" if value is None or isinstance(value, Absent) else f"{value:.0f}{unit}"

    def size(value: int | Absent) -> str:
        return "n/a" if isinstance(value, Absent) else size_text(value)

    load = s.cpu.load1
    return [
        view.node.name,
        view.state,
        age,
        size(s.memory.used_bytes),
        size(s.memory.available_bytes),
        size(s.memory.page_cache_bytes),
        figure(gpu.util_percent if gpu else None, " %"),
        figure(gpu.temp_c if gpu else None, " °C"),
        figure(gpu.power_w if gpu else None, " W"),
        "n/a" if isinstance(load, Absent) else f"{load:.1f}",
        view.why,
    ]


async def logs(args: argparse.Namespace, world: World, out: Out) -> int:
    async with world.hub(follow=args.follow) as hub:
        if not args.follow:
            await hub.settled(timeout=60.0)
            return _all_lines(args, hub, out)
        changed = asyncio.Event()
        unsubscribe = hub.subscribe(changed.set)
        try:
            await hub.settled(timeout=SETTLE_S)
            _need_boot(hub)
            position = 0
            while True:
                changed.clear()
                position = _pour(args, hub, out, position)
                await changed.wait()
        finally:
            unsubscribe()


def _need_boot(hub: HubApi) -> None:
    if hub.snapshot().boot is None:
        raise UsageError("no deployment on any node that answered", remedy="`nightdeck boots` lists what was kept")


def _all_lines(args: argparse.Namespace, hub: HubApi, out: Out) -> int:
    _need_boot(hub)
    lines: list[LogLine] = []
    position = 0
    while True:
        batch = hub.log(position)
        lines += [line for line in batch.lines if args.rank is None or line.rank == args.rank]
        if batch.next_seq == position or not batch.lines:
            break
        position = batch.next_seq
    lines.sort(key=lambda entry: (entry.at, entry.seq))
    if args.tail is not None:
        lines = _last_of_each(lines, args.tail)
    for line in lines:
        _print(line, out)
    out.flush()
    return ExitCode.DONE


def _last_of_each(lines: Sequence[LogLine], count: int) -> list[LogLine]:
    left: dict[int, int] = {}
    kept: list[LogLine] = []
    for line in reversed(lines):
        if left.get(line.rank, 0) < count:
            left[line.rank] = left.get(line.rank, 0) + 1
            kept.append(line)
    return kept[::-1]


def _pour(args: argparse.Namespace, hub: HubApi, out: Out, position: int) -> int:
    while True:
        batch = hub.log(position)
        for line in batch.lines:
            if args.rank is None or line.rank == args.rank:
                _print(line, out)
        if not batch.lines:
            out.flush()
            return batch.next_seq
        position = batch.next_seq


def _print(line: LogLine, out: Out) -> None:
    if out.as_json:
        out.data(
            {
                "rank": line.rank,
                "node": line.node,
                "at": stamp(line.at),
                "level": line.level or None,
                "process": line.process or None,
                "text": line.text,
            },
            line=True,
        )
    else:
        out.line(f"r{line.rank} {line.node} {clock(line.at, millis=True)} {line.text}")
