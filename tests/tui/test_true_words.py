"""Words of the panes that once said what was not so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.boot.state import Phase
from console.boot.words import expected_now
from console.services.hub import LogLine
from console.services.log_store import LogStore
from console.tui.boots_pane import verdict
from console.tui.glyphs import UNICODE
from console.tui.guards import guards_of
from console.tui.stop_lines import stop_lines
from tests.tui import fake_values as v
from tests.tui.conftest import SMALL, deck
from tests.tui.fake_hub import FakeHub


def lines(count: int, seq: int) -> list[LogLine]:
    return [LogLine(seq + i, 0, "dgx1", i, 1.0, "", "", "x") for i in range(count)]


def test_lines_of_an_earlier_boot_are_not_missing_in_the_log_of_the_next() -> None:
    store = LogStore(100)
    store.extend(lines(80, store.next_seq))
    store.clear()
    store.extend(lines(50, store.next_seq))
    assert store.read(0, 1000).lost == 0
    store.extend(lines(100, store.next_seq))
    assert store.read(0, 1000).lost == 50  # these were of this log


@pytest.mark.parametrize("told", [False, True])
def test_a_node_lost_after_a_whole_stop_takes_nothing_of_it_back(told: bool) -> None:
    boot = v.stopped(v.T0)
    ranks = tuple(replace(r, status="absent", reachable=r.node != "dgx4") for r in boot.ranks)
    results = {r.node: ("stopped", "") for r in ranks} if told else {}
    done = replace(boot, phase=Phase.STOPPED, stop_result="stopped", ranks=ranks, stop_results=results, steps=())
    text = "\n".join("".join(t for t, _ in line) for line in stop_lines(done, v.T0, 100, UNICODE))
    assert "stopped: every node was asked, and nothing of it runs on 8 nodes" in text
    assert "unknown" not in text and "may still run" not in text


def test_no_time_is_expected_of_a_boot_whose_answers_are_not_sane_or_that_is_over() -> None:
    boot = replace(v.booting(v.T0), eta_at=v.T0 + 600)
    assert "ready about" in expected_now(boot, str)
    for phase in (Phase.SERVING_BAD, Phase.FAILED, Phase.STOPPING, Phase.STOPPED):
        assert expected_now(replace(boot, phase=phase), str) == ""


def test_a_guard_that_had_no_time_to_stand_is_not_said_to_be_none() -> None:
    snap = FakeHub("booting").snapshot()
    assert snap.boot is not None
    bare = [replace(n, sample=replace(n.sample, guards=())) for n in snap.nodes]  # type: ignore[arg-type]
    young = replace(snap.boot, ranks=tuple(replace(r, started_at=snap.at - 5) for r in snap.boot.ranks))
    old = replace(
        snap.boot, ranks=tuple(replace(r, status="running", started_at=snap.at - 90) for r in snap.boot.ranks)
    )
    snap = replace(snap, nodes=tuple(bare))
    assert {g.state for g in guards_of(snap, young).values()} == {"unknown"}
    assert {g.state for g in guards_of(snap, old).values()} == {"absent"}


def test_the_signs_of_the_ledger_are_those_of_the_legend() -> None:
    row = v.ledger()[0]
    signs = {s: verdict(replace(row, state=s), UNICODE)[0][0] for s in ("starting", "stopped", "ready", "failed")}
    assert signs == {"starting": "▶", "stopped": "○", "ready": "●", "failed": "✗"}


async def test_while_something_is_launched_the_boot_pane_does_not_offer_a_launch() -> None:
    async with deck("empty", size=SMALL) as d:
        d.main.choose_pane("boot")
        await d.settle()
        assert "Nothing runs on this cluster" in d.text()
        d.hub.update(job="launching glm")
        await d.settle()
        assert "launching glm …" in d.text() and "Nothing runs on this cluster" not in d.text()


async def test_a_boot_found_a_moment_after_the_start_comes_to_the_front_unless_a_pane_was_chosen() -> None:
    for chosen in (False, True):
        async with deck("empty", size=SMALL) as d:
            assert d.main.active == "recipes"
            if chosen:
                await d.press("tab", "shift+tab")
            d.hub.set_boot(v.booting(v.T0))
            await d.settle()
            assert d.main.active == ("recipes" if chosen else "boot")


async def test_found_running_is_said_while_it_runs() -> None:
    async with deck() as d:
        d.hub.update_boot(adopted=True)
        await d.settle()
        assert "found running" in d.text()
        d.hub.update_boot(phase=Phase.FAILED)
        await d.settle()
        assert "found running" not in d.text()


async def test_the_next_error_is_looked_for_in_lines_that_the_log_pane_has_not_shown_yet() -> None:
    async with deck(size=SMALL, toasts=True) as d:
        assert d.main.active == "boot"
        d.main.logs.next_error(1)
        await d.pilot.pause()
        assert not any("no lines yet" in n.message for n in d.app._notifications)
