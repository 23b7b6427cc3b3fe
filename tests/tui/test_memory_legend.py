"""The legend of a node's memory budget: a swatch is never parted from its words."""

from __future__ import annotations

import pytest

from console.base.units import GIB
from console.tui.glyphs import ASCII, UNICODE, Glyphs
from console.tui.plan_lines import memory_lines
from console.tui.spans import plain

PARTS = (
    "in use now",
    "NCCL buffers",
    "processes beside the share",
    "model",
    "activations, graphs, workspaces",
    "KV cache",
)
MEMORY = {
    "dgx1": {
        "total_bytes": 121 * GIB,
        "stays_bytes": 15 * GIB,
        "parts": [{"key": f"p{i}", "label": words, "size_bytes": (i + 1) * GIB} for i, words in enumerate(PARTS)],
    }
}  # fmt: skip


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("width", range(40, 160, 7))
def test_a_row_of_the_legend_begins_with_a_swatch(width: int, glyphs: Glyphs) -> None:
    rows = [plain(row) for row in memory_lines(MEMORY, width, glyphs)][2:]
    assert all(len(row.rstrip()) <= width and row[2] in (*glyphs.stack, glyphs.bar_empty) for row in rows)
    text = " ".join(row.strip() for row in rows)
    assert all(f"{words} {i + 1}.0" in text for i, words in enumerate(PARTS)) and "stays 15.0 of 121.0 GiB" in text
