"""`alarms`: which rules there are and what they are set to, what holds now, and a test of the ways out."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Final

from console.base.absent import Absent
from console.base.errors import ExitCode
from console.base.findings import Severity
from console.boot.words import bare
from console.cli.cmd_status import SETTLE_S
from console.cli.out import Out
from console.cli.times import clock
from console.cli.world import World
from console.services.alarms import measure_text
from console.services.hub import Snapshot
from console.services.ways_out import alarm_json, make_ways, send
from console.telemetry.alarm_rules import CODES, HAPPENINGS, AlarmPolicy
from console.telemetry.alarms import Alarm

LOOK_S: Final = 0.25
LOST_S: Final = 13.0  # where the rule that would say so is off
GROW: Final = ("stalled", "rdma-errors", "guard-missing")


def rule_rows(policy: AlarmPolicy) -> list[dict[str, object]]:
    """Every alarm there is, as it is set: code, severity, what raises it and what clears it."""
    levels = {r.code: r for r in policy.levels()}
    rows: list[dict[str, object]] = []
    for code in CODES:
        rule = levels.get(code)
        happening = policy.happening(code)
        if rule is not None:
            sign = "below" if rule.enter < rule.leave else "above"
            back = "from" if rule.enter < rule.leave else "down to"
            if rule.measure == "gpu_latched":  # a yes or no
                sign, back = "", "when"
            when = f"{sign} {measure_text(rule.measure, rule.enter)}".strip()
            hold = f" for {rule.hold_s:.0f} s" if rule.hold_s else ""
            clears = f"{back} {measure_text(rule.measure, rule.leave)}{hold}"
            rows.append(
                {
                    "code": code,
                    "severity": str(rule.severity),
                    "measure": rule.measure,
                    "when": when + hold,
                    "clears": clears,
                    "message": rule.message,
                }
            )
        elif happening is not None:
            clears = "" if happening.lasts_s is None else f"after {happening.lasts_s:.0f} s"
            row = {"code": code, "severity": str(happening.severity), "measure": None, "when": "it happens"}
            rows.append({**row, "clears": clears or "when it is over", "message": happening.message})
        else:
            what = next((h.message for h in HAPPENINGS if h.code == code), "")
            rows.append({"code": code, "severity": "off", "measure": None, "when": "", "clears": "", "message": what})
    return rows


async def rules(args: argparse.Namespace, world: World, out: Out) -> int:
    """`alarms`, `alarms now`, `alarms test [WAY]`."""
    if args.alarms_command == "test":
        return await test(args, world, out)
    if args.alarms_command == "now":
        return await now(args, world, out)
    policy = world.settings().alarms
    rows = rule_rows(policy)
    ways = make_ways(policy.ways, write=_write, env={})
    if out.as_json:
        data = {"schema": 1, "enabled": policy.enabled, "tell_from": str(policy.tell_from), "rules": rows}
        out.data({**data, "ways": [{"name": w.name, "where": w.where} for w in ways]})
        return ExitCode.DONE
    if not policy.enabled:
        out.line("alarms are switched off in settings.toml")
    keys = ("code", "severity", "when", "clears", "message")
    out.table(keys, [[str(row[key]) for key in keys] for row in rows])
    out.line()
    out.line(f"told from severity {policy.tell_from} on by: " + ", ".join(f"{w.name} ({w.where})" for w in ways))
    return ExitCode.DONE


async def now(args: argparse.Namespace, world: World, out: Out) -> int:
    """What holds now: each node is asked, and waited for until it answers or counts as lost (4: neither)."""
    policy = world.settings().alarms
    loop = asyncio.get_running_loop()
    async with world.hub(follow=False) as hub:
        began = loop.time()
        await hub.settled(timeout=SETTLE_S)
        until = began + lost_after(policy)
        while unknown_nodes(hub.snapshot()) and loop.time() < until:  # noqa: ASYNC110 - time itself is waited for too
            await asyncio.sleep(LOOK_S)
        snap = hub.snapshot()
        later = not_judged(policy, loop.time() - began)
    unknown = unknown_nodes(snap)
    active = [a for a in snap.alarms if a.active]
    code = ExitCode.PARTLY if unknown else ExitCode.DONE
    if out.as_json:
        rows = [{"node": node, "why": why} for node, why in unknown.items()]
        out.data({"schema": 1, "alarms": [alarm_json(a) for a in active], "unknown": rows, "not_judged": list(later)})
        return code
    for alarm in active:
        out.line(f"{alarm.severity:<5}  {clock(alarm.raised_at)}  {alarm.code}: {alarm.text}")
    for node, why in unknown.items():
        out.line(f"{node}: not known yet: {why}")
    if not active:
        out.line("no alarm holds" + (" as far as nodes answered" if unknown else ""))
    if later:
        out.line(f"one look cannot judge what takes time: {', '.join(later)}; the console and `export` watch on")
    return code


def lost_after(policy: AlarmPolicy) -> float:
    """Seconds after which a node that never answered counts as lost, with room for the console's own second."""
    rule = next((r for r in policy.levels() if r.measure == "age_s"), None)
    return LOST_S if rule is None else rule.enter + rule.hold_s + 3.0


def unknown_nodes(snap: Snapshot) -> dict[str, str]:
    """Nodes that neither answered since this look began nor count as lost, with what is known of the way to them."""
    lost = {a.subject for a in snap.alarms if a.active and a.code == "node-lost"}
    return {
        v.node.name: bare(v.node.name, v.why) or "no sample yet"
        for v in snap.nodes
        if isinstance(v.sample, Absent) and v.node.name not in lost
    }


def not_judged(policy: AlarmPolicy, looked_s: float) -> tuple[str, ...]:
    """Codes that are on and need longer than this look: a limit that must hold, a slope, a counter that grows."""
    levels = policy.levels()
    slow = [r.code for r in levels if r.measure == "seconds_to_empty" or r.hold_s > looked_s]
    return (*slow, *(c for c in GROW if policy.happening(c) is not None))


async def test(args: argparse.Namespace, world: World, out: Out) -> int:
    """Send a test by each way out; 1 where one does not work."""
    import os

    policy = world.settings().alarms
    ways = make_ways(policy.ways, write=_write, env=os.environ)
    chosen = [w for w in ways if args.way in (None, w.name)]
    if not chosen:
        names = ", ".join(w.name for w in ways) or "none"
        out.say(f"nightdeck: no way out named {args.way}; set up are: {names} ([alarms.ways] in settings.toml)")
        return ExitCode.USAGE
    alarm = Alarm(0, "test", Severity.INFO, "test", "this is a test of nightdeck's alarms", world.now())
    answers = await asyncio.gather(*(send(w, alarm) for w in chosen))
    said = {w.name: why for w, why in zip(chosen, answers, strict=True)}
    if out.as_json:
        out.data({"schema": 1, "ways": [{"name": n, "ok": not why, "why": why or None} for n, why in said.items()]})
    else:
        for way in chosen:
            out.line(f"{way.name:<9} {way.where:<40} {said[way.name] or 'sent'}")
    return ExitCode.FAILED if any(said.values()) else ExitCode.DONE


def _write(text: str) -> None:
    if not sys.stderr.isatty():
        raise OSError("standard error is no terminal")
    sys.stderr.write(text)
    sys.stderr.flush()
