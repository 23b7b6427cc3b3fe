"""What a check found: one shape for lint, preflight and plan."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """info: good to know. warn: may go wrong. block: cannot go right, or may harm a node."""

    INFO = "info"
    WARN = "warn"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `code` is stable (kebab-case) and is what an override names; `node` is None for all nodes."""

    code: str
    severity: Severity
    message: str
    node: str | None = None
    observed: str = ""
    expected: str = ""
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": str(self.severity),
            "node": self.node,
            "observed": self.observed,
            "expected": self.expected,
            "message": self.message,
            "remedy": self.remedy,
        }
