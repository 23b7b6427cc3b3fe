"""A past boot in the same screens: opened from the ledger, played, sought, jumped in, and never taken for now."""

from __future__ import annotations

import asyncio
import time

import pytest

from console.base.errors import UsageError
from console.boot.state import Phase
from console.services.replay_marks import Mark, Replaying, read_index
from console.tui.app import NightdeckApp
from console.tui.glyphs import ASCII, UNICODE
from console.tui.replay_bar import bar_lines, time_line
from console.tui.screens.replay import ReplayScreen
from console.tui.spans import line_width, plain
from tests.tui.conftest import SIZES, SMALL, Deck, deck
from tests.tui.fake_hub import FakeHub
from tests.tui.replays import replay_hub, rows


def test_the_marks_tell_what_happened_and_peers_are_one_place() -> None:
    index = read_index(rows())
    assert index.total == 190.0
    assert index.rows is not None and len(index.rows) == len(rows())
    assert [(m.at, m.kind, m.severity) for m in index.marks] == [
        (0.0, "event", ""),
        (2.0, "event", ""),
        (10.0, "stage", ""),
        (20.0, "stage", ""),
        (30.0, "stage", ""),
        (100.0, "memory", "warn"),
        (150.0, "event", "bad"),
        (151.0, "event", "bad"),
        (151.0, "event", "bad"),
        (160.0, "event", "bad"),
        (185.0, "event", "ok"),
    ]
    words = [m.words for m in index.marks]
    assert words[1] == "rank 0 on dgx1 runs; likewise others"
    assert words[4] == "weights: rank 0 is the first"
    assert words[5] == "lowest memory: 2.0 GiB available on dgx2"
    assert words[6] == "rank 2 on dgx3 ended with exit code 1"


async def test_jumps_go_from_mark_to_mark_in_both_directions() -> None:
    hub = replay_hub()
    hub.index = read_index(rows())
    stops = []
    while (mark := await hub.go_to(1, "event")) is not None:
        stops.append(hub.position)
        assert mark.at == hub.position
    assert stops == [2.0, 150.0, 151.0, 160.0, 185.0]
    assert hub.snapshot().boot is not None and hub.snapshot().boot.phase is Phase.FAILED  # type: ignore[union-attr]
    turn = hub.replaying.turn
    await hub.go_to(-1, "event")
    await hub.go_to(-1, "event")
    await hub.go_to(-1, "event")
    assert (hub.position, hub.replaying.turn) == (150.0, turn + 3)
    await hub.go_to(-1, "stage")
    assert hub.position == 30.0
    assert hub.snapshot().boot.phase is Phase.BOOTING  # type: ignore[union-attr]
    await hub.go_to(0, "memory")
    assert hub.position == 100.0
    assert [n.sample.memory.available_bytes >> 30 for n in hub.snapshot().nodes] == [20, 2, 20]  # type: ignore[union-attr]
    await hub.seek(-5.0)
    assert hub.position == 0.0
    await hub.seek(1e9)
    assert hub.position == 190.0 and hub.ended


async def test_a_rank_that_prints_is_not_taken_for_silent_between_two_kept_events() -> None:
    hub = replay_hub()
    await hub.seek(140.0)
    boot = hub.snapshot().boot
    assert boot is not None
    assert boot.ranks[0].last_line_at == hub.now()
    assert hub.now() - (boot.ranks[1].last_line_at or 0.0) > 100


async def opened(d: Deck) -> ReplayScreen:
    d.main.choose_pane("boots")
    await d.press("down", "enter")
    await d.app.jobs.idle()
    screen = d.app.screen
    assert isinstance(screen, ReplayScreen)
    async with asyncio.timeout(60):
        while screen.hub.replaying.total is None:  # noqa: ASYNC110  a thread reads it
            await asyncio.sleep(0.01)
    await redraw(d, screen)
    return screen


async def redraw(d: Deck, screen: ReplayScreen) -> None:
    await d.app.jobs.idle()
    await d.pilot.pause()
    screen.draw()
    await d.pilot.pause()


@pytest.mark.parametrize("size", SIZES)
async def test_enter_on_a_past_boot_shows_it_as_it_was_lived(size: tuple[int, int]) -> None:
    async with deck(size=size) as d:
        screen = await opened(d)
        assert d.calls("replay") == [("b10")]
        text = d.text()
        assert text.count("REPLAY") >= 2
        assert "paused" in text
        assert "of 3:10" in text
        assert "it was " in text.splitlines()[0]
        await d.press("greater_than_sign", "greater_than_sign")
        await redraw(d, screen)
        text = d.text()
        assert "rank 2 on dgx3 ended with exit code 1" in text
        assert "2:30" in text
        await d.press("greater_than_sign")
        await redraw(d, screen)
        assert "Free memory on dgx3 is less than asked for." in d.text()
        await d.press("left_curly_bracket")
        await redraw(d, screen)
        assert "weights" in d.text()
        assert "0:30 of 3:10" in d.text()
        await d.press("m")
        await redraw(d, screen)
        assert "lowest memory: 2.0 GiB available on dgx2" in d.text()
        await d.press("full_stop", "left_parenthesis")
        await redraw(d, screen)
        assert "0:50 of 3:10" in d.text()
        await d.press("escape")
        await d.pilot.pause()
        assert d.app.screen is d.main
        assert "REPLAY" not in d.text()
        await d.app.jobs.idle()


async def test_the_log_goes_back_with_time_and_space_plays() -> None:
    async with deck() as d:
        screen = await opened(d)
        await d.press("m")
        await redraw(d, screen)
        screen.logs.view.flush()
        held = len(screen.logs.view.store)
        assert held == 2 * 98
        await d.press("left_curly_bracket")
        await redraw(d, screen)
        screen.logs.view.flush()
        assert len(screen.logs.view.store) == 2 * 28
        assert "line 61 of rank 0" in d.text()
        await d.press("plus", "plus", "plus", "space")
        assert not screen.hub.replaying.paused
        assert screen.hub.replaying.speed == 10.0
        begin = time.monotonic()
        async with asyncio.timeout(60):
            while screen.hub.replaying.position < 35.0:  # noqa: ASYNC110  the replay's own beat moves it
                await asyncio.sleep(0.02)
        assert time.monotonic() - begin < 50
        await d.press("space", "minus")
        at = screen.hub.replaying
        assert (at.paused, at.speed) == (True, 5.0)


async def test_a_click_on_the_line_of_time_seeks() -> None:
    async with deck(size=SMALL) as d:
        screen = await opened(d)
        await d.pilot.click("#replay-bar", offset=(40, 1))
        await redraw(d, screen)
        assert 80 < screen.hub.replaying.position < 110


async def test_a_replay_has_no_action_of_the_present() -> None:
    async with deck() as d:
        screen = await opened(d)
        keys = d.text().splitlines()[-1]
        assert "space pause" in keys and "<> event" in keys and "m lowest" in keys
        assert "launch" not in keys and "follow" not in keys
        await d.press("l", "s", "r", "p", "d", "e", "n", "c", "C")
        assert d.app.screen is screen
        await d.press("question_mark")
        assert "replay.next-stage" in d.text()
        assert "deployment.launch" not in d.text()
        await d.press("escape")
        d.hub.say("boot 12 failed")
        d.main.draw()
        await d.pilot.pause()
        assert any("now, not in the replay: boot 12 failed" in n.message for n in d.app._notifications)


async def test_a_boot_that_kept_no_events_is_shown_as_text() -> None:
    hub = FakeHub()
    hub.replay_error = UsageError("this boot kept no events")
    async with deck(hub=hub) as d:
        d.main.choose_pane("boots")
        await d.press("R")
        await d.app.jobs.idle()
        await d.pilot.pause()
        assert "seconds in each stage" in d.text()
        assert any("cannot be replayed" in n.message for n in d.app._notifications)


async def test_the_console_on_a_replay_alone_ends_with_q() -> None:
    app = NightdeckApp(replay_hub())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, ReplayScreen)
        await pilot.press("q")
    assert app.return_value == 0


def test_the_bar_fits_and_says_what_is_wrong() -> None:
    marks = (Mark(5.0, "event", "rank 5 ended", "bad"), Mark(50.0, "stage", "weights"), Mark(60.0, "memory", "low"))
    at = Replaying("boot 7", 10.0, 100.0, 10.0, False, False, marks)
    for width in (40, 80, 160):
        for glyphs in (UNICODE, ASCII):
            lines = bar_lines(at, 0.0, width, glyphs)
            assert len(lines) == (2 if width > 120 else 3)
            assert {line_width(line) for line in lines} == {width}
    line = plain(time_line(at, 80, UNICODE))
    assert line.index("✗") < line.index("▌") < line.index("|") < line.index("▾")
    broken = Replaying("x", 0.0, None, 1.0, False, False, why="cannot be read")
    assert "cannot be read" in plain(bar_lines(broken, 0.0, 80, UNICODE)[2])
    assert "?" not in plain(time_line(broken, 80, UNICODE))
