"""Tables say what was measured, how often, and what could not be."""

from __future__ import annotations

from tests.bench.table import Series, render


def test_a_table_compares_with_its_limit() -> None:
    limit = Series("limit", [0.5, 0.6, 0.7], [0.01, 0.02, 0.03])
    ours = Series("ours", [0.9, 1.2, 1.5])
    text = render("launch", [limit, ours, Series("theirs", why_not="not installed")], limit)
    lines = text.splitlines()
    assert "0.600 (0.500-0.700, 3)" in lines[2]
    assert "x" not in lines[2]
    assert "1.20 (0.900-1.50, 3)" in lines[3]
    assert "2.00x" in lines[3]
    assert "not installed" in lines[4]


def test_a_failure_after_some_rounds_is_not_hidden() -> None:
    assert Series("ours", [0.5], why_not="ended with 1").text() == "0.500 (0.500-0.500, 1), then: ended with 1"
