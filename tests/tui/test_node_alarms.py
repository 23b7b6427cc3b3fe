"""The page of a node, the alarms, and what the top line says of them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from console.base.absent import Absent
from console.base.findings import Finding, Severity
from console.base.units import GIB
from console.cli.guard_lines import guard_json
from console.plan.codes import CODES
from console.plan.model import MatrixRow
from console.services.hub import Snapshot
from console.telemetry.alarms import Alarm
from console.telemetry.sample import Container, Containers, Guard, GuardTrip, KernelLine, Sample
from console.telemetry.trend import Lowest
from console.tui.alarm_lines import alert_line
from console.tui.charts import Scale, area
from console.tui.check_table import check_lines
from console.tui.figures import hhmmss
from console.tui.glyphs import UNICODE
from console.tui.guards import guards_of
from console.tui.node_charts import chart_lines
from console.tui.node_lines import node_lines
from console.tui.plan_lines import matrix_lines
from console.tui.screens.node_page import NodePage
from console.tui.spans import plain
from tests.tui.conftest import SIZES, deck
from tests.tui.fake_values import T0, booting, cluster, plan, views

ALARMS = (
    Alarm(2, "memory-low", Severity.BLOCK, "dgx3", "dgx3 has 1.9 GiB left", T0 - 40, "dgx3"),
    Alarm(1, "node-lost", Severity.WARN, "dgx8", "dgx8 does not answer", T0 - 400, "dgx8", cleared_at=T0 - 100),
)


def test_a_chart_has_gaps_where_nothing_is_known_and_a_fixed_scale() -> None:
    rows = area([0.0, None, 50.0, 100.0, 900.0], Scale(0.0, 100.0), 2, UNICODE, "memory", ("100", "0"))
    assert [plain(row) for row in rows] == ["    100    ██", "      0 ▁ ███"]


@pytest.mark.parametrize("clock", [0.0, 4e9], ids=["not told", "far ahead"])
def test_a_kernel_line_stands_at_the_consoles_time_and_never_at_that_of_1970(clock: float) -> None:
    view = views(1)[0]
    assert isinstance(view.sample, Sample)
    line = KernelLine(7, 5000.0 - 61.0, "NVRM: Xid (PCI:000f:01:00): 31")
    sample = replace(view.sample, wall=clock, uptime_s=5000.0, kernel=(line,), heard_at=T0)
    text = "\n".join(plain(row) for row in node_lines(replace(view, sample=sample), 120, UNICODE, now=T0))
    assert f"{hhmmss(T0 - 61.0)} NVRM: Xid" in text
    unknown = replace(sample, heard_at=Absent("not told"))
    text = "\n".join(plain(row) for row in node_lines(replace(view, sample=unknown), 120, UNICODE, now=T0))
    assert re.search(r"kernel log +NVRM: Xid", text)


@pytest.mark.parametrize("size", SIZES)
async def test_enter_on_a_node_shows_all_of_it(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        d.main.choose_pane("cluster")
        await d.press("enter")
        page = d.app.screen
        assert isinstance(page, NodePage)
        assert "dgx1, rank 0" in d.text()
        assert "memory used, GiB" in d.text()
        assert "n p other node" in d.text()
        seen = ""
        for _ in range(12):
            seen += d.text()
            await d.press("pagedown")
        for words in (
            "121.7 GiB used",
            "unified memory",
            "rocep1s0f0:1",
            "n/a (not sampled yet)",
            "CMA free",
            "free of",
        ):
            assert words in seen
        await d.press("home", "plus")
        assert "-1 h" in d.text() or size[1] < 30
        await d.press("left", "left")
        assert "ago: " in d.text()
        await d.press("n")
        assert "dgx2, rank 1" in d.text()
        await d.press("escape")
        assert d.app.screen is d.main


async def test_a_node_without_a_sample_says_why() -> None:
    async with deck("waiting") as d:
        d.main.choose_pane("cluster")
        await d.press("i")
        assert "n/a (no sample yet)" in d.text()


@pytest.mark.parametrize("size", SIZES)
async def test_alarms_are_counted_listed_noted_and_muted(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        d.hub.update(alarms=ALARMS)
        await d.settle()
        assert "✗ 1 alarm" in d.text().splitlines()[0]
        assert "✗ dgx3 has 1.9 GiB left   for 40s" in d.text().splitlines()[1]
        await d.press("A")
        text = d.text()
        assert "Alarms: 1 hold, 1 of them new, 1 over" in text
        assert "dgx3 has 1.9 GiB left" in text
        await d.press("m", "u", "a")
        assert d.calls("mute") == [(3600.0, "memory-low", "dgx3"), (0.0, "memory-low", "dgx3")]
        assert d.calls("acknowledge") == [2]
        assert "0 of them new" in d.text()
        await d.press("escape")
        await d.settle()
        assert "has 1.9 GiB left" not in d.text()
        assert d.app.screen is d.main


def test_the_alert_tells_of_the_boot_or_of_what_came_first_not_of_the_last_victim() -> None:
    died = [
        Alarm(i, "rank-died", Severity.BLOCK, f"boot 1 rank {i}", f"rank {i} ended", T0 + i / 10) for i in range(5, 8)
    ]
    old = Alarm(1, "node-lost", Severity.BLOCK, "dgx8", "dgx8 is gone", T0 - 4000, "dgx8")
    text = plain(alert_line((*reversed(died), old), T0 + 3, UNICODE))
    assert text == " ✗ rank 5 ended   for 2s   2 follow from it   and 1 more"
    failed = Alarm(9, "boot-failed", Severity.BLOCK, "boot 1", "boot 1 failed: rank 5", T0 + 2)
    assert "boot 1 failed: rank 5" in plain(alert_line((failed, *died), T0 + 3, UNICODE))
    assert alert_line((replace(old, acked_at=T0),), T0, UNICODE) == []


@pytest.mark.parametrize("size", SIZES)
async def test_what_follows_from_an_alarm_is_folded_under_it_and_noted_with_it(size: tuple[int, int]) -> None:
    died = [
        Alarm(i, "rank-died", Severity.BLOCK, f"boot 1 rank {i}", f"rank {i} ended", T0 + i / 10, f"dgx{i + 1}")
        for i in range(4)
    ]
    failed = Alarm(9, "boot-failed", Severity.BLOCK, "boot 1", "boot 1 failed: rank 0 fell", T0 + 1)
    async with deck(size=size) as d:
        d.hub.update(alarms=(failed, *reversed(died)))
        await d.settle()
        assert "✗ 1 alarm" in d.text().splitlines()[0]
        assert "boot 1 failed: rank 0 fell" in d.text().splitlines()[1]
        await d.press("A")
        assert "Alarms: 1 hold, 1 of them new, 0 over" in d.text()
        assert "enter: 4 follow from it: 4 rank-died" in d.text()
        assert "rank 3 ended" not in d.text()
        await d.press("enter")
        assert "rank 3 ended" in d.text() and "enter: 4 follow" not in d.text()
        await d.press("enter", "a")
        assert set(d.calls("acknowledge")) == {9, 0, 1, 2, 3}
        assert "0 of them new" in d.text()


async def test_a_boot_that_is_ready_is_no_alarm() -> None:
    ready = Alarm(1, "ready", Severity.INFO, "boot 11", "boot 11 (x) is ready after 12 m", T0 - 3)
    async with deck() as d:
        d.hub.update(alarms=(ready,))
        await d.settle()
        assert "alarm" not in d.text().splitlines()[0] and "is ready after" not in d.text()
        await d.press("A")
        assert "Alarms: 0 hold, 0 of them new, 0 over" in d.text()
        assert "● " in d.text() and "boot 11 (x) is ready after 12 m" in d.text() and "▲" not in d.text()


@pytest.mark.parametrize("size", SIZES)
async def test_the_top_line_warns_before_memory_is_out(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        d.hub.update(lowest=Lowest("dgx3", 2 << 30, 40.0))
        await d.settle()
        assert (
            "dgx3 out of memory in 40 s at this rate" in d.text() or "dgx3 out of memory in" in d.text().splitlines()[0]
        )


async def test_the_guard_of_a_rank_is_told_under_its_node() -> None:
    async with deck() as d:
        snapshot = d.hub.snapshot()
        assert snapshot.boot is not None
        unknown = Absent("not asked")
        guard = Guard(
            snapshot.boot.deployment,
            0,
            False,
            T0,
            T0,
            "loading",
            "",
            1 << 30,
            unknown,
            unknown,
            unknown,
            True,
            ended="killed",
        )
        first = snapshot.nodes[0]
        assert not isinstance(first.sample, Absent)
        view = replace(first, sample=replace(first.sample, guards=(guard,)))
        d.hub.update(nodes=(view, *snapshot.nodes[1:]))
        await d.settle()
        assert "guard off: killed" in d.text()
        board = [line for line in d.text().splitlines() if " ✓ " in line and "dgx1" in line]
        assert "▲ off" in board[0]


@pytest.mark.parametrize(
    ("slope", "words"), [(-1.2 * GIB / 60, "dgx3 ▾1.2/min"), (0.4 * GIB / 60, "dgx3 ▴0.4/min"), (1000.0, "dgx3 steady")]
)
async def test_the_lowest_memory_tells_how_it_moves(slope: float, words: str) -> None:
    async with deck() as d:
        d.hub.update(lowest=Lowest("dgx3", 23 * GIB, None, slope))
        await d.settle()
        assert f"lowest free 23.5 GiB {words}" in d.text().splitlines()[0]


def test_the_network_has_both_ways_in_one_chart_and_says_which_is_which() -> None:
    def read(metric: str, seconds: float, points: int) -> list[float | None]:
        del seconds
        return [{"net_rx": 2e7, "net_tx": 8e7}.get(metric, 1.0)] * points

    rows = chart_lines(read, 0, 150, 4, UNICODE, total=1e11, back=None, wide=True)
    text = "\n".join(plain(row) for row in rows)
    assert "network, B/s: in 20M to 20M, now 20M  out o 80M to 80M" in text
    assert "oooooo" in text
    then = chart_lines(read, 0, 150, 4, UNICODE, total=1e11, back=None, wide=True, last="then")
    assert "now" not in plain(then[-1])


def test_the_guard_of_every_rank_is_on_the_board_in_five_cells() -> None:
    boot = booting(T0)
    nodes = list(views(8))
    state = {
        0: {},
        1: {"running": False, "ended": "killed"},
        2: {"trip": GuardTrip(T0, "loading", 4 * GIB, 3 * GIB, "engine")},
        3: {"why": "no docker socket"},
    }
    for i, change in state.items():
        one = Guard(boot.deployment, i, True, T0, T0, "loading", "", 4 * GIB, 20 * GIB, 9 * GIB, -1000, True)
        assert not isinstance(nodes[i].sample, Absent)
        nodes[i] = replace(nodes[i], sample=replace(nodes[i].sample, guards=(replace(one, **change),)))  # type: ignore[type-var,arg-type]
    assert not isinstance(nodes[4].sample, Absent)
    nodes[4] = replace(nodes[4], sample=replace(nodes[4].sample, guards=()))
    nodes[5] = replace(nodes[5], sample=Absent("no route"))
    snapshot = Snapshot(1, T0, cluster(8), tuple(nodes), boot, (boot,), (), ())
    found = guards_of(snapshot, boot)
    cells = [found[i].cell(UNICODE)[0] for i in range(7)]
    assert cells == ["● 4.0", "▲ off", "✗ hit", "▲ off", "– no", "?", "?"]
    assert found[2].words == "guard fired by engine at 3.0 GiB"
    assert found[3].words == "guard runs, but no docker socket"
    assert [guard_json(snapshot, boot.deployment, i, f"dgx{i + 1}")["state"] for i in range(7)] == [
        "on", "off", "fired", "off", "absent", "unknown", "unknown",
    ]  # fmt: skip
    assert guard_json(snapshot, boot.deployment, 2, "dgx3")["fired_at_bytes"] == 3 * GIB
    labels = {"nightdeck.deployment": boot.deployment, "nightdeck.guard": "off"}
    box = Containers((Container("1", "c", "i", "running", labels),), "socket")
    nodes[4] = replace(nodes[4], sample=replace(nodes[4].sample, containers=box))
    snapshot = replace(snapshot, nodes=tuple(nodes))
    assert guards_of(snapshot, boot)[4].words == "the recipe wants no memory guard"
    assert guard_json(snapshot, boot.deployment, 4, "dgx5")["why"] == "switched off by the recipe"


def test_the_checks_are_a_row_a_code_a_column_a_node_and_the_rest_is_counted() -> None:
    block = Finding("port-busy", Severity.BLOCK, "taken", "dgx2")
    made = replace(
        plan("glm-5-8x"),
        findings=(
            Finding("clock-offset", Severity.WARN, "off", "dgx3"),
            block,
            replace(block, node="dgx4"),
            Finding("image-not-pinned", Severity.INFO, "tag"),
            Finding("unreachable", Severity.BLOCK, "no route", "dgx8"),
        ),
    )
    for width in (78, 150):
        rows = [plain(line).rstrip() for line in check_lines(made, width, UNICODE, {"port-busy"})]
        heads = rows[2].split()
        assert heads == ["all", *(f"dgx{i}" if width > 100 else f"r{i - 1}" for i in range(1, 9))]
        body = {row.split()[1]: row for row in rows[3:-1]}
        assert list(body) == ["port-busy", "unreachable", "clock-offset", "1"]
        assert body["1"] == "  • 1 note: image-not-pinned"
        assert body["port-busy"].split()[2:] == ["✓", "✗", "✓", "✗", "✓", "✓", "✓", "?", "overridden"]
        assert body["clock-offset"].split()[2:] == ["✓", "✓", "▲", "✓", "✓", "✓", "✓", "?"]
        assert body["unreachable"].split()[2:] == ["✓"] * 7 + ["✗"]
        assert rows[-1] == f"  ✓ {len(CODES) - 4} other checks found nothing on the 7 nodes that could be asked"
    clean = check_lines(replace(made, findings=()), 78, UNICODE)
    assert plain(clean[-1]).rstrip() == f"  ✓ {len(CODES)} checks found nothing"


async def test_look_again_asks_the_nodes_afresh_and_a_launch_shows_its_log() -> None:
    async with deck("waiting") as d:
        d.main.choose_pane("recipes")
        await d.press("l")
        assert d.calls("asked afresh") == []
        await d.press("ctrl+r")
        assert d.calls("asked afresh") == ["dsv41-flash-8x"]
        await d.press("L")
        await d.app.jobs.idle()
        await d.settle()
        assert d.calls("launch")
        assert d.main.deck == "logs"
        assert d.main.active == "boot"
        assert "following" in d.text()


def test_the_matrix_tells_who_differs_and_nothing_where_all_are_equal() -> None:
    same = MatrixRow("kernel", "6.17", {f"dgx{i}": "6.17" for i in range(1, 9)})
    mtu = MatrixRow("fabric MTU", "9000", {**{f"dgx{i}": "9000" for i in range(1, 8)}, "dgx3": "1500", "dgx8": None})
    made = plan("glm-5-8x")
    assert matrix_lines(replace(made, matrix=(same,)), 100, UNICODE) == []
    text = "\n".join(plain(line) for line in matrix_lines(replace(made, matrix=(same, mtu)), 100, UNICODE))
    assert "fabric MTU" in text
    assert "✓✓✗✓✓✓✓?" in text
    assert "dgx3 1500; the others 9000" in text
    assert "kernel" not in text


@pytest.mark.parametrize("size", SIZES)
async def test_d_tells_what_changed_since_the_last_boot_that_served(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        d.main.choose_pane("boots")
        await d.press("d")
        await d.app.jobs.idle()
        await d.pilot.pause()
        assert d.calls("compare") == [("b11",)]
        text = d.text()
        assert "--gpu-memory-utilization" in text
        assert "0.91" in text
        assert "--max-num-seqs" not in text
        await d.press("end")
        assert "Paris" in d.text()
