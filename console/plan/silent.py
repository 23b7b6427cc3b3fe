"""A node without facts, by what it lacks: a way to it, a shell that takes commands, or a python3 that runs."""

from __future__ import annotations

import re
from typing import Final

from console.base.findings import Finding
from console.plan.codes import finding

SHELL_REFUSES: Final = "shell-refuses"
PYTHON_MISSING: Final = "python-missing"
UNREACHABLE: Final = "unreachable"
# Of such a node no other check can say anything.
SILENT_CODES: Final = frozenset({SHELL_REFUSES, PYTHON_MISSING, UNREACHABLE})
_SHELL: Final = re.compile(r"^(?:shell: )?the account's login shell refuses commands")
_PYTHON: Final = re.compile(r"^(?:deadline: )?python3 ")


def silent_finding(node: str, reason: str, *, observed: str = "", remedy: str = "") -> Finding:
    """The finding for a node that gave no facts. reason: as `node_facts` gives it, or the transport's words."""
    code = SHELL_REFUSES if _SHELL.match(reason) else PYTHON_MISSING if _PYTHON.match(reason) else UNREACHABLE
    return finding(code, f"{node}: {reason}", node=node, observed=observed or reason, remedy=remedy)
