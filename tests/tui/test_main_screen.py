"""The main screen at both sizes: what is on it, panes, resize, redraw, hostile text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.base.absent import Absent
from console.tui.glyphs import UNICODE
from console.tui.node_pane import NodePane
from console.tui.node_rows import state_span
from tests.tui import fake_values
from tests.tui.conftest import SIZES, SMALL, WIDE, deck
from tests.tui.fake_hub import SCENARIOS, FakeHub

pytestmark = pytest.mark.filterwarnings("error")


async def test_wide_shows_cluster_boot_and_logs_together() -> None:
    async with deck() as d:
        text = d.text()
        for words in ("Cluster spark8", "Boot 11", "Logs all ranks", "weights", "lowest free 23.5 GiB dgx3", "8/8"):
            assert words in text
        assert text.count("dgx8") >= 2
        assert "12:41" in text
        assert "of 1:00:00" in text
        assert "ready about 02:15 ± 2 min" in text


async def test_small_shows_one_pane_at_a_time_and_loses_none() -> None:
    async with deck(size=SMALL) as d:
        seen = {}
        for _ in range(5):
            seen[d.main.active] = d.text()
            await d.press("tab")
        assert set(seen) == {"cluster", "boot", "logs", "recipes", "boots"}
        for words in ("dgx8", "96%", "1.2G/1.1G", "disk", "load", "23.5▾", "64°"):
            assert words in seen["cluster"]
        for words in ("weights 38%", "slowest, median 64%", "silent 2:10", "dgx8", "ready about"):
            assert words in seen["boot"]
        assert "following" in seen["logs"]
        assert "glm-5-8x" in seen["recipes"]
        assert "LL128 off" in seen["boots"]


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_every_scene_draws_in_every_pane_at_both_sizes(scenario: str) -> None:
    async with deck(scenario) as d:
        if d.app.screen is not d.main:
            await d.press("escape")
        for size in SIZES:
            await d.pilot.resize_terminal(*size)
            for _ in range(5):
                await d.press("tab")
                text = d.text()
                assert not {"\x1b", "\u202e", "\x9b", "\x00"} & set(text)
                assert len(text.splitlines()) == size[1]


async def test_hostile_names_are_shown_as_they_are() -> None:
    async with deck("hostile", toasts=True) as d:
        assert "red[bold red]markup[/] [link=x]" in d.text()
        await d.press("l")
        assert "red[bold red]markup[/]" in d.text()
        await d.press("escape")
        d.hub.say("[bold]not markup[/bold] \x1b[31m")
        await d.settle()
        for _ in range(5):
            await d.pilot.pause()
        assert "[bold]not markup[/bold]" in d.text()


async def test_lost_and_late_nodes_say_how_old_and_why() -> None:
    async with deck("lost") as d:
        text = d.text()
        assert "✗ lost silent" in text
        assert "73 s old" in text
        assert "◐ late" in text
        assert "6/8 lost dgx8" in text
        d.main.choose_pane("cluster")
        await d.press("end")
        assert "do not hammer it" in d.text()
        assert "last seen 73 s ago" in d.text()


def test_a_lost_connection_is_told_once() -> None:
    view = fake_values.views()[0]
    assert state_span(replace(view, state="lost", trouble="lost"), UNICODE)[0] == "✗ lost"
    assert state_span(replace(view, state="lost", trouble="silent"), UNICODE)[0] == "✗ lost silent"


async def test_unknown_figures_are_na_never_zero() -> None:
    hub = FakeHub()
    nodes = list(hub.snapshot().nodes)
    nodes[0] = replace(nodes[0], sample=fake_values.sample(1, gpu=None))
    sample = fake_values.sample(2)
    nodes[1] = replace(nodes[1], sample=replace(sample, gpus=Absent("no nvidia-smi"), rdma=Absent("none")))
    hub.update(nodes=tuple(nodes))
    async with deck(hub=hub) as d:
        rows = [line for line in d.text().splitlines() if " fresh " in line]
        assert " n/a " in rows[0]
        assert " 0%" not in rows[0]
        assert rows[1].count("n/a") == 5


async def test_a_waiting_node_has_no_figures() -> None:
    async with deck("waiting") as d:
        assert d.text().count("no sample yet") == 8
        assert "0/8" in d.text()


async def test_128_nodes_sort_and_filter() -> None:
    async with deck("farm") as d:
        d.main.choose_pane("cluster")
        pane = d.main.query_one(NodePane)
        assert len(pane.grid.rows) == 128
        await d.press("o", "o")
        assert "by state" in d.text()
        assert pane.grid.rows[0].key == "dgx8"
        await d.press("o")
        assert pane.grid.rows[0].key == "dgx73"
        await d.press("slash", *"lost")
        assert [row.key for row in pane.grid.rows] == ["dgx8"]
        await d.press("enter", "escape")
        assert len(pane.grid.rows) == 128
        await d.press("pagedown", "end")
        assert pane.grid.cursor_key == pane.grid.rows[-1].key
        assert pane.grid.cursor_key in d.text()


async def test_the_cursor_stays_on_its_node_when_the_order_changes() -> None:
    async with deck("lost") as d:
        d.main.choose_pane("cluster")
        await d.press("down", "down")
        pane = d.main.query_one(NodePane)
        assert pane.grid.cursor_key == "dgx3"
        await d.press("o", "o")
        assert pane.grid.cursor_key == "dgx3"


async def test_only_changed_rows_are_painted_again() -> None:
    async with deck() as d:
        pane = d.main.query_one(NodePane)
        before = list(pane.grid.rows)
        nodes = list(d.hub.snapshot().nodes)
        nodes[4] = replace(nodes[4], sample=fake_values.sample(5, gpu=7.0))
        d.hub.update(nodes=tuple(nodes))
        await d.settle()
        changed = [i for i, (a, b) in enumerate(zip(before, pane.grid.rows, strict=True)) if a.lines != b.lines]
        assert changed == [4]
        assert "7%◂" in d.text()


async def test_a_change_of_the_hub_is_drawn_without_asking() -> None:
    async with deck() as d:
        d.hub.set_boot(fake_values.ready(d.hub.now()))
        await d.pilot.pause()
        assert "95.9 tok/s" in d.text()
        assert "ready in 15:00" in d.text()


async def test_resize_moves_between_stack_and_tabs_and_keeps_the_pane() -> None:
    async with deck(size=WIDE) as d:
        d.main.choose_pane("recipes")
        await d.pilot.resize_terminal(*SMALL)
        await d.pilot.pause()
        assert d.main.active == "recipes"
        assert "Cluster spark8" not in d.text()
        await d.pilot.resize_terminal(*WIDE)
        await d.pilot.pause()
        assert "Cluster spark8" in d.text()
        assert "Recipes 3" in d.text()


async def test_zoom_gives_the_whole_screen_to_a_pane_and_back() -> None:
    async with deck() as d:
        d.main.choose_pane("logs")
        await d.press("z")
        assert "Cluster spark8" not in d.text()
        assert d.main.logs.view.size.height > 40
        await d.press("z")
        assert "Cluster spark8" in d.text()


async def test_clicks_choose_tabs_and_keys() -> None:
    async with deck(size=SMALL) as d:
        x = d.text().splitlines()[1].index("Recipes")
        await d.pilot.click("#tabs-top", offset=(x + 2, 0))
        await d.pilot.pause()
        assert d.main.active == "recipes"
        x = d.text().splitlines()[-1].index("plan")
        await d.pilot.click("#keys", offset=(x + 1, 0))
        await d.pilot.pause()
        assert "Plan of" in d.text()
