"""A night's file: what it means, and what is wrong with it, at its line."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from console.base.toml_check import FileErrors
from console.boot.night_model import Night, expand
from console.files.night_queue import next_clock, parse_queue
from console.files.night_store import NightBusy, NightStore, night_of
from console.files.settings import Settings, parse_settings
from console.services.night import Plan, plan_json
from console.services.retention import RULE

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


DUSK = at("2026-09-18T21:00+02:00")
GOOD = """
name = "levers"
zone = "Europe/Berlin"
start_after = "23:30"
hard_end = "06:00"
baseline = "base"
quiet_min = 10
override = ["memory-exhausted", "no-lease"]
[measure]
concurrency = [1, 8]
[[steps]]
recipe = "base"
label = "share 0.80"
aba = true
flags = { "--gpu-memory-utilization" = "0.80", "--enforce-eager" = true, "--x" = false, "--n" = 4 }
env = { NCCL_DEBUG = "INFO", OLD = false }
[[steps]]
recipe = "other"
repeats = 2
ready_by = "05:30"
otherwise = "safe"
"""


def test_a_night_read() -> None:
    queue = parse_queue(GOOD, "q.toml", DUSK)
    assert (queue.rules.start_after, queue.rules.hard_end) == (
        at("2026-09-18T23:30+02:00"),
        at("2026-09-19T06:00+02:00"),
    )
    assert (queue.rules.quiet_s, queue.rules.baseline, queue.concurrency) == (600.0, "base", (1, 8))
    first, second = queue.steps
    assert first.flags == {
        "--gpu-memory-utilization": ("0.80",),
        "--enforce-eager": (),
        "--x": None,
        "--n": ("4",),
    }
    assert first.env == {"NCCL_DEBUG": "INFO", "OLD": None}
    assert (second.ready_by, second.otherwise) == (at("2026-09-19T05:30+02:00"), "safe")
    runs = expand(queue.steps, ["derived.toml", "other"], "base")
    assert [(r.number, r.role, r.recipe, r.label) for r in runs] == [
        (1, "baseline", "base", "baseline"),
        (2, "trial", "derived.toml", "share 0.80"),
        (3, "baseline", "base", "baseline"),
        (4, "trial", "other", "other 1/2"),
        (5, "trial", "other", "other 2/2"),
    ]
    assert [r.otherwise for r in runs] == ["", "", "", "safe", "safe"]


@pytest.mark.parametrize(
    ("now", "clock", "expected"),
    [
        ("2026-09-18T21:00+02:00", "06:00", "2026-09-19T06:00+02:00"),
        ("2026-09-18T02:00+02:00", "06:00", "2026-09-18T06:00+02:00"),
        ("2026-09-18T06:00+02:00", "06:00", "2026-09-19T06:00+02:00"),  # never in the past, nor now
        ("2026-10-24T23:00+02:00", "06:00", "2026-10-25T06:00+01:00"),  # the night has 25 hours
        ("2026-03-28T23:00+01:00", "06:00", "2026-03-29T06:00+02:00"),  # and 23
        ("2026-03-28T23:00+01:00", "02:30", "2026-03-29T03:30+02:00"),  # a time that the clocks jump over
        ("2026-10-25T01:00+02:00", "02:30", "2026-10-25T02:30+02:00"),  # a time that comes twice: the first
        ("2026-10-25T02:45+02:00", "02:30", "2026-10-25T02:30+01:00"),  # then the second, in the same night
    ],
)
def test_local_time_across_midnight_and_clock_changes(now: str, clock: str, expected: str) -> None:
    assert next_clock(clock, BERLIN, at(now)) == at(expected)


def test_utc_is_not_taken_for_local() -> None:
    text = GOOD.replace('zone = "Europe/Berlin"', 'zone = "UTC"')
    assert parse_queue(text, "q", DUSK).rules.hard_end == datetime(2026, 9, 19, 6, tzinfo=UTC).timestamp()


BAD = [
    ('hard_end = "06:00"', 'hard_end = "6 am"', "q.toml:5:12: hard_end: must be a time of day", 'such as "05:30"'),
    ('hard_end = "06:00"', "", "hard_end: missing, and the night's file needs it", ""),
    ('zone = "Europe/Berlin"', 'zone = "Berlin"', "q.toml:3:8: zone: no time zone is called", "Europe/Berlin"),
    ("quiet_min = 10", "quite_min = 10", "q.toml:7:1: quite_min", 'did you mean "quiet_min"?'),
    ("memory-exhausted", "memory-exhaust", "no check has such a code", 'did you mean "memory-exhausted"?'),
    ("no-lease", "tight", "override[2]: no check has such a code", "docs/preflight.md"),
    ("quiet_min = 10", "max_gpu_temp_c = 200", "must be at most 110, found the number 200", ""),
    ("repeats = 2", "repeats = 0", "must be at least 1", ""),
    ("repeats = 2", 'repeats = "2"', "must be a whole number", "without quotes"),
    ('"--n" = 4', 'n = 4', "steps[1].flags.n: not a flag", '"--n"'),
    ('"--n" = 4', '"--n" = "a \'b"', "a single quote (') is not closed", ""),
    ('OLD = false', "OLD = 3", "must be a text, found the number 3", 'put it in quotes: "3"'),
    ('ready_by = "05:30"', 'ready_by = "07:30"', "is after the hard end", ""),
    ('baseline = "base"', "", "steps[1].aba: needs a baseline", ""),
    ("concurrency = [1, 8]", "concurrency = []", "must not be empty", ""),
    ("[[steps]]", "[steps]", "not TOML", ""),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message", "remedy"), BAD, ids=[b[1] or "missing" for b in BAD])
def test_errors_say_where_and_what(old: str, new: str, message: str, remedy: str) -> None:
    assert old in GOOD
    with pytest.raises(FileErrors) as failed:
        parse_queue(GOOD.replace(old, new), "q.toml", DUSK)
    text = str(failed.value)
    assert message in text and remedy in text and "q.toml:" in text


def test_one_night_at_a_time_and_its_state_reads_back(tmp_path) -> None:  # type: ignore[no-untyped-def]
    store = NightStore(tmp_path / "nights")
    assert store.running() is None and store.nights() == []
    first, second = store.create("a", DUSK), store.create("b", DUSK)
    assert first != second and store.find() == second
    queue = parse_queue(GOOD, "q", DUSK)
    plan = Plan("levers", queue.rules, expand(queue.steps, ["a", "b"], "base"))
    store.write(Night(first), plan_json(plan))
    assert night_of(store.read(first)) == (Night(first), plan.rules, plan.runs)
    descriptor = store.lock(first)
    running = store.running()
    assert running is not None and running[1] == first
    with pytest.raises(NightBusy, match=first):
        store.lock(second)
    import os

    os.close(descriptor)
    assert store.running() is None
    (store.folder(first) / "state.json").write_text('{"results": 3')
    with pytest.raises(Exception, match="no state that can be read"):
        store.read(first)


ROOT = Path(__file__).parents[2]


def test_the_worked_example_of_the_documentation_is_a_queue() -> None:
    """docs/night.md: it reads, with recipes that ship, and means what its comments say."""
    text = (ROOT / "docs" / "night.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    queue = parse_queue(block, "levers.toml", DUSK)
    assert queue.warnings == () and queue.name == "levers"
    assert (queue.rules.start_after, queue.rules.hard_end) == (
        at("2026-09-18T23:30+02:00"),
        at("2026-09-19T06:00+02:00"),
    )
    assert (queue.rules.quiet_s, queue.rules.max_gpu_temp_c, queue.rules.give_up_after) == (900.0, 60.0, 2)
    shipped = {p.parent.name for p in (ROOT / "recipes").glob("*/recipe.toml")}
    assert {queue.rules.baseline, *(s.recipe for s in queue.steps), queue.steps[2].otherwise} <= shipped
    seqs, buffers, bold = queue.steps
    assert seqs.flags == {"--max-num-seqs": ("16",)}
    assert buffers.env == {"NCCL_BUFFSIZE": "1048576", "NCCL_DEBUG": None}
    assert (bold.repeats, bold.ready_by) == (2, at("2026-09-19T05:15+02:00"))
    runs = expand(queue.steps, [s.recipe for s in queue.steps], queue.rules.baseline)
    assert [r.label for r in runs] == [
        "baseline", "16 sequences", "baseline", "small NCCL buffers", "baseline", "utilisation 0.91 1/2",
        "utilisation 0.91 2/2",
    ]  # fmt: skip
    assert "docs/night.md" in (ROOT / "README.md").read_text()


def test_the_documented_retention_is_the_settings_own() -> None:
    text = (ROOT / "docs" / "ledger.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    read = parse_settings(block, "settings.toml")
    assert (read.errors, read.findings) == ((), ())
    assert (read.settings.keep_boots, read.settings.keep_gib) == (Settings().keep_boots, Settings().keep_gib)
    assert RULE in " ".join(text.split())
