"""Failures that were brought about on a real engine (vLLM 0.32 on CPUs, two ranks in containers): who, and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from console.enginelog.diagnose import diagnose

CASES = sorted(p for p in (Path(__file__).parent / "real").iterdir() if p.is_dir())


def reader(path: Path) -> Callable[[], Iterable[bytes]]:
    return lambda: [path.read_bytes()]


@pytest.mark.parametrize("folder", CASES, ids=lambda p: p.name)
def test_who_and_why(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    states = folder / "states.json"
    found = diagnose(
        [(p.name, int(p.stem.removeprefix("rank")), reader(p)) for p in sorted(folder.glob("rank*.log"))],
        json.loads(states.read_text()) if states.exists() else None,
    )
    cause = found.cause
    assert {
        "verdict": str(found.verdict),
        "class": cause and cause.cls,
        "rank": cause and cause.rank,
        "stage": cause and cause.stage,
        "file": cause and cause.file,
        "line": cause and cause.line,
        "victims": list(cause.victims) if cause else [],
    } == expected
