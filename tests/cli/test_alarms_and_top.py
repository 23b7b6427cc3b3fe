"""`alarms`, and the pictures that `top` and `status` draw of a snapshot."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console.assemble import main
from console.base.absent import Absent
from console.base.findings import Severity
from console.base.units import GIB
from console.boot.events import BootOpened, ContainerSeen, RankRef, StatsSeen
from console.boot.reduce import opened, reduce
from console.cli import cmd_alarms, cmd_top
from console.cli.cmd_alarms import lost_after, not_judged, rule_rows, unknown_nodes
from console.cli.cmd_status import node_cells
from console.cli.cmd_top import ORDERS, chosen, engine_line, fitted, picture, top_json
from console.cli.guard_lines import guard_lines
from console.cli.out import Out
from console.cluster.model import Cluster, Node
from console.services.hub import NodeView, Snapshot
from console.telemetry.alarm_rules import CODES, AlarmPolicy, RuleChange
from console.telemetry.alarms import Alarm
from console.telemetry.sample import Gpu, Guard, GuardTrip, Memory, Sample
from console.telemetry.trend import Lowest

CLUSTER = Cluster("spark8", "c.toml", (Node("dgx1", "dgx1"), Node("dgx2", "dgx2")))
RANKS = (RankRef(0, "dgx1", "c0"), RankRef(1, "dgx2", "c1"))
BOOT = opened(BootOpened(0.0, "d", 11, "flash", "t", "", "dgx1", RANKS, 0.0, 3600.0, 8000, "m"))
GUARD = Guard("d", 0, True, 0.0, 0.0, "serving", "told by the console", GIB, 14 * GIB, 13 * GIB, 0, False)


def snapshot(guards: tuple[Guard, ...] = ()) -> Snapshot:
    memory = Memory(total_bytes=130_663_231_488, available_bytes=14 * GIB)
    sample = Sample("dgx1", 1, 0.0, 0.0, 0.0, memory=memory, guards=guards)
    boot = reduce(BOOT, ContainerSeen(1.0, 0, "running"))
    boot = reduce(boot, StatsSeen(5.0, {"generation_tokens_per_s": 98.14, "running": 4.0, "kv_usage": 0.31, "at": 5.0}))
    views = (
        NodeView(CLUSTER.nodes[0], "fresh", 0.4, sample, rank=0),
        NodeView(
            CLUSTER.nodes[1], "lost", Absent("no sample yet"), Absent("no route"), "refused", "no route", "ssh it"
        ),
    )
    alarm = Alarm(1, "node-lost", Severity.BLOCK, "dgx2", "dgx2: no route", 9.0, "dgx2")
    over = replace(alarm, id=2, cleared_at=10.0, text="long ago")
    return Snapshot(
        1, 10.0, CLUSTER, views, boot, (boot,), (), (), alarms=(alarm, over), lowest=Lowest("dgx1", 14 * GIB, 40.0)
    )


def test_the_live_picture_says_what_matters_first() -> None:
    lines = picture(snapshot(), 10.0)
    assert lines[0].startswith("spark8   1 of 2 nodes answer   dgx1 out of memory in 0:40 at this rate   00:00:10")
    text = "\n".join(lines)
    assert "boot 11  flash  starting" in text or "boot 11  flash  booting" in text
    assert "98.1 tok/s   4 running   KV 31 %" in text
    assert lines[-1].endswith("00:00:09 dgx2: no route") and "long ago" not in text


def test_figures_that_are_old_tell_their_age() -> None:
    assert engine_line({"running": 1.0, "at": 100.0}, 160.0) == "1 running   1:00 ago"
    assert engine_line({}, 0.0) == ""


def test_top_as_json_has_the_trend_and_what_holds() -> None:
    data = json.loads(json.dumps(top_json(snapshot((GUARD,)))))
    assert data["lowest"] == {
        "node": "dgx1",
        "mem_available_bytes": 14 * GIB,
        "seconds_to_empty": 40.0,
        "age_s": None,
        "not_counted": [],
    }
    assert [(a["code"], a["state"]) for a in data["alarms"]] == [("node-lost", "raised")]
    assert [n["state"] for n in data["nodes"]] == ["fresh", "lost"]


def test_guards_in_words_one_line_when_well_and_one_for_each_that_is_not() -> None:
    well, unknown = guard_lines(snapshot((GUARD,)))[::-1]
    assert well == "  guard     1 of 2 run: floor 1.0 GiB while serving (told by the console)"
    assert unknown == "  guard     rank 1 on dgx2: not known: no route"
    trip = GuardTrip(0.0, "loading", 4 * GIB, 3 * GIB, "engine")
    assert (
        "rank 0 on dgx1: killed the rank by the engine at 3.00 GiB"
        in guard_lines(snapshot((replace(GUARD, running=False, trip=trip),)))[0]
    )
    ended = guard_lines(snapshot((replace(GUARD, running=False),)))[0]
    assert ended == "  guard     rank 0 on dgx1: ended: it was killed"


def test_every_alarm_is_listed_as_it_is_set() -> None:
    rows = {r["code"]: r for r in rule_rows(AlarmPolicy(rules={"xid": RuleChange(off=True)}))}
    assert list(rows) == list(CODES)
    assert rows["memory-low"]["when"] == "below 4.0 GiB" and rows["gpu-hot"]["when"] == "above 87 °C for 5 s"
    assert rows["xid"]["severity"] == "off" and rows["rebooted"]["clears"] == "after 3600 s"


def test_the_command_lists_and_tests_without_a_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTDECK_CONFIG_DIR", str(tmp_path))
    out = tmp_path / "out"
    (tmp_path / "settings.toml").write_text(
        f'[alarms.ways]\nbell = false\ncommand = ["tee", "{out}"]\nwebhook = "https://127.0.0.1:1/SECRETWORD"\n'
    )
    assert main(["alarms", "--json"]) == 0
    listed = capsys.readouterr().out
    assert [w["name"] for w in json.loads(listed)["ways"]] == ["command", "webhook"] and "SECRET" not in listed
    assert main(["alarms", "test", "command"]) == 0
    assert json.loads(out.read_text())["code"] == "test"
    capsys.readouterr()
    assert main(["alarms", "test", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)["ways"]
    assert [w["ok"] for w in said] == [True, False] and "SECRET" not in json.dumps(said)
    assert main(["alarms", "test", "pager"]) == 2


def view(name: str, available: int | Absent, state: str = "fresh", temp: float | Absent = 60.0) -> NodeView:
    sample = Sample(name, 1, 0.0, 0.0, 0.0, memory=Memory(available_bytes=available), gpus=(Gpu(0, temp_c=temp),))
    return NodeView(Node(name, f"{name}.lan"), state, 1.0, sample, why="refused" if state == "lost" else "")


def test_nodes_are_ordered_worst_first_and_those_without_the_figure_last() -> None:
    silent = NodeView(Node("dgx0", "h"), "waiting", Absent("none"), Absent("none"))
    rows = [silent, view("dgx2", 9, temp=Absent("[N/A]")), view("dgx3", 3), view("dgx1", Absent("x"), temp=91.0)]
    names = {order: [v.node.name for v in chosen(rows, order)] for order in ORDERS}
    assert names["file"] == ["dgx0", "dgx2", "dgx3", "dgx1"]
    assert names["name"] == ["dgx0", "dgx1", "dgx2", "dgx3"]
    assert names["available"] == ["dgx3", "dgx2", "dgx0", "dgx1"]
    assert names["temp"] == ["dgx1", "dgx3", "dgx0", "dgx2"]
    assert names["age"][0] == "dgx0"


def test_nodes_are_chosen_by_words() -> None:
    rows = [view("dgx1", 1), view("dgx2", 2, "lost"), view("dgx12", 3, "lost")]
    assert [v.node.name for v in chosen(rows, words="LOST dgx1")] == ["dgx12"]
    assert [v.node.name for v in chosen(rows, words="refused")] == ["dgx2", "dgx12"]
    assert chosen(rows, words="nothing") == []


@pytest.mark.parametrize("width", [200, 80, 60, 44, 20])
def test_a_narrow_terminal_keeps_the_columns_that_matter(width: int) -> None:
    text = fitted([node_cells(v) for v in snapshot().nodes], width)
    assert all(word in text[0] for word in ("node", "state", "age", "available"))
    assert ("used" in text[0]) == (width > 70) and all("14" in line for line in text[1:2])


def test_the_picture_says_how_many_are_left_out() -> None:
    snap = snapshot()
    some = replace(snap, nodes=snap.nodes[:1])
    assert picture(some, 10.0, 80, 2)[0].startswith("spark8   1 of 1 nodes shown answer (2 in all)")
    assert picture(snap, 10.0, 80, 2)[0].startswith("spark8   1 of 2 nodes answer")


async def test_the_live_picture_follows_the_size_of_its_window(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = iter([(120, 24), (46, 8), (20, 3)])

    class Hub:
        def snapshot(self) -> Snapshot:
            return snapshot()

        def now(self) -> float:
            return 10.0

    async def next_size(seconds: float) -> None:
        print("\x00", end="")

    def size() -> tuple[int, int]:
        try:
            return next(sizes)
        except StopIteration:
            raise asyncio.CancelledError from None

    monkeypatch.setattr(cmd_top, "_size", size)
    monkeypatch.setattr(asyncio, "sleep", next_size)
    with pytest.raises(asyncio.CancelledError):
        await cmd_top._picture(argparse.Namespace(sort="file", filter=""), Hub())  # type: ignore[arg-type]
    pictures = capsys.readouterr().out.split("\x00")[:3]
    for text, (columns, rows) in zip(pictures, [(120, 24), (46, 8), (20, 3)], strict=True):
        lines = [line.removesuffix("\x1b[K") for line in text.split("\x1b[H")[1].split("\x1b[J")[0].split("\r\n")]
        assert max(len(line) for line in lines) <= columns and len(lines) <= rows
    assert "no route" in pictures[0] and "more lines" in pictures[1]


def test_one_look_names_the_nodes_that_it_does_not_know_and_what_it_cannot_judge() -> None:
    seen = snapshot()
    assert unknown_nodes(seen) == {}  # dgx2 counts as lost: that is known
    yet = replace(seen, alarms=())
    assert unknown_nodes(yet) == {"dgx2": "no route"}
    waiting = replace(yet, nodes=(replace(yet.nodes[1], state="waiting", trouble="", why=""),))
    assert unknown_nodes(waiting) == {"dgx2": "no sample yet"}
    later = not_judged(AlarmPolicy(), 6.0)
    assert {"memory-falls", "memory-pressure", "gpu-clock-latch", "drafts-rejected", "stalled"} <= set(later)
    assert not {"gpu-hot", "swapping", "memory-low", "node-lost"} & set(later)
    off = AlarmPolicy(rules={"memory-falls": RuleChange(off=True), "stalled": RuleChange(off=True)})
    assert not {"memory-falls", "stalled"} & set(not_judged(off, 6.0))
    assert lost_after(AlarmPolicy()) == 13.0
    assert lost_after(AlarmPolicy(rules={"node-lost": RuleChange(enter=30.0)})) == 33.0


def look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *snaps: Snapshot, policy: AlarmPolicy
) -> tuple[int, str]:
    """`alarms now` on a hub that comes to know one snapshot after the other."""
    left = list(snaps)
    hub = SimpleNamespace(snapshot=lambda: left.pop(0) if len(left) > 1 else left[0], settled=settled)
    world: Any = SimpleNamespace(
        settings=lambda: SimpleNamespace(alarms=policy), hub=lambda **_: contextlib.nullcontext(hub)
    )
    monkeypatch.setattr(cmd_alarms, "LOOK_S", 0.001)
    out = Out(as_json=False)
    code = asyncio.run(cmd_alarms.now(argparse.Namespace(), world, out))
    out.finish()
    return code, capsys.readouterr().out


async def settled(*, timeout: float) -> None:
    del timeout


def test_one_look_waits_until_a_node_counts_as_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = snapshot()
    yet = replace(found, alarms=())
    code, text = look(monkeypatch, capsys, yet, yet, yet, found, policy=AlarmPolicy())
    assert code == 0 and "node-lost: dgx2: no route" in text and "not known yet" not in text


def test_one_look_never_says_nothing_of_a_node_that_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cmd_alarms, "LOST_S", 0.01)
    off = AlarmPolicy(rules={"node-lost": RuleChange(off=True)})
    code, text = look(monkeypatch, capsys, replace(snapshot(), alarms=()), policy=off)
    assert code == 4
    assert text.splitlines()[:2] == ["dgx2: not known yet: no route", "no alarm holds as far as nodes answered"]
    assert "cannot judge what takes time: " in text and "memory-falls" in text
