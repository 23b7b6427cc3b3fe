"""`python -m console.plan.document > docs/preflight.md`: the page of all findings, from the table that makes them."""

from __future__ import annotations

import sys

from console.plan.codes import CODES

_HEAD = """\
# Findings

What `nightdeck plan`, `preflight` and `launch` can say about a launch before it runs. Each finding has a code; a launch
goes on in spite of a block with `--override CODE`. This page is made by `python -m console.plan.document`.

- **block**: it cannot go right, or it may harm a node. `launch` refuses.
- **warn**: it may go wrong.
- **info**: good to know.

For people a preflight ends with `may launch`, `may launch, with 2 warnings`, or `not yet: 2 blocks (image-missing,
port-busy)` and exit code 1. With `--json` the same is `verdict`: `ready`, `risky`, `blocked`. `--deep` loads each GPU
for six seconds in the recipe's own image, and prints speed, clock and power of each beside the least to be expected.

A finding of the preflight names its node, what was observed and what was expected; `nightdeck preflight NAME --json`
gives all of it, with `matrix`: what should be equal on all nodes, what most of them have, and which differ.
"""
_ROOMS = {
    "lint": "The recipe",
    "plan": "The plan",
    "memory": "Memory",
    "preflight": "The nodes",
}


def page() -> str:
    """The whole page as Markdown."""
    parts = [_HEAD]
    for room, title in _ROOMS.items():
        rows = [c for c in CODES.values() if c.room == room]
        parts.append(f"## {title}\n\n| code | severity | why it matters | what helps |\n|---|---|---|---|")
        parts += [f"| `{c.code}` | {c.severity} | {_cell(c.why)} | {_cell(c.remedy)} |" for c in rows]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
