"""GPUs as nodes really have them: in every column what is not known is absent, and nothing counts twice."""

from __future__ import annotations

from typing import Any

import pytest

from console.base.absent import Absent
from console.telemetry.frames import Frame
from console.telemetry.sample import Gpu, MemKind, Sample
from console.telemetry.sampler import Sampler
from console.telemetry.thresholds import measures
from console.telemetry.to_json import node_json
from tests.telemetry.test_gpu_text import FIELDS, GB10

COLUMNS = {
    "utilization.gpu": ("util_percent", 3),
    "temperature.gpu": ("temp_c", 4),
    "power.draw": ("power_w", 5),
    "clocks.sm": ("clock_mhz", 6),
    "clocks.max.sm": ("clock_max_mhz", 7),
    "memory.used": ("mem_used_bytes", 8),
    "memory.total": ("mem_total_bytes", 9),
    "clocks_event_reasons.active": ("throttle", 10),
}
H200 = "1, GPU-b, NVIDIA H200, 100, 71, 655.10, 1755, 1980, 140012, 143771, 0x0000000000000004"
WORDS = ["[N/A]", "N/A", "Not Supported", "[Not Supported]", "[Unknown Error]", "ERR!", "[GPU is lost]", "", "nan"]


def frame(seq: int, rows: list[str], *, apps: list[str] | None = None, why: str = "", said: str = "") -> Frame:
    t = float(seq)
    gpu: dict[str, Any] = {"t": t, "fields": FIELDS, "rows": rows, "why": why, "said": said}
    data: dict[str, Any] = {"part": "all", "t": t, "w": t, "host": {"t": t, "why": {}}, "gpu": gpu, "self": {"pid": 7}}
    fields = ["pid", "process_name", "used_memory", "gpu_uuid"]
    data["apps"] = {"t": t, "fields": fields, "rows": apps or [], "why": ""}
    return Frame(seq, data)


def step(sampler: Sampler, one: Frame) -> Sample:
    return sampler.step(one, received_at=float(one.seq), wall=float(one.seq))


def gpus(sample: Sample) -> tuple[Gpu, ...]:
    assert not isinstance(sample.gpus, Absent)
    return sample.gpus


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("column", list(COLUMNS))
def test_in_every_column_a_word_is_absent_and_never_nought(column: str, word: str) -> None:
    field, at = COLUMNS[column]
    cells = H200.split(", ")
    cells[at] = word
    sample = step(Sampler("n"), frame(1, [", ".join(cells)]))
    value = getattr(gpus(sample)[0], field)
    assert isinstance(value, Absent) and value.reason
    others = [name for name, _ in COLUMNS.values() if name not in (field, "mem_used_bytes", "mem_total_bytes")]
    assert not [n for n in others if isinstance(getattr(gpus(sample)[0], n), Absent)]
    row = node_json("n", _fresh(), sample)["gpus"][0]
    names = {"mem_used_bytes": "mem_used_bytes", "util_percent": "util_percent", "temp_c": "temp_c"}
    if field in names:
        assert row[names[field]] is None and row[names[field] + "_why"]


def _fresh() -> Any:
    from console.telemetry.freshness import judge

    return judge(0.0, 0.0)


def test_two_gpus_of_two_kinds_keep_their_own_columns() -> None:
    one, two = gpus(step(Sampler("n"), frame(1, [H200, GB10])))
    assert (one.index, one.mem_kind, two.index, two.mem_kind) == (0, MemKind.UNIFIED, 1, MemKind.DEDICATED)
    assert two.mem_total_bytes == 143771 << 20 and isinstance(one.mem_total_bytes, Absent)


def test_a_gpu_printed_twice_is_one() -> None:
    assert len(gpus(step(Sampler("n"), frame(1, [H200, GB10, H200, GB10])))) == 2


def test_a_gpu_that_falls_off_the_bus_stays_without_figures_and_comes_back() -> None:
    sampler = Sampler("n")
    step(sampler, frame(1, [GB10, H200]))
    said = "Unable to determine the device handle for GPU1: 0000:41:00.0: GPU is lost."
    sample = step(sampler, frame(2, [GB10], said=said))
    left, lost = gpus(sample)
    assert left.util_percent == 96 and lost.name == "NVIDIA H200" and lost.uuid == "GPU-b"
    values = [getattr(lost, f) for f, _ in COLUMNS.values()]
    assert all(isinstance(v, Absent) and "GPU is lost" in v.reason for v in values)
    assert measures(sample)["gpu_temp_c"] == 64.0
    assert gpus(step(sampler, frame(3, [GB10, H200])))[1].power_w == 655.10


def test_a_driver_that_fails_takes_all_figures_with_it() -> None:
    sampler = Sampler("n")
    step(sampler, frame(1, [GB10]))
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    sample = step(sampler, frame(2, [GB10], why=said))
    assert sample.gpus == Absent(said)
    assert isinstance(measures(sample)["gpu_temp_c"], Absent) and isinstance(measures(sample)["gpu_latched"], Absent)


def test_lines_of_mig_instances_are_no_gpus() -> None:
    rows = [
        "0, GPU-a, NVIDIA A100-SXM4-80GB, [N/A], 34, 62.31, 1410, 1410, 45, 81920, 0x0000000000000001",
        "  MIG 3g.40gb     Device  0: (UUID: MIG-0b4a8c1e)",
        "MIG 1g.10gb, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
    ]
    (only,) = gpus(step(Sampler("n"), frame(1, rows)))
    assert isinstance(only.util_percent, Absent) and only.mem_used_bytes == 45 << 20


def test_a_process_counts_once_on_each_gpu() -> None:
    rows = ["7, VLLM::Worker, 100, GPU-a", "7, VLLM::Worker, 100, GPU-b", "9, a, b, 5, GPU-a"]
    apps = step(Sampler("n"), frame(1, [GB10], apps=rows * 2)).gpu_apps
    assert not isinstance(apps, Absent)
    assert [(a.pid, a.name, a.used_bytes, a.gpu_uuid) for a in apps] == [
        (7, "VLLM::Worker", 100 << 20, "GPU-a"),
        (7, "VLLM::Worker", 100 << 20, "GPU-b"),
        (9, "a, b", 5 << 20, "GPU-a"),
    ]


def test_a_process_of_a_driver_without_that_column_or_without_its_figure() -> None:
    apps = step(Sampler("n"), frame(1, [GB10], apps=["4242, VLLM::Worker_TP5, 82739", "7, [Not Found], [N/A], [N/A]"]))
    rows = apps.gpu_apps
    assert not isinstance(rows, Absent)
    assert (rows[0].name, rows[0].used_bytes) == ("VLLM::Worker_TP5", 82739 << 20)
    assert isinstance(rows[1].used_bytes, Absent) and isinstance(rows[1].gpu_uuid, Absent)
