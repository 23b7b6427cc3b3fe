"""The tokens a second of a boot: measured once, by the request that makes it ready."""

from __future__ import annotations

from console.boot.events import ApiSeen, BootOpened, ContainerSeen, Event, RankRef, SmokeDone
from console.boot.reduce import opened, reduce_all
from console.boot.state import BootState, Phase
from console.boot.summary import merged, summary_of

T = 1_796_000_000.0
OPENED = BootOpened(T, "d", 7, "flash", "Flash", "x", "dgx1", (RankRef(0, "dgx1", "c0"),), T, 3600.0, 8000, "m")
UP = (ContainerSeen(T + 1, 0, "running"), ApiSeen(T + 20, "healthy"))
SANE = SmokeDone(T + 22, True, "Paris", first_token_s=0.2, tokens_per_s=56.5)


def booted(*events: Event) -> BootState:
    return reduce_all(opened(OPENED), (*UP, *events))


def test_no_later_request_takes_its_place() -> None:
    later = SmokeDone(T + 300, True, "Paris", first_token_s=0.9, tokens_per_s=43.1, canary=True)
    row = summary_of(booted(SANE, later, later), None)
    assert (row["tokens_per_s"], row["first_token_s"]) == (56.5, 0.2)


def test_it_is_unknown_where_no_answer_was_sane() -> None:
    state = booted(SmokeDone(T + 22, False, "0 0 0", "repeats", 0.2, 53.2))
    assert (state.phase, state.tokens_per_s, state.first_token_s) == (Phase.SERVING_BAD, None, None)


def test_it_is_that_of_the_sane_answer_after_a_bad_one() -> None:
    state = booted(SmokeDone(T + 22, False, "0 0 0", "repeats", 0.2, 53.2), SANE)
    assert (state.phase, state.tokens_per_s) == (Phase.READY, 56.5)


def test_a_console_that_found_it_serving_does_not_measure_it_anew() -> None:
    kept = summary_of(booted(SANE), None)
    found = summary_of(booted(SmokeDone(T + 900, True, "Paris", first_token_s=0.4, tokens_per_s=52.6)), None)
    assert (merged(kept, found)["tokens_per_s"], merged(kept, found)["first_token_s"]) == (56.5, 0.2)


def test_the_life_of_a_container_is_no_stage() -> None:
    failed = booted(ContainerSeen(T + 15, 0, "exited", exit_code=2, started_at=T + 1.9, finished_at=T + 15))
    assert summary_of(failed, None)["stages"] == {}
