"""A night that was cut short is told with what an operator needs, and a finished or damaged one is not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from console.boot.night_model import Night, Phase, Rules, Run
from console.files.night_store import NightStore
from console.services.measure import MeasureSpec
from console.services.night_cut import cut_short, told
from console.services.night_plan import Plan, plan_json

AT = 1_800_000_000.0
RUNS = tuple(Run(n, "small", f"lever {n}") for n in range(1, 13))


@pytest.fixture
def store(tmp_path: Path) -> NightStore:
    return NightStore(tmp_path / "nights")


def kept(store: NightStore, night: Night, *, hard_end: float = AT + 9e4, **extra: object) -> None:
    rules = Rules(hard_end, baseline="small")
    ident = store.nights()[0] if store.nights() else store.create("", AT)
    plan = Plan("levers", rules, RUNS, (), MeasureSpec())
    store.write(replace(night, id=ident), {**plan_json(plan), **extra})
    os.utime(store.folder(ident) / "state.json", (AT, AT))


def test_where_it_was_and_since_when(store: NightStore) -> None:
    assert told(store, AT) == ""
    kept(store, Night("", Phase.RUNNING, next=4, began=True, running=RUNS[4]))
    assert told(store, AT + 12 * 60 + 30) == (
        "night n20270115T080000Z (levers) was interrupted at run 5 of 12, lever 5 (its process is gone, last heard of "
        "12 min ago): `nightdeck night resume` goes on with it"
    )
    assert "at run 5 of 12, lever 5" in told(store, AT) and "heard of 0 s ago" in told(store, AT - 50)
    kept(store, Night("", Phase.RUNNING, next=4, began=True))  # between two runs: the next one
    assert "at run 5 of 12, lever 5" in told(store, AT)


def test_a_reboot_a_wait_a_restoration_and_a_past_end(store: NightStore) -> None:
    kept(store, Night("", Phase.WAITING), boot_id="another")
    assert "before its first run (this machine was rebooted, last heard of 5 h ago)" in told(store, AT + 5 * 3600.0)
    kept(store, Night("", Phase.RESTORING, next=12), hard_end=AT + 10)
    said = told(store, AT + 3 * 86_400)
    assert "while it brought small back" in said and "3 days ago" in said
    assert said.endswith("its hard end has passed: that only brings small back")


def test_a_night_that_is_over_runs_or_is_damaged_is_not_told(store: NightStore) -> None:
    kept(store, Night("", Phase.DONE))
    assert cut_short(store) is None
    kept(store, Night("", Phase.RUNNING))
    held = store.lock(store.nights()[0])
    assert cut_short(store) is None
    os.close(held)
    assert cut_short(store) is not None
    (store.folder(store.nights()[0]) / "state.json").write_text("{")
    assert told(store, AT) == ""
    (store.folder(store.nights()[0]) / "state.json").write_text('{"phase": 3, "runs": 7, "rules": [], "running": 1}')
    assert "was interrupted" in told(store, AT)
