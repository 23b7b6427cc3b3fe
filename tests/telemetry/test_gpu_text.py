"""nvidia-smi's own lines: GB10, several GPUs, MIG, lost devices, drivers without a field."""

from __future__ import annotations

import pytest

from console.base.absent import Absent
from console.telemetry.gpu_text import gpu, gpu_app
from console.telemetry.sample import MemKind

FIELDS = [
    "index",
    "uuid",
    "name",
    "utilization.gpu",
    "temperature.gpu",
    "power.draw",
    "clocks.sm",
    "clocks.max.sm",
    "memory.used",
    "memory.total",
    "clocks_event_reasons.active",
]
GB10 = (
    "0, GPU-5d4d1a5e-9d5c-9a4e-b0f8-6b6b7d5c, NVIDIA GB10, 96, 64, 41.20, 2405, 3003, [N/A], [N/A], 0x0000000000000000"
)


def test_gb10_has_unified_memory_and_no_zero_anywhere() -> None:
    found = gpu(GB10, FIELDS)
    assert found is not None
    assert (found.name, found.util_percent, found.temp_c, found.power_w) == ("NVIDIA GB10", 96.0, 64.0, 41.2)
    assert (found.clock_mhz, found.clock_max_mhz) == (2405.0, 3003.0)
    assert found.mem_kind is MemKind.UNIFIED
    assert isinstance(found.mem_used_bytes, Absent) and isinstance(found.mem_total_bytes, Absent)
    assert found.throttle == ()


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "Not Supported", "[Not Supported]"])
def test_each_wording_of_not_there_is_unified(word: str) -> None:
    found = gpu(GB10.replace("[N/A]", word), FIELDS)
    assert found is not None and found.mem_kind is MemKind.UNIFIED


@pytest.mark.parametrize("word", ["[GPU is lost]", "[Unknown Error]", "ERR!", "[Insufficient Permissions]", ""])
def test_a_gpu_in_trouble_is_not_taken_for_a_unified_one(word: str) -> None:
    found = gpu(GB10.replace("[N/A]", word), FIELDS)
    assert found is not None
    assert isinstance(found.mem_kind, Absent) and isinstance(found.mem_total_bytes, Absent)


def test_all_columns_not_there_is_not_unified_either() -> None:
    found = gpu("0, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]", FIELDS)
    assert found is not None and isinstance(found.mem_kind, Absent)
    assert isinstance(found.name, Absent) and found.name.reason == "nvidia-smi says [N/A]"


def test_a_dedicated_gpu_has_real_numbers() -> None:
    found = gpu("1, GPU-a, NVIDIA H200, 100, 71, 655.10, 1755, 1980, 140012, 143771, 0x0000000000000024", FIELDS)
    assert found is not None and found.index == 1 and found.mem_kind is MemKind.DEDICATED
    assert (found.mem_used_bytes, found.mem_total_bytes) == (140012 << 20, 143771 << 20)
    assert found.throttle == ("power cap", "thermal (software)")


def test_mig_mode_hides_utilisation_only() -> None:
    found = gpu("0, GPU-a, NVIDIA A100-SXM4-80GB, [N/A], 34, 62.31, 1410, 1410, 45, 81920, 0x0000000000000001", FIELDS)
    assert found is not None and isinstance(found.util_percent, Absent)
    assert found.mem_kind is MemKind.DEDICATED and found.throttle == ()


@pytest.mark.parametrize(
    "line",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Unable to determine the device handle for GPU0: 000F:01:00.0: Unknown Error",
        "No devices were found",
        "",
        "x" + GB10,
        GB10 + ", more",
        "-1" + GB10[1:],
        "99999999999999999999999" + GB10[1:],
    ],
)
def test_other_lines_are_no_gpu(line: str) -> None:
    assert gpu(line, FIELDS) is None


def test_a_dropped_field_is_absent_with_its_name() -> None:
    found = gpu(GB10.rpartition(",")[0], FIELDS[:-1])
    assert found is not None and isinstance(found.throttle, Absent) and "clocks_event_reasons" in found.throttle.reason


def test_processes_of_a_gpu() -> None:
    app = gpu_app("82739, VLLM::Worker_TP5, 75012")
    assert app is not None and (app.pid, app.name, app.used_bytes) == (82739, "VLLM::Worker_TP5", 75012 << 20)
    comma = gpu_app("7, /opt/a, b/python3, 12")
    assert comma is not None and comma.name == "/opt/a, b/python3"
    hidden = gpu_app("7, [Not Found], [N/A]")
    assert hidden is not None and isinstance(hidden.used_bytes, Absent)
    assert gpu_app("No running processes found") is None
