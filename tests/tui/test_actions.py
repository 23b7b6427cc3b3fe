"""Keys and modal questions: the focus on cancel, another key to agree, nothing in a read-only console."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from textual.widgets import Input

from console.base.errors import NightdeckError
from console.base.findings import Finding, Severity
from console.boot.state import Phase
from console.tui.actions import ACTIONS, bindings, docs_table, offered
from console.tui.launch_lines import in_the_way, still_here, without_its_own
from console.tui.leaving import _where
from console.tui.screens.confirm import ConfirmScreen
from tests.tui import fake_values as v
from tests.tui.conftest import SIZES, WIDE, Deck, deck
from tests.tui.fake_hub import FakeHub


def told(d: Deck) -> str:
    return "\n".join(n.message for n in d.app._notifications)


def test_every_action_has_an_id_a_key_and_words_of_its_own() -> None:
    ids = [a.id for a in ACTIONS]
    assert len(set(ids)) == len(ids)
    for where in ("live", "replay"):
        keys = [key for a in ACTIONS if a.place in ("", where) for key in a.keys.split(",")]
        assert len(set(keys)) == len(keys)
    assert all(b.id for b in bindings())
    assert "| `l` | `deployment.launch` |" in docs_table()


@pytest.mark.parametrize("size", SIZES)
async def test_launch_shows_the_plan_asks_and_needs_another_key(size: tuple[int, int]) -> None:
    async with deck("empty", size=size) as d:
        await d.press("l")
        text = d.text()
        assert "Launch dsv41-flash-8x" in text
        assert "preflight: nothing blocks" in text
        assert d.app.focused is not None
        assert d.app.focused.id == "cancel"
        await d.press("enter")
        assert d.calls("launch") == []
        await d.press("l", "l")
        assert d.calls("launch") == []
        await d.press("L")
        await d.app.jobs.idle()
        assert d.calls("launch") == [("dsv41-flash-8x", ())]
        await d.settle()


@pytest.mark.parametrize("size", SIZES)
async def test_a_key_pressed_while_the_nodes_are_looked_at_is_answered(size: tuple[int, int]) -> None:
    hub = FakeHub("empty")
    hub.plan_hold = asyncio.Event()
    async with deck(hub=hub, size=size) as d:
        await d.press("l")
        hub.update(looking=(3, 8))
        await d.press("L")
        assert "wait: looking at the nodes: 3 of 8 have answered" in d.text()
        assert d.calls("launch") == []
        hub.plan_hold.set()
        hub.update(looking=None)
        while "nothing blocks" not in d.text():
            await d.pilot.pause(0.01)
        assert "wait:" not in d.text() and "esc cancels" in d.text()
        assert d.calls("launch") == []  # nobody had seen the plan
        await d.press("L")
        await d.app.jobs.idle()
        assert d.calls("launch") == [("dsv41-flash-8x", ())]


@pytest.mark.parametrize("size", SIZES)
async def test_a_launch_beside_a_boot_that_serves_says_so_and_offers_restart_and_stop(size: tuple[int, int]) -> None:
    hub = FakeHub("ready")
    async with deck(hub=hub, size=size) as d:
        await d.press("l")
        text = " ".join(d.text().replace("│", " ").split())
        assert "boot 11 (dsv41-flash-8x) is READY here, on 8 nodes: restart with this recipe, or stop it" in text
        assert "earlier deployment" not in text
        await d.press("L")
        assert d.calls("launch") == [] and "is READY here" in d.text().splitlines()[-1 if size[1] < 30 else -5]
        await d.press("greater_than_sign", "r")
        assert "Restart dsv41-flash-4x" in d.text() and "first boot 11 is stopped on 8 nodes" in d.text()
        await d.press("escape", "l", "s")
        assert "Stop boot 11" in d.text()
        await d.press("escape")
        hub.set_boot(None)
        await d.press("l")
        assert "Restart with it" not in d.text() and "Stop it" not in d.text()
        await d.press("s", "r")
        assert "Launch dsv41" in d.text()


def test_what_stands_in_a_launchs_way_is_told_by_what_it_is() -> None:
    failed = v.failed(v.T0)
    ended = replace(failed, ranks=tuple(replace(r, status="exited") for r in failed.ranks))
    assert still_here(ended) is None
    alive = replace(failed, ranks=(*ended.ranks[:7], replace(failed.ranks[7], status="running")))
    assert still_here(alive) is alive and "has failed and still has containers here" in in_the_way(alive)
    half = v.stopped(v.T0)
    assert still_here(half) is half and "is not stopped on every node" in in_the_way(half)
    assert still_here(replace(half, phase=Phase.STOPPED, stop_result="stopped")) is None


async def test_what_no_boot_is_known_of_is_stopped_from_where_it_stands_in_the_way() -> None:
    hub = FakeHub("empty")
    made = v.plan("dsv41-flash-8x")
    left = Finding(
        "leftover-container", Severity.BLOCK, "nd-old-b3-r5 of an earlier deployment is created", node="dgx3"
    )
    hub.plan_made = replace(made, findings=(left,))
    async with deck(hub=hub, size=(80, 24)) as d:
        await d.press("l")
        text = " ".join(d.text().replace("│", " ").split())
        assert "containers of an earlier deployment stand on dgx3: stop them first" in text
        assert "type leftover-container" not in text  # the hub refuses it whatever is typed
        await d.press("L")
        assert d.calls("launch") == []
        await d.press("s")
        assert "Stop what is left" in d.text()
        await d.press("S")
        await d.app.jobs.idle()
        assert d.calls("stop") == ["*"]


def test_a_restart_does_not_ask_for_the_codes_that_its_own_stop_lifts() -> None:
    made = v.plan("dsv41-flash-8x")
    codes = ("leftover-container", "port-busy", "memory-exhausted", "model-missing")
    made = replace(made, findings=tuple(Finding(c, Severity.BLOCK, c, node="dgx1") for c in codes))
    assert [f.code for f in without_its_own(made, restart=True).blocks] == ["model-missing"]
    assert [f.code for f in without_its_own(made, restart=False).blocks] == ["model-missing"]
    foreign = replace(made, findings=(Finding("engine-running", Severity.BLOCK, "x", node="dgx1"),))
    assert without_its_own(foreign, restart=False).blocks and not without_its_own(foreign, restart=True).blocks


async def test_launch_lists_memory_nodes_and_containers() -> None:
    async with deck("empty") as d:
        await d.press("l")
        text = d.text()
        for words in (
            "nightdeck-dsv41-flash-8x-b12-r7",
            "dgx8",
            "head",
            "KV cache 16.8",
            "stays 18.7 of 121.7 GiB",
            "0.91 → 0.80",
        ):
            assert words in text


async def test_a_blocked_launch_says_what_to_do_and_is_overridden_by_code() -> None:
    hub = FakeHub("empty")
    hub.blocked = True
    async with deck(hub=hub) as d:
        await d.press("l")
        text = d.text()
        assert "blocked" in text
        assert "stop it on dgx3, or override by its code" in text
        await d.press("L")
        assert d.calls("launch") == []
        d.app.screen.query_one("#override", Input).focus()
        await d.press(*"foreign-container", "enter", "enter")
        await d.app.jobs.idle()
        assert d.calls("launch") == [("dsv41-flash-8x", ("foreign-container",))]


async def test_a_plan_that_fails_is_told_and_cannot_be_launched() -> None:
    hub = FakeHub("empty")
    hub.plan_error = NightdeckError("the image is nowhere", where="dgx2", remedy="image sync first")
    async with deck(hub=hub) as d:
        await d.press("l")
        assert "dgx2: the image is nowhere (image sync first)" in d.text()
        await d.press("L")
        assert d.calls("launch") == []
        d.hub.plan_error = None
        await d.press("ctrl+r")
        assert "nothing blocks" in d.text()


async def test_launch_turns_to_another_recipe() -> None:
    async with deck("waiting") as d:
        await d.press("l")
        assert "(1 of 3)" in d.text()
        await d.press("greater_than_sign", "greater_than_sign")
        assert "Launch glm-5-8x  (3 of 3)" in d.text()
        await d.press("L")
        await d.app.jobs.idle()
        assert d.calls("launch") == [("glm-5-8x", ())]


async def test_a_launch_under_way_is_aborted_by_s_and_cleans_up() -> None:
    hub = FakeHub("empty")
    hub.hold = asyncio.Event()
    async with deck(hub=hub) as d:
        await d.press("l", "L")
        assert "launching dsv41-flash-8x" in d.text()
        await d.press("l")
        assert "under way" in told(d)
        await d.press("s", "A")
        await d.app.jobs.idle()
        assert d.calls("launch cancelled") == ["dsv41-flash-8x"]


@pytest.mark.parametrize("size", SIZES)
async def test_stop_lists_what_runs_where_and_tells_the_truth(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        await d.press("s")
        text = d.text()
        assert "Stop boot 11" in text
        assert "nightdeck-dsv41-flash-8x-b11-r7" in text
        assert d.app.focused is not None
        assert d.app.focused.id == "cancel"
        await d.press("escape")
        assert d.calls("stop") == []
        await d.press("s", "S")
        await d.app.jobs.idle()
        await d.settle()
        assert d.calls("stop") == ["dsv41-flash-8x-b11-7f3a"]
        assert "1 still running (dgx6), 1 unknown (dgx8: no answer in 10 s)" in told(d)


async def test_restart_shows_what_changed() -> None:
    async with deck() as d:
        await d.press("r")
        assert "Restart dsv41-flash-8x" in d.text()
        assert "--gpu-memory-utilization 0.91 → 0.80" in d.text()
        assert "first boot 11 is stopped on 8 nodes" in d.text()
        await d.press("R")
        await d.app.jobs.idle()
        assert d.calls("restart") == [("dsv41-flash-8x", ())]


@pytest.mark.parametrize(
    ("keys", "call", "what"),
    [((), "keep", None), (("plus",), "extend", 900.0), (("S",), "stop", "dsv41-flash-8x-b11-7f3a")],
)
async def test_the_deadline_is_asked_once_and_the_default_keeps(keys: tuple[str, ...], call: str, what: object) -> None:
    async with deck("deadline") as d:
        assert "Boot 11 is not ready after 1:01:40" in d.text()
        assert d.app.focused is not None
        assert d.app.focused.id == "cancel"
        await d.press(*(keys or ("enter",)))
        await d.app.jobs.idle()
        assert d.calls(call) == [what]
        await d.settle()
        assert d.app.screen is d.main


async def test_a_failed_launch_asks_keep_or_roll_back_and_can_be_answered_later() -> None:
    async with deck("launch_failed") as d:
        assert "Launch of boot 11 failed" in d.text()
        await d.press("B")
        await d.app.jobs.idle()
        assert d.calls("roll_back") == [None]
    hub = FakeHub("launch_failed")
    async with deck(hub=hub) as d:
        await d.press("escape")
        await d.app.jobs.idle()
        assert d.calls("keep") == [None]


async def test_note_time_and_verify() -> None:
    async with deck() as d:
        await d.press("n", *"LL128 off", "enter", "plus")
        await d.app.jobs.idle()
        assert d.calls("note") == ["LL128 off"]
        assert d.calls("extend") == [900.0]
        d.hub.set_boot(v.ready(d.hub.now()))
        await d.press("v")
        await d.app.jobs.idle()
        assert "the API answered: 391" in told(d)


async def test_quit_says_what_keeps_running() -> None:
    async with deck() as d:
        await d.press("q")
        assert "It keeps running on 8 nodes" in d.text()
        await d.press("enter")
        assert d.app.is_running
        await d.press("q", "q")
        assert d.app.return_value == 0
        assert d.calls("stop") == []
    assert d.calls("close") == [None]


def test_what_keeps_running_is_counted_by_what_was_seen_last() -> None:
    boot = v.ready(1_000.0)
    ended = tuple(replace(r, status="absent") if r.rank < 5 else r for r in boot.ranks)
    dark = tuple(replace(r, reachable=False) if r.rank == 7 else r for r in ended)
    assert _where(replace(boot, ranks=ended), "keeps running") == "keeps running on 3 nodes"
    words = _where(replace(boot, ranks=dark), "keeps running")
    assert words == "keeps running on 2 nodes, and perhaps on dgx8, which does not answer"


async def test_before_the_nodes_were_asked_nothing_is_said_of_what_runs() -> None:
    async with deck("empty") as d:
        d.hub.update(looked=False)
        await d.settle()
        assert "The nodes are being asked what runs" in d.text() and "Nothing runs" not in d.text()
        await d.press("s")
        assert "still being asked what runs" in told(d)


async def test_quit_with_nothing_running_is_quick() -> None:
    async with deck("empty") as d:
        await d.press("q")
        assert d.app.return_value == 0


async def test_read_only_has_no_action_that_changes_a_node() -> None:
    async with deck(read_only=True) as d:
        assert "read-only" in d.text()
        keys = d.text().splitlines()[-1]
        assert "launch" not in keys
        assert "stop" not in keys
        await d.press("l", "s", "r", "plus", "n", "v", "a")
        assert d.app.screen is d.main
        assert {name for name, _ in d.hub.calls} - {"look at controls"} == {"start"}
        assert all(not a.changes for a in offered(d.hub.snapshot()))
        await d.press("question_mark")
        assert "deployment.launch" not in d.text()
        assert "read-only" in d.text()


async def test_read_only_is_not_asked_questions() -> None:
    async with deck("deadline", read_only=True) as d:
        assert d.app.screen is d.main


async def test_help_is_the_registry_and_follows_the_keymap() -> None:
    async with deck(keymap={"deployment.launch": "f9", "no.such": "x"}) as d:
        assert "no action is called no.such" in told(d)
        await d.press("question_mark")
        text = d.text()
        assert "f9" in text
        assert "deployment.launch" in text
        await d.press("escape", "l")
        assert d.app.screen is d.main
        await d.press("f9")
        assert isinstance(d.app.screen, ConfirmScreen)


async def test_plan_masks_secrets_and_difference_says_what_changed() -> None:
    async with deck() as d:
        await d.press("p")
        await d.app.jobs.idle()
        await d.pilot.pause()
        text = d.text()
        assert "nothing runs" in text
        assert "HF_TOKEN=***" in text
        assert "hf_abcdefgh" not in text
        await d.press("escape", "d")
        assert "--gpu-memory-utilization 0.91 → 0.80" in d.text()


async def test_palette_has_only_what_is_possible_now() -> None:
    async with deck("empty") as d:
        await d.press("ctrl+p")
        await d.pilot.pause()
        await d.press(*"stop")
        await d.pilot.app.workers.wait_for_complete()
        await d.pilot.pause()
        assert "stop:" not in d.text()
        await d.press("escape")
    async with deck(size=WIDE) as d:
        await d.press("ctrl+p", *"stop")
        await d.pilot.app.workers.wait_for_complete()
        await d.pilot.pause()
        assert "stop: dsv41-flash-8x on 8 nodes  [s]" in d.text()
        await d.press("enter")
        await d.pilot.pause()
        assert "Stop boot 11" in d.text()
