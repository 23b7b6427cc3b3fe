"""A node's sample as `top --json` gives it: an unknown is null beside its reason, under the same name with `_why`."""

from __future__ import annotations

from typing import Any

from console.base.absent import Absent
from console.telemetry.freshness import Freshness
from console.telemetry.sample import DiskRate, FileSystem, Gpu, NetRate, RdmaRate, Sample


def node_json(node: str, freshness: Freshness, sample: Sample | None) -> dict[str, Any]:
    """One entry of `nodes[]`. A lost node keeps its last values: `state` and `age_s` say how far to trust them."""
    none = Absent(freshness.why or "no sample yet")
    out: dict[str, Any] = {
        "node": node,
        "state": str(freshness.state),
        "age_s": None if freshness.age_s is None else round(freshness.age_s, 3),
        "why": freshness.why or None,
    }
    memory, cpu = (None, None) if sample is None else (sample.memory, sample.cpu)
    _put(out, "mem_total_bytes", none if memory is None else memory.total_bytes)
    _put(out, "mem_available_bytes", none if memory is None else memory.available_bytes)
    _put(out, "page_cache_bytes", none if memory is None else memory.page_cache_bytes)
    _put(out, "shmem_bytes", none if memory is None else memory.shmem_bytes)
    _put(out, "swap_used_bytes", none if memory is None else memory.swap_used_bytes)
    _put(out, "cpu_percent", none if cpu is None else cpu.percent)
    _put(out, "load1", none if cpu is None else cpu.load1)
    _many(out, "gpus", none if sample is None else sample.gpus, _gpu)
    _many(out, "net", none if sample is None else sample.net, _net)
    _many(out, "rdma", none if sample is None else sample.rdma, _rdma)
    _many(out, "disks", none if sample is None else sample.disks, _disk)
    _many(out, "filesystems", none if sample is None else sample.filesystems, _space)
    return out


def _put(out: dict[str, Any], key: str, value: object) -> None:
    if isinstance(value, Absent):
        out[key], out[f"{key}_why"] = None, value.reason
    else:
        out[key] = round(value, 3) if isinstance(value, float) else value


def _many(out: dict[str, Any], key: str, values: Any, each: Any) -> None:
    _put(out, key, values if isinstance(values, Absent) else [each(v) for v in values])


def _fields(**values: object) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in values.items():
        _put(out, key, value)
    return out


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return _fields(
        name=gpu.name,
        util_percent=gpu.util_percent,
        temp_c=gpu.temp_c,
        power_w=gpu.power_w,
        clock_mhz=gpu.clock_mhz,
        mem_kind=gpu.mem_kind if isinstance(gpu.mem_kind, Absent) else str(gpu.mem_kind),
        mem_used_bytes=gpu.mem_used_bytes,
        mem_total_bytes=gpu.mem_total_bytes,
    )


def _net(net: NetRate) -> dict[str, Any]:
    return _fields(
        name=net.name,
        state=net.operstate,
        rx_bytes_s=net.rx_bytes_s,
        tx_bytes_s=net.tx_bytes_s,
        speed_mbit=net.speed_mbit,
        mtu=net.mtu,
        errors=net.errors,
        drops=net.drops,
    )


def _rdma(port: RdmaRate) -> dict[str, Any]:
    return _fields(
        name=port.name,
        state=port.state,
        rx_bytes_s=port.rx_bytes_s,
        tx_bytes_s=port.tx_bytes_s,
        rate_gbit=port.rate_gbit,
        errors=port.errors if isinstance(port.errors, Absent) else dict(port.errors),
    )


def _disk(disk: DiskRate) -> dict[str, Any]:
    return _fields(
        name=disk.name,
        read_bytes_s=disk.read_bytes_s,
        write_bytes_s=disk.write_bytes_s,
        busy_percent=disk.busy_percent,
    )


def _space(files: FileSystem) -> dict[str, Any]:
    return _fields(path=files.path, total_bytes=files.total_bytes, available_bytes=files.available_bytes)
