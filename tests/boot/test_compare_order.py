"""Two boots side by side: nodes in the order of their numbers, however they answered."""

from __future__ import annotations

from console.boot.compare import Record, compare

NODES = ("dgx10", "dgx2", "alpha", "dgx1", "2b")


def record(number: int, available: int) -> Record:
    facts = {n: {"boot_id": f"{n}{number}", "kernel": f"{n} {number}"} for n in NODES}
    low = dict.fromkeys(NODES, available)
    return Record(f"b{number}", number, "flash", {"min_available_by_node": low}, facts=facts)


def test_nodes_stand_in_order_everywhere() -> None:
    found = {s.name: [r.name for r in s.rows] for s in compare(record(1, 1 << 30), record(2, 2 << 30)).sections}
    order = ["2b", "alpha", "dgx1", "dgx2", "dgx10"]
    assert found["lowest memory"][:5] == order
    assert [n.removeprefix("kernel on ") for n in found["nodes"] if n.startswith("kernel")] == order
    rows = {r.name: r.after for s in compare(record(1, 1), record(2, 1)).sections for r in s.rows}
    assert rows["rebooted in between"] == ", ".join(order)
