"""Ten seconds of a boot's kept telemetry as a sample: the figures that were kept, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from console.base.absent import Absent
from console.telemetry.pick import number
from console.telemetry.sample import Cpu, Gpu, Memory, NetRate, Sample

_NOT_KEPT: Final = Absent("not kept of this boot")


def window_sample(node: str, row: Mapping[str, Any], at: float, started: float) -> Sample:
    """row: a line of telemetry.jsonl, each figure as [lowest, highest]; of each the end that is bad is taken."""

    def pick(name: str, end: int) -> float | Absent:
        pair = row.get(name)
        value = number(pair[end]) if isinstance(pair, list) and len(pair) == 2 else None
        return _NOT_KEPT if value is None else value

    available, used = pick("mem_available", 0), pick("mem_used", 1)
    total = _NOT_KEPT if isinstance(available, Absent) or isinstance(used, Absent) else int(available + used)
    gpu = Gpu(
        0,
        util_percent=pick("gpu_util", 1),
        temp_c=pick("gpu_temp", 1),
        power_w=pick("gpu_power", 1),
        clock_mhz=pick("gpu_clock", 0),
    )
    return Sample(
        node,
        int(at),
        at,
        at,
        started + at,
        memory=Memory(
            total_bytes=total, available_bytes=available if isinstance(available, Absent) else int(available)
        ),
        cpu=Cpu(load1=pick("load", 1)),
        gpus=(gpu,) if any(k.startswith("gpu_") for k in row) else _NOT_KEPT,
        guards=_NOT_KEPT,
        net=(NetRate("all", rx_bytes_s=pick("net_rx", 1), tx_bytes_s=pick("net_tx", 1)),),
        heard_at=started + at,
    )
