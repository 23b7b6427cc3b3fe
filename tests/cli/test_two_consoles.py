"""Two consoles at once on the same nodes: one launches, the other is told by whom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.services.lease import Lease
from tests.cli.conftest import LabConsole, MakeLab, Ran
from tests.cli.test_ledger_commands import write


def finished(child) -> Ran:  # type: ignore[no-untyped-def]
    out, err = child.communicate(timeout=60)
    return Ran(child.returncode, out, err)


def together(console: LabConsole, recipes: Path) -> list[Ran]:
    words = ("--recipes", str(recipes), "launch", "small", "--detach")
    children = [console.start(*words) for _ in range(3)]
    return [finished(child) for child in children]


def test_of_three_that_launch_at_once_one_does(lab: MakeLab, tmp_path: Path) -> None:
    recipes = tmp_path / "recipes"
    write(recipes, "0.80", "8")
    console = lab(nodes=2, recipes=recipes)
    for _ in range(2):
        ran = together(console, recipes)
        won = [r for r in ran if r.code == 0]
        assert len(won) == 1, [r.err for r in ran]
        for lost in (r for r in ran if r.code != 0):
            assert "another console has the controls" in lost.err or "an earlier deployment still lives" in lost.err
        status = console.run("--recipes", str(recipes), "--json", "status").json
        assert len(status["deployments"]) == 1
        assert sorted(r["node"] for r in status["deployments"][0]["ranks"]) == ["dgx1", "dgx2"]
        assert console.run("--recipes", str(recipes), "stop", "--grace", "1").code == 0


async def test_the_one_who_is_refused_hears_who_holds_it(lab: MakeLab, tmp_path: Path) -> None:
    import asyncio

    from console.assemble import SystemClock
    from console.files.clusters import load_cluster
    from console.transport.pool import make_fleet

    recipes = tmp_path / "recipes"
    write(recipes, "0.80", "8")
    console = lab(nodes=2, recipes=recipes)
    cluster = load_cluster(Path(console.cluster))
    fleet = make_fleet(cluster, SystemClock())
    try:
        async with Lease(fleet, [n.name for n in cluster.nodes], "ann@desk, launching glm-8x", since="02:58:11 UTC"):
            child = console.start("--json", "controls")
            seen = await asyncio.to_thread(finished, child)
            assert (seen.code, seen.json["state"]) == (0, "other"), seen.err
            assert seen.json["holder"] == "ann@desk, launching glm-8x since 02:58:11 UTC"
            for words in (("launch", "small"), ("stop",), ("restart", "small")):
                child = console.start("--recipes", str(recipes), *words)
                ran = await asyncio.to_thread(finished, child)
                assert ran.code == 1
                assert "another console has the controls: ann@desk, launching glm-8x since 02:58:11 UTC" in ran.err
    finally:
        await fleet.close()


def test_what_another_console_stops_is_stopped_and_not_failed(lab: MakeLab, tmp_path: Path) -> None:
    recipes = tmp_path / "recipes"
    write(recipes, "0.80", "8")
    console = lab(nodes=2, recipes=recipes, speed=15)
    follows = console.start("--json", "--recipes", str(recipes), "launch", "small")
    assert follows.stdout is not None
    for line in follows.stdout:
        event = json.loads(line)
        if event.get("event") == "rank_progress" and event["stage"] in ("rendezvous", "nccl", "model", "weights"):
            break
    assert console.run("--recipes", str(recipes), "stop", "--grace", "1").code == 0
    ran = finished(follows)
    assert ran.code == 1
    seen = [json.loads(line) for line in ran.out.splitlines()]
    (boot,) = seen[-1]["deployments"]
    assert boot["state"] in ("stopping", "stopped") and boot["cause"] is None
    (stop,) = [e for e in seen if e.get("event") == "stop_started"]
    assert "stopping since" in stop["by"]


@pytest.mark.slow
async def test_the_controls_are_looked_at_asked_for_and_taken(lab: MakeLab, tmp_path: Path) -> None:
    import asyncio

    from console.assemble import SystemClock
    from console.files.clusters import load_cluster
    from console.services.controls import Controls
    from console.transport.pool import make_fleet

    console = lab(nodes=2)
    cluster = load_cluster(Path(console.cluster))
    fleet = make_fleet(cluster, SystemClock())
    news = asyncio.Event()
    told: list[str] = []
    ann = Controls(
        fleet,
        [n.name for n in cluster.nodes],
        "ann@desk",
        SystemClock(),
        told=lambda _severity, text: told.append(text),
        acted=lambda _what, _detail: None,
        changed=news.set,
    )

    async def ran(*words: str) -> Ran:
        return await asyncio.to_thread(finished, console.start(*words))

    try:
        async with asyncio.timeout(100):
            await ann.hold()
            seen = (await ran("--json", "controls")).json
            assert (seen["state"], seen["holder"].split(" since ")[0]) == ("other", "ann@desk, at the console")
            asking = asyncio.create_task(ran("controls", "--ask", "--wait", "80"))
            while not ann.view.asked_by:
                news.clear()
                await news.wait()
            await ann.release()
            asked = await asking
            assert (asked.code, asked.out) == (0, "the controls were handed over; nobody has them now\n"), asked
            await ann.hold()
            not_mine = await ran("controls", "--release")
            assert not_mine.code == 2 and "not yours to release: ann@desk" in not_mine.err
            stopped = await ran("stop", "--take-over")
            assert stopped.code == 0 and "took the controls from ann@desk" in stopped.err, stopped
            while not ann.taken:
                news.clear()
                await news.wait()
            assert "stopping since" in ann.view.holder and any("only watches now" in t for t in told)
    finally:
        await ann.close()
        await fleet.close()
