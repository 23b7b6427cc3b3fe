"""A stop as it is seen: who was asked what and since when, how it came out, what to do; and the question before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from console.boot.events import ContainerSeen, Event, NodeBack, NodeLost, StepChanged, StopEnded, StopSeen, StopStarted
from console.boot.reduce import reduce
from console.boot.state import STOP_AGAIN, STOP_ASK, STOP_WORKERS, BootState, Phase
from console.tui.boot_lines import phase_span
from console.tui.glyphs import UNICODE
from console.tui.launch_lines import stop_question
from console.tui.spans import plain, width_of
from console.tui.stop_lines import stop_lines, stop_sentence
from tests.tui import fake_values as v
from tests.tui.conftest import SIZES, SMALL, deck
from tests.tui.fake_hub import EVIL, FakeHub

NOW = v.T0
SILENT = "accepts TCP but sshd says nothing"


def added(boot: BootState, events: Sequence[Event]) -> BootState:
    for event in events:
        boot = reduce(boot, event)
    return boot


def begun() -> BootState:
    """Seven nodes answered at once, dgx3 did not; dgx1 is being stopped."""
    asked = [StepChanged(NOW, STOP_ASK, f"dgx{i}", "running", limit_s=15.0) for i in range(1, 9)]
    lost = NodeLost(NOW - 60, "dgx3", "silent", SILENT)
    done = [StopSeen(NOW + 2, f"dgx{i}", "stopped") for i in (4, 5, 6, 7, 8)]
    head = StepChanged(NOW + 2, STOP_WORKERS, "dgx1", "running", limit_s=50.0)
    return added(
        v.booting(NOW), [lost, StopStarted(NOW, "me"), *asked, head, *done, StopSeen(NOW + 3, "dgx2", "nothing")]
    )


def text(boot: BootState, now: float, width: int = 120, key: str = "s") -> str:
    return "\n".join(plain(line) for line in stop_lines(boot, now, width, UNICODE, key))


def test_each_node_says_what_it_was_asked_and_how_long_it_is_waited_for() -> None:
    said = text(begun(), NOW + 12)
    assert "stopping by me for 12s: 6 of 8 nodes are done" in said
    silent = next(line for line in said.splitlines() if "dgx3" in line)
    assert "asked 12 s" in silent and "no answer yet, at most 15 s" in silent and SILENT in silent
    busy = next(line for line in said.splitlines() if "dgx1" in line)
    assert "asked 10 s" in busy and "stop workers" in busy and "at most 50 s" in busy
    assert "✓ stopped" in said and "dgx4, dgx5, dgx6, dgx7, dgx8" in said and "had nothing dgx2" in said


def test_a_node_that_is_asked_once_more_is_not_told_as_unknown_meanwhile() -> None:
    boot = added(begun(), [StopSeen(NOW + 15, "dgx3", "unknown", f"dgx3 {SILENT}")])
    assert "no answer" in text(boot, NOW + 16)
    boot = added(boot, [StepChanged(NOW + 18, STOP_AGAIN, "dgx3", "running", limit_s=5.0)])
    assert "asked 2 s" in text(boot, NOW + 20) and "ask once more" in text(boot, NOW + 20)


def ended() -> BootState:
    seen = [StopSeen(NOW + 9, "dgx1", "stopped"), StopSeen(NOW + 15, "dgx3", "unknown", f"dgx3 {SILENT}")]
    return added(begun(), [*seen, StopEnded(NOW + 15, "partly")])


def test_a_stop_that_a_node_did_not_answer_ends_and_says_what_to_do() -> None:
    boot = ended()
    assert phase_span(boot, UNICODE)[0] == "▲ partly stopped"
    said = text(boot, NOW + 20)
    assert "stopped on 7 of 8; dgx3 does not answer: its container may still run" in said
    assert "[s] asks it again" in said and "removing nightdeck-dsv41-flash-8x-b11-r2 at dgx3 itself" in said
    assert f"? unknown         {SILENT}; last seen running" in said
    assert "[s]" not in text(boot, NOW + 20, key="")


@pytest.mark.parametrize("size", [(80, 15), (154, 10)])
def test_the_outcome_and_the_advice_fit_the_pane(size: tuple[int, int]) -> None:
    assert len(stop_lines(ended(), NOW + 20, size[0], UNICODE, "s")) <= size[1]


def test_a_rank_whose_node_was_never_seen_is_not_told_as_asked() -> None:
    boot = added(begun(), [StopSeen(NOW + 9, "dgx1", "stopped"), StopSeen(NOW + 9, "dgx3", "stopped")])
    boot = replace(boot, ranks=(*boot.ranks[:7], replace(boot.ranks[7], node="")))
    boot = added(replace(boot, stop_results={n: r for n, r in boot.stop_results.items() if n != "dgx8"}), [
        StopEnded(NOW + 15, "stopped")
    ])  # fmt: skip
    said = text(boot, NOW + 16)
    assert "every node was asked" not in said and "7 nodes that answered" in said and "where rank 7 ran" in said
    unheard = replace(boot, ranks=boot.ranks[:7], stop_results=dict(list(boot.stop_results.items())[1:]))
    assert "every node was asked" not in text(unheard, NOW + 16)


def test_a_node_that_comes_back_after_the_stop_tells_what_it_runs() -> None:
    boot = added(ended(), [NodeBack(NOW + 99, "dgx3"), ContainerSeen(NOW + 99, 2, "running")])
    assert "✗ answers again" in text(boot, NOW + 100) and "its container is running" in text(boot, NOW + 100)
    assert phase_span(boot, UNICODE)[0] == "▲ partly stopped"
    boot = added(boot, [ContainerSeen(NOW + 120, r, "absent") for r in range(8)])
    assert boot.phase is Phase.STOPPED and phase_span(boot, UNICODE)[0] == "○ stopped"


def test_another_stop_begins_with_nothing_of_the_one_before() -> None:
    boot = added(ended(), [StopStarted(NOW + 200, "me")])
    assert phase_span(boot, UNICODE)[0] == "▲ stopping"
    said = text(boot, NOW + 201)
    assert "stopping by me for 1s: 0 of 8 nodes are done" in said and said.count("its container is running") == 7


def test_of_another_consoles_stop_what_is_seen_is_told() -> None:
    gone = [ContainerSeen(NOW + 5, r, "absent") for r in range(6)]
    boot = added(
        v.booting(NOW), [StopStarted(NOW, "ann@desk, stopping"), *gone, NodeLost(NOW + 6, "dgx8", "silent", SILENT)]
    )
    said = text(boot, NOW + 9)
    assert "stopping by ann@desk for 9s: 6 of 8 nodes are done" in said
    assert "still there" in said and "its container is running" in said and SILENT in said
    said = text(added(boot, [StopEnded(NOW + 180, "partly")]), NOW + 181)
    assert "stopped on 6 of 8; dgx8 does not answer: its container may still run; on dgx7 it still runs" in said


def test_what_was_verified_stays_so_when_a_node_is_cut_later() -> None:
    gone = [ContainerSeen(NOW + 5, r, "absent") for r in range(8)]
    boot = added(v.booting(NOW), [StopStarted(NOW, "ann@desk, stopping"), *gone, StopEnded(NOW + 6, "stopped")])
    boot = added(boot, [NodeLost(NOW + 900, "dgx8", "silent", SILENT)])
    said = text(boot, NOW + 901)
    assert "stopped: every node was asked" in said or "stopped: nothing of it is left" in said
    assert "may still run" not in said and "no launch" not in said and "last seen" not in said


def test_a_stop_whose_console_died_is_not_told_as_going_on() -> None:
    said = text(begun(), NOW + 900)
    assert "no word" in said and "nothing was heard of this stop for long" in said and "[s] asks again" in said


def test_a_node_without_a_rank_of_it_is_not_said_to_run_one() -> None:
    boot = v.stopped(NOW)
    results = {**{r.node: ("stopped", "") for r in boot.ranks}, "dgx9": ("unknown", "dgx9: refused")}
    said = text(replace(boot, stop_results=results), NOW)
    assert "dgx9 does not answer, and had no rank of it" in said and "may still run" not in said


def test_stop_words_never_lie() -> None:
    boot = v.stopped(NOW)
    assert stop_sentence(boot.stop_results) == "6 stopped, 1 still running (dgx6), 1 unknown (dgx8: no answer in 10 s)"
    assert phase_span(boot, UNICODE)[0] == "▲ partly stopped"
    said = text(boot, NOW)
    assert "stopped on 6 of 8; dgx8 does not answer: its container may still run; on dgx6 it still runs" in said
    clean = replace(boot, phase=Phase.STOPPED, stop_result="stopped", stop_results={"dgx1": ("stopped", "")})
    assert phase_span(clean, UNICODE)[0] == "○ stopped"
    assert stop_sentence({}) == "nobody was asked yet"
    assert stop_sentence({"dgx8": ("unknown", "dgx8 is silent")}) == "1 unknown (dgx8: is silent)"


def test_the_question_does_not_take_a_lost_node_for_an_ended_one() -> None:
    boot = begun()
    ranks = tuple(replace(r, status="exited") if r.rank == 2 else r for r in boot.ranks)
    said = "\n".join(plain(line) for line in stop_question(replace(boot, ranks=ranks), NOW, 100, UNICODE))
    row = next(line for line in said.splitlines() if "-r2" in line)
    assert "✗ lost, was exited" in row
    assert "dgx3 does not answer: what runs there is not known." in said


@pytest.mark.parametrize("size", SIZES)
async def test_s_stops_again_after_a_partial_stop(size: tuple[int, int]) -> None:
    hub = FakeHub("stopped")
    async with deck(hub=hub, size=size) as d:
        d.main.choose_pane("boot")
        await d.settle()
        assert "stopped on 6 of 8" in d.text() and "partly stopped" in d.text() and "[s] asks them again" in d.text()
        await d.press("s")
        assert "Stop boot 11 again" in d.text()
        await d.press("S")
        await d.app.jobs.idle()
        assert d.calls("stop") == [hub.snapshot().boot.deployment if hub.snapshot().boot else None]


async def test_the_running_stop_is_seen_in_the_pane() -> None:
    hub = FakeHub()
    async with deck(hub=hub, size=SMALL) as d:
        hub.set_boot(begun())
        hub.time = NOW + 12
        d.main.choose_pane("boot")
        await d.settle()
        assert "asked 12 s" in d.text() and "6 of 8 nodes are done" in d.text()
        assert "of 1:00:00" not in d.text()


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_names_and_words_stay_words_in_a_stop_and_in_what_stands_in_the_way(
    size: tuple[int, int],
) -> None:
    hub = FakeHub("hostile")
    boot = hub.snapshot().boot
    assert boot is not None
    ranks = tuple(replace(r, node=f"{EVIL}{r.rank}", reachable=r.rank != 2) for r in boot.ranks)
    results = {r.node: ("unknown" if r.rank == 2 else "still_running", EVIL) for r in ranks}
    half = replace(
        boot, ranks=ranks, phase=Phase.STOPPING, stop_result="partly", stop_results=results, stop_at=NOW, stop_by=EVIL
    )
    async with deck(hub=hub, size=size, toasts=True) as d:
        for shown in (half, replace(half, stop_result=None, stop_results={})):
            hub.set_boot(shown)
            d.main.choose_pane("boot")
            await d.settle()
            for key in ("", "s", "l", "p", "q"):
                if key:
                    await d.press(key)
                seen = d.text()
                assert not {"\x1b", "\u202e", "\x9b", "\x00"} & set(seen), key
                assert all(width_of(line) == size[0] for line in seen.splitlines()), key
                if key:
                    await d.press("escape")
