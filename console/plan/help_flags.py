"""A plan's flags beside those that the image's own --help names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from console.base.absent import Absent
from console.plan.codes import finding, unique
from console.plan.model import Plan


def unknown(flags: frozenset[str], used: Sequence[str]) -> list[str]:
    """Flags in use that the help does not name. `--no-x` is known with `--x`, `--x.y` with `--x`; `_` is `-`."""
    known = {flag.replace("_", "-") for flag in flags}
    out = []
    for word in used:
        if not word.startswith("--") or word == "--":
            continue
        name = word.partition("=")[0].partition(".")[0].replace("_", "-")
        if name not in known and name.replace("--no-", "--", 1) not in known and f"--no-{name[2:]}" not in known:
            out.append(word.partition("=")[0])
    return list(dict.fromkeys(out))


def compared(plan: Plan, flags: frozenset[str] | Absent, node: str) -> Plan:
    """The plan with what the help says against its flags; Absent: it could not be read on this node, and why."""
    if isinstance(flags, Absent):
        said = finding("help-unreadable", flags.reason, node=node, observed=flags.reason)
        return replace(plan, findings=unique([*plan.findings, said]))
    found = [
        finding("flag-unknown", f"{flag} is not in the --help of {plan.image}", observed=flag, expected="a known flag")
        for flag in unknown(flags, plan.ranks[0].engine_argv)
    ]
    return replace(plan, findings=unique([*plan.findings, *found]))
