"""`diff`: two boots side by side, or a recipe against its last boot."""

from __future__ import annotations

import argparse

from console.base.errors import ExitCode
from console.boot.compare import Comparison, Record, Section, changed_lines, comparison_json
from console.cli.out import Out
from console.cli.world import World
from console.services.compare import compared


def diff(args: argparse.Namespace, world: World, out: Out) -> int:
    found = compared(world.ledger().index, world.recipes()[0], args.names)
    if out.as_json:
        out.data(comparison_json(found))
    else:
        show(found, out)
    return ExitCode.DONE


def show(found: Comparison, out: Out) -> None:
    a, b = _name(found.a), _name(found.b)
    out.line(f"{a}  ->  {b}")
    if found.same_input:
        out.line("nothing that was asked for differs, and no node: what differs below is the spread between boots")
    for section in found.sections:
        if section.why:
            out.line()
            out.line(f"{section.name}: not comparable: {section.why}")
        elif section.shown:
            out.line()
            _section(section, out, found)


def _section(section: Section, out: Out, found: Comparison) -> None:
    out.line(f"{section.name}{f' ({section.unit})' if section.unit else ''}")
    if not section.side_by_side:
        for line in changed_lines(section.shown):
            out.line(f"  {line}")
        return
    if section.name in ("text", "outcome"):
        for row in section.shown:
            if row.before == row.after:
                out.line(f"  {row.name:<12} {row.before or 'n/a'}")
                continue
            out.line(f"  {row.name:<12} {found.a.label}: {row.before or 'n/a'}")
            out.line(f"  {'':<12} {found.b.label}: {row.after or 'n/a'}")
        return
    width = max(len(r.name) for r in section.shown)
    for row in section.shown:
        change = "" if row.change is None else f"{row.change:+.2f}"
        out.line(f"  {row.name:<{width}}  {row.before or 'n/a':>10}  {row.after or 'n/a':>10}  {change:>9}")


def _name(record: Record) -> str:
    return f"{record.label} ({record.recipe_slug})" if record.number else f"{record.recipe_slug} as its file is now"
