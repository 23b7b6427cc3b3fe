"""Every finding that a plan, a lint or a preflight can make: its code, its severity, why it matters, what helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from console.base.findings import Finding, Severity
from console.base.secrets import mask_text
from console.base.text import clean_line
from console.plan.codes_launch import LAUNCH
from console.plan.codes_lint import LINT
from console.plan.codes_plan import MEMORY, PLAN, PREFLIGHT

INFO: Final = Severity.INFO
WARN: Final = Severity.WARN
BLOCK: Final = Severity.BLOCK


@dataclass(frozen=True, slots=True)
class Code:
    """One row of the table that documents findings. room: `lint`, `plan`, `memory` or `preflight`."""

    code: str
    severity: Severity
    room: str
    why: str
    remedy: str


def _rows() -> tuple[Code, ...]:
    rooms = (("lint", LINT), ("plan", PLAN), ("memory", MEMORY), ("preflight", (*PREFLIGHT, *LAUNCH)))
    return tuple(
        Code(code, severity, room, why, remedy) for room, rows in rooms for code, severity, why, remedy in rows
    )


CODES: Final[dict[str, Code]] = {row.code: row for row in _rows()}


def finding(
    code: str,
    message: str,
    *,
    node: str | None = None,
    observed: str = "",
    expected: str = "",
    remedy: str = "",
    severity: Severity | None = None,
) -> Finding:
    """A finding of the table: severity and remedy are the table's unless given. Text is made safe to draw, and words
    that look like secrets are masked. KeyError for a code not in the table."""
    row = CODES[code]
    return Finding(
        code,
        severity or row.severity,
        _clean(message),
        node,
        _clean(observed),
        _clean(expected),
        remedy or row.remedy,
    )


def _clean(text: str) -> str:
    return mask_text(clean_line(text, limit=1000))


# What the end of the deployment that runs takes away: found before it, these do not stand against a restart.
LIFTED_BY_A_STOP: Final = ("port-busy", "leftover-container", "engine-running", "memory-exhausted", "shm-full")


def unique(findings: tuple[Finding, ...] | list[Finding]) -> tuple[Finding, ...]:
    """Findings without repetitions, the worst first, otherwise in the order found."""
    order = {BLOCK: 0, WARN: 1, INFO: 2}
    seen = dict.fromkeys(findings)
    return tuple(sorted(seen, key=lambda f: order.get(f.severity, 1)))


def documentation() -> str:
    """The table as Markdown, for the docs."""
    lines = ["| code | severity | from | why | what helps |", "|---|---|---|---|---|"]
    lines += [f"| `{c.code}` | {c.severity} | {c.room} | {c.why} | {c.remedy} |" for c in CODES.values()]
    return "\n".join(lines) + "\n"
