"""`cluster init`, `cluster check`: from host names to a file that works."""

from __future__ import annotations

import argparse

from console.base.errors import ExitCode
from console.base.findings import Severity
from console.cli.cmd_plan import show_findings
from console.cli.out import Out
from console.cli.world import World


async def init(args: argparse.Namespace, world: World, out: Out) -> int:
    cluster, text, findings = await world.discover(args)
    path = world.write_cluster(text, args.output, force=args.force)
    if out.as_json:
        nodes = [
            {
                "node": n.name,
                "host": n.host,
                "user": n.user,
                "fabric_address": n.fabric_address,
                "fabric_interface": n.fabric_interface,
                "hcas": list(n.hcas) if n.hcas is not None else None,
                "container_cli": n.container_cli,
            }
            for n in cluster.nodes
        ]
        out.data({"schema": 1, "file": path, "nodes": nodes, "findings": [f.as_json() for f in findings]})
    else:
        for line in text.splitlines():
            out.line(line)
        show_findings(findings, out)
        out.say(f"written to {path}; `nightdeck cluster check` looks again")
    blocked = any(f.severity is Severity.BLOCK for f in findings)
    return ExitCode.PARTLY if blocked else ExitCode.DONE


async def check(args: argparse.Namespace, world: World, out: Out) -> int:
    findings = await world.check()
    blocked = any(f.severity is Severity.BLOCK for f in findings)
    if out.as_json:
        word = "blocked" if blocked else "risky" if any(f.severity is Severity.WARN for f in findings) else "ready"
        out.data({"schema": 1, "verdict": word, "findings": [f.as_json() for f in findings]})
    else:
        show_findings(findings, out)
        if not findings:
            out.line("every node answers and has what a launch needs")
    return ExitCode.FAILED if blocked else ExitCode.DONE
