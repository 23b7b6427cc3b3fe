"""The page of findings is the table's, and every code is somewhere made."""

from __future__ import annotations

import re
from pathlib import Path

from console.plan.codes import CODES
from console.plan.document import page

TOP = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date() -> None:
    """If not: `python -m console.plan.document > docs/preflight.md`."""
    assert (TOP / "docs" / "preflight.md").read_text() == page()


def test_no_code_is_dead_and_each_is_explained() -> None:
    sources = "".join(p.read_text() for p in (TOP / "console").rglob("*.py") if not p.name.startswith("codes_"))
    assert not [code for code in CODES if f'"{code}"' not in sources]
    assert not [c.code for c in CODES.values() if not c.why or not c.remedy]
    assert all(re.fullmatch(r"[a-z0-9-]+", code) for code in CODES)
