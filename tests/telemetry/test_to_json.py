"""The object of `top --json`: what scripts rely on."""

from __future__ import annotations

from console.base.absent import Absent
from console.telemetry.freshness import judge
from console.telemetry.gpu_text import gpu
from console.telemetry.sample import Cpu, Memory, Sample
from console.telemetry.to_json import node_json

FIELDS = [
    "index",
    "name",
    "utilization.gpu",
    "temperature.gpu",
    "power.draw",
    "clocks.sm",
    "memory.used",
    "memory.total",
]


def sample(line: str) -> Sample:
    found = gpu(line, FIELDS)
    assert found is not None
    memory = Memory(total_bytes=100, available_bytes=40, shmem_bytes=7, swap_total_bytes=10, swap_free_bytes=4)
    return Sample("dgx1", 1, 0.0, 0.0, 0.0, memory=memory, cpu=Cpu(percent=12.34567, load1=3.1), gpus=(found,), net=())


def test_a_gb10_node() -> None:
    out = node_json("dgx1", judge(10.0, 11.5), sample("0, NVIDIA GB10, 96, 64, 41.2, 2405, [N/A], [N/A]"))
    assert (out["node"], out["state"], out["age_s"], out["why"]) == ("dgx1", "fresh", 1.5, None)
    assert (out["mem_total_bytes"], out["mem_available_bytes"], out["shmem_bytes"], out["swap_used_bytes"]) == (
        100,
        40,
        7,
        6,
    )
    assert (out["cpu_percent"], out["load1"], out["net"]) == (12.346, 3.1, [])
    (one,) = out["gpus"]
    assert one == {
        "name": "NVIDIA GB10",
        "util_percent": 96.0,
        "temp_c": 64.0,
        "power_w": 41.2,
        "clock_mhz": 2405.0,
        "mem_kind": "unified",
        "mem_used_bytes": None,
        "mem_used_bytes_why": "unified memory: it is the node's memory",
        "mem_total_bytes": None,
        "mem_total_bytes_why": "unified memory: it is the node's memory",
    }
    assert out["rdma"] is None and out["rdma_why"] == "not sampled yet"


def test_a_dedicated_gpu() -> None:
    (one,) = node_json("n", judge(0.0, 0.0), sample("0, H200, 1, 30, 80, 345, 1024, 143771"))["gpus"]
    assert (one["mem_kind"], one["mem_used_bytes"], one["mem_total_bytes"]) == ("dedicated", 1024 << 20, 143771 << 20)


def test_a_node_that_never_answered_is_null_with_the_reason() -> None:
    out = node_json("dgx8", judge(None, 5.0, trouble="no route to host"), None)
    assert (out["state"], out["age_s"], out["why"]) == ("lost", None, "no route to host")
    for key in ("mem_total_bytes", "cpu_percent", "gpus", "net", "rdma", "disks"):
        assert out[key] is None and out[f"{key}_why"] == "no route to host"


def test_a_lost_node_keeps_its_last_values() -> None:
    out = node_json("dgx1", judge(0.0, 60.0), sample("0, NVIDIA GB10, 96, 64, 41.2, 2405, [N/A], [N/A]"))
    assert out["state"] == "lost" and out["mem_available_bytes"] == 40 and out["why"] == "no sample for 60 s"


def test_absent_is_never_an_empty_list() -> None:
    plain = Sample("n", 1, 0.0, 0.0, 0.0, gpus=Absent("nvidia-smi is not in PATH"))
    out = node_json("n", judge(0.0, 0.0), plain)
    assert out["gpus"] is None and out["gpus_why"] == "nvidia-smi is not in PATH"
