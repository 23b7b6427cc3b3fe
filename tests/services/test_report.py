"""The morning report: what was measured and seen, nothing that an engine printed as markup, nothing loaded."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from console.base.errors import UsageError
from console.boot.report import duels, headline, next_steps
from console.boot.spread import Spread, spread, winner
from console.boot.svg import memory_chart, stage_chart
from console.files.boot_index import BootIndex
from console.files.journal import Journal
from console.services.report import report_of_night, report_since, write_report
from tests.services import nights


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    journal = Journal(tmp_path / "boots")
    state = nights.night(journal)
    report = report_of_night(BootIndex(journal), state, nights.T0)
    paths = write_report(report, tmp_path / "report")
    return report, *(p.read_text() for p in paths)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "rect", "line", "polyline", "circle", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("rect", "line", "polyline", "circle"):
            return
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_for_nothing(made) -> None:  # type: ignore[no-untyped-def]
    _, _, page = made
    tags = Tags()
    tags.feed(re.sub(r"<li>|</li>", "", page))
    assert tags.open == []
    names = {t for t, _ in tags.seen}
    assert not names & {"script", "link", "img", "iframe", "b", "object"}
    assert not any(k in ("src", "href") or k.startswith("on") for _, attrs in tags.seen for k in attrs)
    assert "url(" not in page and "@import" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    for chart in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(chart)
    assert page.count("<svg") == 5  # stages, and memory of each boot


def test_what_the_night_says(made) -> None:  # type: ignore[no-untyped-def]
    report, text, page = made
    assert headline(report) == (
        "4 boots: 3 served, 1 failed. Left serving: flash. Everything has run; flash serves again."
    )
    assert [(d.label, d.concurrency, d.verdict) for d in duels(report)] == [
        ("share 0.77", 1, "+13.7 %"),
        ("share 0.77", 4, "no winner: the spreads overlap"),
    ]
    steps = "\n".join(next_steps(report))
    assert "boot 13: Lower --gpu-memory-utilization to 0.75" in steps
    assert "boot 13 came down to 2.3 GiB on dgx1" in steps
    assert "share 0.77 at 4: the spreads overlap" in steps and "share 0.77 at 1: +13.7 %" in steps
    assert "boot 11" not in steps  # nothing was seen that asks for it
    for part in ("--gpu-memory-utilization 0.77 -&gt; 0.91", "Paris. The city lies on the Seine.", "n/a"):
        assert part in page
    rows = [line for line in text.splitlines() if line.startswith("| 1")]
    assert len(rows) == 4 and all(len(re.findall(r"(?<!\\)\|", row)) == 9 for row in rows)


def test_since_a_time_and_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "boots")
    nights.night(journal)
    index = BootIndex(journal)
    assert [b.record.number for b in report_since(index, nights.T0 + 2000, nights.T0 + 9000).boots] == [13, 14]
    with pytest.raises(UsageError, match="no boot began"):
        report_since(index, nights.T0 + 9000, nights.T0 + 9999)
    with pytest.raises(UsageError, match="has begun"):
        report_of_night(index, {"id": "n1", "results": []}, 0.0)


def test_no_winner_without_proof() -> None:
    assert winner(Spread(100, 98, 102, 3), Spread(120, 115, 125, 3)) == "+20.0 %"
    assert winner(Spread(100, 98, 102, 3), Spread(80, 75, 85, 3)) == "-20.0 %"
    assert winner(Spread(100, 90, 116, 3), Spread(120, 115, 125, 3)) == "no winner: the spreads overlap"
    assert winner(Spread(100, 100, 100, 1), Spread(120, 115, 125, 3)).startswith("no winner: a single")
    assert spread([]) is None and spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)


def test_charts_of_little_and_of_strange_things() -> None:
    assert memory_chart({}, seconds=10) == "" and stage_chart([("b", {})]) == ""
    evil = memory_chart(
        {'<x a="1">': [(0.0, 5.0)], "n2": [(0.0, 9.0), (5.0, -1.0)]}, seconds=0.0, marks=[(3.0, "<ready>")]
    )
    ElementTree.fromstring(evil)
    many = {f"stage {n}": float(n + 1) for n in range(20)}
    ElementTree.fromstring(stage_chart([("boot <1>", many)]))
