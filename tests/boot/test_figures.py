"""One figure of a boot is the same wherever it is told: board, ledger, reports, commands, alarms, the night."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console.base.units import GIB, took
from console.boot.compare import compare
from console.boot.events import ApiSeen, BootOpened, ContainerSeen, Event, RankProgress, RankRef, SmokeDone
from console.boot.figures import elapsed_text, ready_by, ready_seconds, ready_text, unseen_text
from console.boot.reduce import opened, reduce
from console.boot.report_write import html, markdown
from console.boot.state import BootState, Phase
from console.boot.summary import merged, summary_of
from console.boot.to_json import deployment_json
from console.boot.windows import Windows
from console.cli import cmd_boots, cmd_night, cmd_status, follow
from console.cli.out import Out
from console.enginelog.stages_model import Cell, CellState, Stage
from console.files.boot_index import BootIndex
from console.files.journal import Journal
from console.services.alarms import AlarmBook
from console.services.compare import record_of
from console.services.ledger import summary_row
from console.services.report import report_since
from console.telemetry.alarm_rules import AlarmPolicy
from console.tui.boot_lines import clock_line, idle_lines
from console.tui.boots_pane import boot_lines, boot_row
from console.tui.glyphs import UNICODE
from console.tui.spans import plain
from tests.services.fakes import ManualClock

T0 = 1_796_000_000.0
RANKS = (RankRef(0, "dgx1", "c0"), RankRef(1, "dgx2", "c1"))
OPENED = BootOpened(T0, "d", 7, "flash", "Flash", "x", "dgx1", RANKS, T0, 3600.0, 8000, "m")
ANSWER = SmokeDone(T0 + 22.8, True, "Paris", first_token_s=0.2, tokens_per_s=141.26)


def ready(*events: Event, opening: BootOpened = OPENED) -> BootState:
    state = opened(opening)
    for event in (*events, ANSWER):
        state = reduce(state, event)
    return state


def http(at: float) -> RankProgress:
    cells = (Cell(Stage.HTTP, CellState.DONE, at=T0 + at, line=0),)
    return RankProgress(T0 + 30, 0, cells, Stage.HTTP, None, 3, T0 + 30)


RUNS = (
    ContainerSeen(T0 + 1, 0, "running"),
    ContainerSeen(T0 + 1, 1, "running"),
    ApiSeen(T0 + 20, "healthy"),
)


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What every place says of one boot that was ready after 22.8 s and answered at 141.26 tokens a second."""
    state = ready(*RUNS)
    assert state.phase is Phase.READY
    windows = Windows()
    windows.add("dgx1", T0 + 2, {"mem_available": 9.96 * GIB})
    row = summary_of(state, min(windows.lowest.values()), windows)
    journal = Journal(tmp_path / "boots")
    with journal.open_boot("flash", now=T0, number=7) as folder:
        folder.write_summary(row)
    index = BootIndex(journal)
    (listed,) = index.boots()
    boot = summary_row(listed)
    report = report_since(index, T0 - 10, T0 + 100)
    record = record_of(listed)
    alarms = AlarmBook(AlarmPolicy(), (), ManualClock(T0 + 22.8), lambda name, work: work.close())
    alarms.heard(state, ANSWER)
    hub: Any = SimpleNamespace(now=lambda: T0 + 60)
    ledger: Any = SimpleNamespace(index=index)
    night = {"id": "n", "phase": "running", "rules": {"hard_end": T0}, "results": [
        {"run": 1, "label": "x", "outcome": "served", "ready_s": ready_seconds(state), "why": ""}]}  # fmt: skip

    def said(tell: Callable[[Out], object]) -> str:
        capsys.readouterr()
        out = Out(as_json=False)
        tell(out)
        out.flush()
        return capsys.readouterr().out

    return {
        "board": plain(clock_line(state, T0 + 60, 160, UNICODE)),
        "ledger pane": plain(boot_row(boot, 160, UNICODE, marked=False)[0]),
        "ledger pane, one": "\n".join(plain(line) for line in boot_lines(boot, 120, UNICODE)),
        "first screen": "\n".join(plain(line) for line in idle_lines((boot,), 160, UNICODE, "l")),
        "report": markdown(report),
        "page": html(report),
        "diff": json.dumps([r.before for s in compare(record, record).sections for r in s.rows]),
        "alarm": alarms.all[0].text,
        "boots": said(lambda out: cmd_boots.show((boot,), out)),
        "boots 7": said(lambda out: cmd_boots._one("7", ledger, out)),
        "status": said(lambda out: cmd_status._tell_boot(state, T0 + 60, out)),
        "launch": said(lambda out: follow.tell_end(state, hub, out)),
        "night": said(lambda out: cmd_night._tell(night, out)),
    }


def test_every_place_says_the_same_time_to_ready(told: dict[str, str]) -> None:
    for place, text in told.items():
        assert "0:23" in text, f"{place}: {text}"
        assert not re.search(r"0:22|\b2[23] s|22\.8", text), f"{place}: {text}"


def test_every_place_that_tells_them_says_the_same_speed_and_least_memory(told: dict[str, str]) -> None:
    for place in ("board", "ledger pane", "ledger pane, one", "report", "page", "diff", "boots", "boots 7"):
        assert re.search(r"\b141\.3\b", told[place]), f"{place}: {told[place]}"
        assert not re.search(r"\b141(?!\.3)\b|141\.2", told[place]), place
    for place in ("ledger pane", "ledger pane, one", "first screen", "report", "page", "boots"):
        assert "10.0" in told[place], f"{place}: {told[place]}"


def test_scripts_get_the_seconds_themselves() -> None:
    state = ready(*RUNS)
    row = deployment_json(state, T0 + 60)
    assert (row["ready_s"], row["ready_by"], row["elapsed_s"]) == (22.8, "answer", 60.0)
    assert summary_of(state, None)["ready_s"] == 22.8


def test_found_serving_it_is_the_time_to_the_api_and_says_so() -> None:
    late = replace(OPENED, at=T0 + 7200, adopted=True)
    seen = ready(http(17.0), *RUNS, opening=late)
    seen = replace(seen, ready_at=T0 + 7201)
    assert (ready_seconds(seen), ready_by(seen)) == (17.0, "api")
    assert ready_text(ready_seconds(seen), ready_by(seen)) == "0:17 (API)"
    assert ready_seconds(replace(seen, ranks=())) is None, "without the head's word the moment is not known"
    assert deployment_json(seen, T0 + 7300)["ready_s"] == 17.0


def test_found_while_it_loads_it_is_the_answer_that_was_seen() -> None:
    seen = ready(http(17.0), *RUNS, opening=replace(OPENED, at=T0 + 5, adopted=True))
    assert (ready_seconds(seen), ready_by(seen)) == (22.8, "answer")


def test_a_boot_that_is_over_took_whole_seconds_and_one_that_goes_on_is_cut() -> None:
    assert [took(s) for s in (22.4, 22.5, 59.5, 3599.6)] == ["0:22", "0:23", "1:00", "1:00:00"]
    state = ready(*RUNS)
    assert elapsed_text(state, T0 + 59.9) == "0:59"
    assert elapsed_text(replace(state, ended_at=T0 + 59.9), T0 + 500) == "1:00"
    assert elapsed_text(replace(state, stop_at=T0 + 40.0), T0 + 500) == "0:40"


def test_what_of_memory_nobody_saw_is_said() -> None:
    assert unseen_text(T0, T0 + 3, 0.0, GIB) == ""
    assert unseen_text(T0, None, 0.0, None) == "no sample was kept: no console looked"
    assert unseen_text(T0, T0 + 9060, 0.0, GIB) == "nobody looked for its first 2:31:00"
    assert unseen_text(T0, T0 + 3, 7800.0, GIB) == "nobody looked for 2:10:00 of it"
    windows = Windows()
    for at in (100.0, 101.0, 500.0, 501.0):
        windows.add("dgx1", T0 + at, {"mem_available": 5.0 * GIB, "load": 1.0})
    first = summary_of(ready(*RUNS), 5 * GIB, windows)
    assert (first["memory_from"], first["memory_until"], first["memory_unseen_s"]) == (T0 + 100, T0 + 501, 399.0)
    later = Windows()
    later.add("dgx2", T0 + 1501.0, {"mem_available": 4.0 * GIB})
    both = merged(first, summary_of(ready(*RUNS), 4 * GIB, later))
    assert (both["memory_from"], both["memory_until"], both["memory_unseen_s"]) == (T0 + 100, T0 + 1501, 1399.0)
    assert merged(first, summary_of(ready(*RUNS), None))["memory_unseen_s"] == 399.0
