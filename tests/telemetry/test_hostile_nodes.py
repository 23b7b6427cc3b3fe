"""Nodes that print nonsense: a figure is absent or one that a machine can have, and nothing counts twice."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.absent import Absent
from console.probe.smi import APP_FIELDS, GPU_FIELDS, ROW, Smi
from console.telemetry.frames import Frame
from console.telemetry.gpu_text import gpu
from console.telemetry.pick import number
from console.telemetry.sample import MemKind, Sample
from console.telemetry.sampler import Sampler
from console.telemetry.thresholds import measures
from tests.telemetry.test_gpu_text import FIELDS, GB10
from tests.telemetry.test_gpu_trouble import H200, frame, gpus, step

# What a broken driver, another locale, half a line or a hostile node may put where a figure belongs.
ODD = (
    "41,20", "1.755,5", "1_000", "１２", "nan", "NaN", "inf", "-inf", "1e400", "1e18", "-5", "-0.1", "+", ".", "", " ",
    "9" * 30, "0x10", "41.2.1", "41 W", "[N/A]", "ERR!", "\x1b[31m41", "4\x001", "\udcff41", "４１.２", "true", "None",
)  # fmt: skip
GOOD = ("0", "96", "41.20", "2405", "0x0000000000000004", "NVIDIA GB10", "GPU-a")
WORD = st.sampled_from(ODD + GOOD) | st.text(max_size=12)
LINE = st.lists(WORD, max_size=13).map(", ".join) | st.lists(WORD, max_size=13).map(",".join)
CUT = st.tuples(st.sampled_from([GB10, H200]), st.integers(0, 130), st.integers(0, 130)).map(
    lambda t: t[0][t[1] : t[2]]
)
# Moments, offsets and codes may lie below 0; nothing else of a node can.
MAY_BE_BELOW = {"clock_offset_s", "wall", "node_time", "exit_code", "oom_score_adj", "at", "since", "seq", "number",
                "uptime_s_of_line", "missed", "received_at", "largest_order"}  # fmt: skip
RANGES = {
    "util_percent": 100.0,
    "percent": 100.0,
    "some10": 100.0,
    "full60": 100.0,
    "temp_c": 250.0,
    "power_w": 20_000.0,
}


def figures(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    if is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            yield from figures(getattr(value, item.name), item.name)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from figures(one, name)
    elif isinstance(value, tuple):
        for one in value:
            yield from figures(one, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, float(value)


def assert_possible(sample: Sample) -> None:
    for name, value in figures(sample):
        assert math.isfinite(value), name
        assert value >= 0 or name in MAY_BE_BELOW, (name, value)
        assert value <= RANGES.get(name, math.inf), (name, value)
    memory = sample.memory
    for size in (memory.used_bytes, memory.swap_used_bytes, memory.page_cache_bytes):
        assert isinstance(size, Absent) or size >= 0
    for measure in measures(sample).values():
        assert isinstance(measure, Absent) or math.isfinite(measure)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(LINE | CUT, max_size=4), min_size=1, max_size=3))
def test_whatever_nvidia_smi_prints_no_gpu_counts_twice_and_no_figure_is_made_up(rounds: list[list[str]]) -> None:
    sampler = Sampler("n")
    for n, rows in enumerate(rounds):
        sample = step(sampler, frame(n + 1, rows, apps=rows))
        assert_possible(sample)
        if isinstance(sample.gpus, Absent):
            assert sample.gpus.reason
            continue
        assert len({g.index for g in sample.gpus}) == len(sample.gpus)
        told = " ".join(r for earlier in rounds[: n + 1] for r in earlier)
        for one in sample.gpus:
            for figure in (one.util_percent, one.temp_c, one.power_w, one.clock_mhz):
                assert figure != 0 or "0" in told


@pytest.mark.parametrize("word", ODD)
@pytest.mark.parametrize("at", [3, 4, 5, 6, 7, 8, 9])
def test_an_odd_word_in_a_column_costs_that_column_alone(at: int, word: str) -> None:
    cells = H200.split(", ")
    cells[at] = word
    found = gpu(", ".join(cells), FIELDS)
    if found is None:  # a blank at the end takes its separator with it
        pytest.fail("the whole GPU is lost for one word")
    names = ["util_percent", "temp_c", "power_w", "clock_mhz", "clock_max_mhz", "mem_used_bytes", "mem_total_bytes"]
    assert isinstance(getattr(found, names[at - 3]), Absent)
    others = [n for i, n in enumerate(names) if i != at - 3 and not n.startswith("mem_")]
    assert not [n for n in others if isinstance(getattr(found, n), Absent)]


@pytest.mark.parametrize(
    ("column", "word"), [(3, "101"), (4, "6000"), (5, "1e9"), (6, "4294967295"), (8, "143772"), (9, "9" * 12)]
)
def test_more_than_a_device_can_have_is_absent(column: int, word: str) -> None:
    cells = H200.split(", ")
    cells[column] = word
    found = gpu(", ".join(cells), FIELDS)
    assert found is not None
    names = {3: "util_percent", 4: "temp_c", 5: "power_w", 6: "clock_mhz", 8: "mem_used_bytes", 9: "mem_total_bytes"}
    value = getattr(found, names[column])
    assert isinstance(value, Absent) and word in value.reason


def test_a_gpu_that_comes_back_under_another_number_stands_there_once() -> None:
    sampler = Sampler("n")
    step(sampler, frame(1, [GB10, H200]))
    sample = step(sampler, frame(2, [H200.replace("1, ", "0, ", 1)]))
    assert [(g.index, g.uuid) for g in gpus(sample)] == [(0, "GPU-b")]


def test_lines_of_no_known_form_are_told_as_such() -> None:
    sample = step(Sampler("n"), frame(1, ["0, GPU-a, NVIDIA GB10, 96"]))
    assert sample.gpus == Absent("nvidia-smi's line is of no known form: 0, GPU-a, NVIDIA GB10, 96")


def test_a_mig_instance_with_all_columns_is_no_gpu_of_its_own() -> None:
    whole = "0, GPU-a, NVIDIA A100, [N/A], 34, 62.31, 1410, 1410, 45, 81920, 0x0000000000000001"
    part = "1, MIG-0b4a8c1e, NVIDIA A100 MIG 3g.40gb, [N/A], 34, 62.31, 1410, 1410, 45, 40192, 0x0000000000000001"
    (only,) = gpus(step(Sampler("n"), frame(1, [whole, part])))
    assert (only.index, only.mem_kind, only.mem_total_bytes) == (0, MemKind.DEDICATED, 81920 << 20)


HOST = {
    "meminfo": "MemTotal: 127600812 kB\nMemAvailable: 9000000 kB\nSwapTotal: 10 kB\nSwapFree: 20 kB\n",
    "stat": "cpu  1 2 3 4 5 6 7 8\nprocs_blocked -3\n",
    "loadavg": "-1.0 nan 1_0 1/2 3\n",
    "vmstat": "pswpin 5\npswpout 6\n",
    "uptime": "-5 1\n",
    "psi_memory": "some avg10=999.00 avg60=1,50\nfull avg10=0.50 avg60=2.00\n",
    "net": "eth0: -1 0 0 0 0 0 0 0 5 0 0 0 0 0 0 0\n",
    "disks": " 8 0 sda 1 2 -3 4 5 6 7 8 9 10 11\n",
    "boot_id": "b\n",
    "why": {},
}


def host_sample(seq: int, sampler: Sampler, **changes: Any) -> Sample:
    host = {"t": float(seq), **HOST, **changes}
    data = {"part": "all", "t": float(seq), "w": 0.0, "host": host, "self": {"pid": 7, "cpu_s": -1.0}, "dropped": -4}
    data["fs"] = {"rows": {"/": {"t": float(seq), "total": 100, "available": -1}}}
    return step(sampler, Frame(seq, data))


def test_what_the_kernel_cannot_mean_is_absent_in_every_group() -> None:
    sampler = Sampler("n")
    host_sample(1, sampler)
    sample = host_sample(2, sampler, vmstat="pswpin 5\npswpout 6\n")
    assert_possible(sample)
    unknown = [sample.memory.swap_used_bytes, sample.memory.swap_in_bytes_s, sample.cpu.load1, sample.cpu.load5,
               sample.cpu.load15, sample.cpu.blocked, sample.cpu.cores, sample.uptime_s, sample.probe_cpu_s,
               sample.dropped_frames, sample.filesystems[0].available_bytes,  # type: ignore[index]
               sample.psi_memory.some10, sample.psi_memory.some60]  # type: ignore[union-attr]  # fmt: skip
    assert all(isinstance(v, Absent) and v.reason for v in unknown), unknown
    assert sample.psi_memory.full60 == 2.0  # type: ignore[union-attr]
    assert (sample.net, sample.disks) == ((), ())


def test_pages_of_an_unknown_size_are_no_nought_of_bytes() -> None:
    sampler = Sampler("n")
    host_sample(1, sampler, page=None)
    assert host_sample(2, sampler, page=None, vmstat="pswpin 9\npswpout 9\n").memory.swap_in_bytes_s == Absent(
        "the node does not say how large a page is"
    )
    host_sample(3, sampler, page=4096)
    assert host_sample(4, sampler, page=4096, vmstat="pswpin 7\npswpout 9\n").memory.swap_in_bytes_s == 2 * 4096


HOST_TEXT = st.lists(
    st.sampled_from(
        ("MemTotal:", "MemAvailable:", "cpu", "kB", "some", "full", "avg10=1.5", "avg60=999", "eth0:", "\n", "sda")
    )
    | st.sampled_from(ODD + GOOD),
    max_size=40,
).map(" ".join)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(tuple(HOST)[:-1]), HOST_TEXT), min_size=1, max_size=3), st.integers())
def test_whatever_proc_says_the_figures_are_possible(rounds: list[dict[str, str]], page: int) -> None:
    sampler = Sampler("n")
    for n, changes in enumerate(rounds):
        assert_possible(host_sample(n + 1, sampler, page=page, cores=page, **changes))


@given(st.text(max_size=50))
def test_a_number_is_what_a_program_prints(text: str) -> None:
    found = number(text)
    assert found is None or (math.isfinite(found) and text.strip().isascii() and "_" not in text)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(0, 20_000))
def test_the_probe_takes_no_half_line_for_a_whole_one(pieces: list[bytes], long: int) -> None:
    for query, columns in (("gpu", GPU_FIELDS), ("compute-apps", APP_FIELDS)):
        smi = Smi(query, columns, 1.0)
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        smi.fd = reader
        sent = [*pieces, b"x" * long + GB10.encode()[:60], b"\n", GB10.encode() + b"\n", GB10.encode()[:40]]
        for piece in sent:
            os.write(writer, piece)
            for _ in range(3):
                smi.readable(1.0)
        lines = b"".join(sent).split(b"\n")[:-1]
        whole = {line.decode("utf-8", "replace").strip()[:1000] for line in lines}
        rows = smi.group(1.0)["rows"]
        assert set(rows) <= whole and all(ROW.match(row) for row in rows)
        assert query != "gpu" or GB10 in rows
        os.close(writer)
        os.close(reader)
