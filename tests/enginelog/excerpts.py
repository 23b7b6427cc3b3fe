"""Excerpts of published failures, and what a diagnosis must say of each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "excerpts"


@dataclass(frozen=True)
class Excerpt:
    """cls empty: no cause may be raised. rank None: the excerpt names none."""

    name: str
    cls: str
    line: int
    verdict: str
    source: str
    rank: int | None

    @property
    def data(self) -> bytes:
        return (FOLDER / f"{self.name}.log").read_bytes()


def excerpts() -> list[Excerpt]:
    table = tomllib.loads((FOLDER / "expected.toml").read_text(encoding="utf-8"))
    return [Excerpt(k, v["class"], v["line"], v["verdict"], v["source"], v.get("rank")) for k, v in table.items()]
