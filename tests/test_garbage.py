"""Garbage is found in portions: what stays is looked through once, what has cycles still goes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from console.base.garbage import PORTION, WHOLE_EVERY, Portions, kept_for_good


class Ring:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


def middle_collections(times: int) -> None:
    """As so many thousands of new objects bring about."""
    for _ in range(times):
        gc.collect(1)


def test_what_is_loaded_is_not_looked_through() -> None:
    with kept_for_good():
        assert not gc.isenabled()
        kept = [[n] for n in range(1000)]
    assert gc.isenabled() and gc.get_freeze_count() >= len(kept)
    with pytest.raises(ValueError), kept_for_good():
        raise ValueError
    assert gc.isenabled()


async def test_a_step_takes_garbage_and_puts_aside_what_stays() -> None:
    before = gc.get_threshold()
    portions = Portions()
    portions.begin()
    assert gc.get_threshold()[:2] == before[:2] and gc.get_threshold()[2] > 10**6, "no full collection by itself"
    gc.collect()
    stays = [[n] for n in range(500)]
    middle_collections(PORTION)
    gc.disable()  # nothing but the step collects from here on
    ring = Ring()
    garbage = weakref.ref(ring)
    del ring
    assert garbage() is not None
    portions.step()
    assert garbage() is None and gc.get_freeze_count() >= len(stays)
    there = gc.get_freeze_count()
    portions.step()
    assert gc.get_freeze_count() == there, "too little has come for a portion"
    portions.end()
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0


async def test_what_became_garbage_after_it_was_put_aside_is_found_in_the_end() -> None:
    portions = Portions()
    portions.begin()
    gc.collect()
    ring = Ring()
    gone = weakref.ref(ring)
    middle_collections(PORTION)
    portions.step()
    del ring
    middle_collections(PORTION)
    portions.step()
    assert gone() is not None, "it is among what is not looked at"
    portions._steps = WHOLE_EVERY - 1
    middle_collections(PORTION)
    portions.step()
    assert gone() is None
    portions.end()
