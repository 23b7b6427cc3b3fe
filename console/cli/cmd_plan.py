"""`plan`, `preflight`: what a launch would do, and whether it can succeed; nothing runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from console.base.errors import ExitCode
from console.base.findings import Finding, Severity
from console.cli.memory_lines import HEADS, RIGHT, memory_rows, source_lines
from console.cli.out import Out
from console.cli.world import World
from console.plan.folded import folded
from console.plan.masked import command_lines
from console.plan.model import Plan
from console.plan.preflight import in_words, verdict
from console.plan.secret_env import how_secrets_travel
from console.plan.to_json import plan_json
from console.services.gpu_load import LOAD_S

_MARK = {Severity.INFO: "·", Severity.WARN: "!", Severity.BLOCK: "✗"}


async def plan(args: argparse.Namespace, world: World, out: Out) -> int:
    async with world.hub(watch=False) as hub:
        made = await hub.plan(args.name, nodes=args.nodes, head=args.head, ask_nodes=not args.offline)
    if out.as_json:
        out.data({"schema": 1, **plan_json(made)})
        return ExitCode.DONE
    show_plan(made, out, full=args.full)
    return ExitCode.DONE


def show_plan(made: Plan, out: Out, *, full: bool = False) -> None:
    if full:
        for line in how_secrets_travel(made):
            out.line(line)
        for rank in made.ranks:
            out.line(f"# rank {rank.rank} on {rank.node}:")
            for line in command_lines(made, rank):
                out.line(line)
    else:
        for line in folded(made):
            out.line(line)
    if made.unexplained and any(f.code == "ranks-differ" for f in made.findings):
        out.line("")
        out.line("NOT EQUAL between ranks, and nothing explains it:")
        for text in made.unexplained:
            out.line(f"  {text}")
    out.line("")
    show_memory(made, out)
    show_findings(made.findings, out)


def show_findings(findings: Sequence[Finding], out: Out) -> None:
    """Blocks first; the same finding on several nodes is one line."""
    order = {Severity.BLOCK: 0, Severity.WARN: 1, Severity.INFO: 2}
    seen: dict[tuple[str, str, str], list[str]] = {}
    for f in sorted(findings, key=lambda f: order[f.severity]):
        text = f.message.removeprefix(f"{f.node}: ") if f.node else f.message
        seen.setdefault((str(f.severity), f.code, f"{text}\0{f.remedy}"), []).append(f.node or "")
    for (severity, code, text), nodes in seen.items():
        message, _, remedy = text.partition("\0")
        where = ", ".join(n for n in nodes if n)
        out.line(f"{_MARK[Severity(severity)]} {severity:5} {code}{f' [{where}]' if where else ''}: {message}")
        if remedy and severity != "info":
            out.line(f"          -> {remedy}")


async def preflight(args: argparse.Namespace, world: World, out: Out) -> int:
    async with world.hub(watch=False) as hub:
        made = await hub.preflight(args.name, nodes=args.nodes, head=args.head, deep=args.deep)
    word = verdict(made.findings, made.override)
    if out.as_json:
        rows = [row.as_json() for row in made.matrix]
        findings = [f.as_json() for f in made.findings]
        more = {"matrix": rows, "memory": dict(made.memory), "loads": dict(made.loads)}
        out.data({"schema": 1, "verdict": word, "findings": findings, **more})
    else:
        show_matrix(made, out, whole=args.all)
        show_memory(made, out)
        if args.deep:
            show_loads(made, out)
        show_findings(made.findings, out)
        out.line(f"verdict: {in_words(made.findings, made.override)}")
    return ExitCode.FAILED if word == "blocked" else ExitCode.DONE


def show_loads(made: Plan, out: Out) -> None:
    """What each GPU did under load, beside the least that it must do."""
    if not made.loads:
        out.line("--deep loaded no GPU: the recipe's containers get none, or the node's runtime hands none out")
        out.line()
        return

    def figure(row: Mapping[str, Any], key: str, unit: str) -> str:
        return "n/a" if row[key] is None else f"{row[key]:.0f} {unit}"

    def least(row: Mapping[str, Any], key: str) -> str:
        return "none" if row[key] is None else f">= {row[key]:.0f}"

    rows = []
    for node, row in made.loads.items():
        cells = [
            cell
            for key, unit in (("tflops", "TFLOPS"), ("sm_mhz", "MHz"), ("power_w", "W"))
            for cell in (figure(row, key, unit), least(row, f"{key}_least") if row["name"] or row[key] else "")
        ]
        rows.append([node, *cells, str(row["why"] or "")])
    out.line(f"each GPU under load, {LOAD_S} s of bf16 products in the recipe's image:")
    heads = ["node", "speed", "limit", "clock", "limit", "power", "limit", ""]
    out.table(heads, rows, right=[1, 3, 5])
    out.line()


def show_memory(made: Plan, out: Out) -> None:
    """The budget of each node, where the nodes were asked."""
    if any(entry["total_bytes"] is not None for entry in made.memory.values()):
        out.table(list(HEADS), memory_rows(made.memory), right=list(RIGHT))
        for line in source_lines(made.memory):
            out.line(line)
        out.line()


def show_matrix(made: Plan, out: Out, *, whole: bool) -> None:
    """What differs between nodes, a line each; `whole` shows what is equal too."""
    rows = []
    for row in made.matrix:
        there = [v for v in row.values.values() if v is not None]
        odd = "; ".join(f"{n}: {row.values[n]}" for n in row.differs)
        unknown = [n for n, v in row.values.items() if v is None]
        if unknown and whole:
            odd = "; ".join(part for part in (odd, f"not known on {', '.join(unknown)}") if part)
        if odd or whole:
            rows.append([row.what, row.majority, f"{there.count(row.majority)} of {len(row.values)}", odd])
    if rows:
        out.table(["on the nodes", "most have", "", "others"], rows)
        out.line()
    elif made.matrix:
        out.line(f"all {len(made.ranks)} nodes are alike in {len(made.matrix)} things (--all lists them)")
        out.line()
