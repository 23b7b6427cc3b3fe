"""Every alarm there is: told once however long its reason lasts, quiet between its two limits, told when it is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.base.absent import Absent
from console.base.units import GIB
from console.boot.events import ContainerSeen, DeadlinePassed, SmokeDone, Stalled
from console.boot.reduce import reduce
from console.boot.state import Phase
from console.cluster.model import Node
from console.services.alarms import kernel_code
from console.services.hub import NodeView
from console.services.ways_out import WayError
from console.telemetry.alarm_rules import CODES, HAPPENINGS, AlarmPolicy, RuleChange
from console.telemetry.history import Series
from console.telemetry.sample import FileSystem, Gpu, KernelLine, Memory, Pressure, RdmaRate, Sample
from console.telemetry.thresholds import measures
from console.telemetry.trend import seconds_to_empty
from tests.services.test_alarm_book import Book, Ear, boot

NODE = Node("dgx1", "dgx1")
Feed = Callable[[Book, float], None]


def sampled(**fields: Callable[[float], Any]) -> Feed:
    """A sample whose fields are made of the value."""

    def feed(book: Book, value: float) -> None:
        book.sample(**{k: make(value) for k, make in fields.items()})

    return feed


def memory(book: Book, value: float) -> None:
    book.sample(value * GIB)


def falling(book: Book, seconds: float) -> None:
    book.clock.now += 1.0
    book.book.sampled(Sample("dgx1", 1, book.clock.now, 0.0, 0.0, memory=Memory(available_bytes=50 * GIB)), seconds)


def silent(book: Book, age: float) -> None:
    book.clock.now += 1.0
    book.book.tick([NodeView(NODE, "late", age, Absent("x"), "", "no sample")])


def deadline(book: Book, left: float) -> None:
    book.clock.now += 1.0
    state = boot()
    book.book.boots([replace(state, launched_at=book.clock.now + left - state.deadline_s)])


def drafts(book: Book, length: float) -> None:
    book.clock.now += 1.0
    book.book.boots([replace(boot(), phase=Phase.READY, stats={"acceptance_length": length})])


def gpu(**fields: float) -> tuple[Gpu, ...]:
    return (Gpu(0, **fields),)


def pressure(value: float) -> Pressure:
    return Pressure(value, value, value, value)


# code -> (feed, raises it, lies between its limits, clears it)
LEVELS: dict[str, tuple[Feed, float, float, float]] = {
    "memory-low": (memory, 3.0, 4.5, 5.5),
    "memory-critical": (memory, 0.5, 1.2, 1.6),
    "memory-falls": (falling, 60.0, 200.0, 1e9),
    "memory-pressure": (sampled(psi_memory=pressure), 40.0, 3.0, 1.0),
    "swapping": (
        sampled(memory=lambda v: Memory(available_bytes=50 * GIB, swap_out_bytes_s=v)),
        5e6,
        5e5,
        0.0,
    ),
    "gpu-hot": (sampled(gpus=lambda v: gpu(temp_c=v)), 91.0, 85.0, 70.0),
    "gpu-clock-latch": (
        sampled(gpus=lambda v: gpu(util_percent=96.0, clock_mhz=v, power_w=14.0)),
        507.0,
        507.0,
        2400.0,
    ),
    "disk-full": (sampled(filesystems=lambda v: (FileSystem("/", 1000, int(v)),)), 20.0, 40.0, 60.0),
    "clock-off": (sampled(clock_offset_s=lambda v: -v), 90.0, 20.0, 1.0),
    "node-lost": (silent, 20.0, 5.0, 1.0),
    "deadline-near": (deadline, 200.0, 300.5, 3000.0),
    "drafts-rejected": (drafts, 1.0, 1.1, 3.5),
}


def heard(*events: Any) -> Callable[[Book], None]:
    def feed(book: Book) -> None:
        state = boot()
        for event in events:
            state = reduce(state, event)
        book.book.heard(state, events[-1])

    return feed


def kernel(text: str) -> Callable[[Book], None]:
    return lambda book: book.sample(kernel=(KernelLine(1, 5.0, text),))


UP = tuple(ContainerSeen(1.0, r, "running") for r in (0, 1))
HAPPEN: dict[str, Callable[[Book], None]] = {
    "rank-died": heard(*UP, ContainerSeen(5.0, 1, "exited", 137, finished_at=5.0)),
    "boot-failed": heard(*UP, ContainerSeen(5.0, 1, "exited", 1, finished_at=5.0)),
    "deadline-passed": heard(*UP, DeadlinePassed(3600.0)),
    "stalled": heard(*UP, Stalled(900.0, ("no line for 5 min", "GPU idle"))),
    "serving-bad": heard(*UP, SmokeDone(99.0, False, "aaaa", "it repeats itself")),
    "ready": lambda book: book.book.happen("ready", "boot 1", "boot 1 is ready"),
    "rebooted": lambda book: book.sample(rebooted=True),
    "xid": kernel("NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus."),
    "driver-no-memory": kernel("NVRM: nvAssertOkFailedNoLog: Assertion failed: Out of memory [NV_ERR_NO_MEMORY]"),
    "kernel-oom": kernel("Out of memory: Killed process 4242 (VLLM::Worker) total-vm:1kB"),
    "rdma-errors": lambda book: book.sample(rdma=(RdmaRate("roce0:1", errors={"link_downed": 1}),)),
    "guard-tripped": lambda book: book.book.happen("guard-tripped", "boot 1 rank 1", "killed rank 1", node="dgx1"),
    "guard-missing": lambda book: book.book.happen("guard-missing", "dgx1 d", "no guard", node="dgx1"),
    "night": lambda book: book.book.happen("night", "queue", "the night's queue met a failure"),
}


def test_every_code_has_its_test_here() -> None:
    assert {*LEVELS, *HAPPEN, "way-failed"} == set(CODES)


def told(ear: Ear, code: str) -> list[bool]:
    return [active for name, active in ear.heard if name == code]


@pytest.mark.parametrize("code", LEVELS)
async def test_a_level_is_told_once_up_and_once_down(code: str) -> None:
    feed, bad, between, good = LEVELS[code]
    ear = Ear()
    book = Book(ear)
    for _ in range(5):  # shorter than a limit without a between (the clock latch) must hold
        feed(book, between)
    assert code not in book.codes(), "between its limits it does not begin"
    for _ in range(100):
        feed(book, bad)
    assert code in book.codes()
    for _ in range(100):
        feed(book, between)
    assert code in book.codes(), "between its limits it still holds"
    for _ in range(100):
        feed(book, good)
    await book.settle()
    assert code not in book.codes()
    assert told(ear, code) == [True, False]
    await book.close()


@pytest.mark.parametrize("code", [c for c in LEVELS if c not in ("deadline-near", "drafts-rejected")])
async def test_a_level_can_be_muted_on_its_node_acknowledged_switched_off_and_moved(code: str) -> None:
    feed, bad, _, _ = LEVELS[code]
    ear = Ear()
    muted = Book(ear)
    muted.book.mute(1e6, code=code, node="dgx1")
    off = Book(ear, policy=AlarmPolicy(rules={code: RuleChange(off=True)}))
    for _ in range(100):
        feed(muted, bad)
        feed(off, bad)
    assert code in muted.codes() and code not in off.codes()
    assert muted.book.acknowledge() >= 1 and not [a for a in muted.book.all if a.calls and a.code == code]
    await muted.settle()
    assert told(ear, code) == []
    for book in (muted, off):
        await book.close()


@pytest.mark.parametrize("code", HAPPEN)
async def test_what_happens_is_told_once_and_ends_as_its_rule_says(code: str) -> None:
    ear = Ear()
    book = Book(ear, policy=AlarmPolicy(tell_from=AlarmPolicy().tell_from))
    for _ in range(20):
        HAPPEN[code](book)
    await book.settle()
    assert code in book.codes()
    severity = next(h for h in HAPPENINGS if h.code == code).severity
    assert told(ear, code) == ([True] if AlarmPolicy().tells(severity) else [])
    lasts = next(h for h in HAPPENINGS if h.code == code).lasts_s
    if lasts is not None:
        book.clock.now += lasts + 1.0
        book.book.tick([])
        assert code not in book.codes()
    await book.close()


async def test_a_way_that_fails_is_told_once_by_the_others() -> None:
    class Broken(Ear):
        async def send(self, alarm: Any) -> None:
            raise WayError("it answered 500")

    ear = Ear("command")
    book = Book(ear, Broken("webhook"))
    for _ in range(5):
        book.sample(3 * GIB)
        book.sample(6 * GIB)
        book.clock.now += 1000.0
        for _ in range(5):
            await book.settle()
    assert told(ear, "way-failed") == [True]
    await book.close()


def test_kernel_lines_of_a_healthy_boot_are_no_alarm() -> None:
    assert kernel_code("NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.95.05") == ""
    assert kernel_code("nvidia-nvlink: Nvlink Core is being initialized") == ""
    assert kernel_code("NVRM: GPU 0: NV_ERR_NO_MEMORY while allocating") == "driver-no-memory"
    assert kernel_code("NVRM: Xid (PCI:000f:01:00): 31, pid=7, NV_ERR_NO_MEMORY") == "xid"


def test_without_pressure_information_nothing_is_raised_and_nothing_cleared() -> None:
    sample = Sample("n", 1, 0.0, 0.0, 0.0, psi_memory=Absent("No such file or directory"))
    assert isinstance(measures(sample)["psi_full60"], Absent)
    assert all(isinstance(v, Absent) for v in measures(Sample("n", 1, 0.0, 0.0, 0.0)).values())


def test_available_memory_alarms_by_its_slope_long_before_its_level() -> None:
    """12 GiB, falling by 100 MiB/s: out in two minutes, still far above the level's limit."""
    series = Series()
    left = 15.0 * GIB
    for second in range(40):
        left -= 0.1 * GIB
        series.add(float(second), left)
    seconds = seconds_to_empty(series, left, 39.0)
    assert not isinstance(seconds, Absent) and 90.0 < seconds < 130.0
    for second in range(40, 80):
        series.add(float(second), left)
    assert seconds_to_empty(series, left, 79.0) == float("inf")


def test_the_page_about_watching_lists_every_alarm_as_it_is_set() -> None:
    from console.cli.cmd_alarms import rule_rows

    page = (Path(__file__).parents[2] / "docs" / "watching.md").read_text()
    for row in rule_rows(AlarmPolicy()):
        line = f"| `{row['code']}` | {row['severity']} | {row['message']} | {row['when']} | {row['clears']} |"
        assert line in page
