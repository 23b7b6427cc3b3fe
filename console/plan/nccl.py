"""What NCCL's buffers cost on each node: measured figures, by number of ranks and by settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from console.base.absent import Absent
from console.plan.flags import whole

GIB: Final = 1 << 30
# Shared memory of two communicators over eight GB10 nodes, NCCL 2.29.7, published by rhys101/DeepSeek-V4.1-Flash-vLLM-
# DGX-Spark-8 (docs/memory-footprint.md): default settings and NCCL_BUFFSIZE=1048576, NCCL_LL128_BUFFSIZE=262144,
# NCCL_PROTO=^LL128, NCCL_MAX_NCHANNELS=8.
DEFAULT_8: Final = round(11.61 * GIB)
SMALL_8: Final = round(0.425 * GIB)
# tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks, lever L1: about 10 GiB a node came back at four ranks.
DEFAULT_4: Final = 10 * GIB + SMALL_8

Buffers = Literal["default", "partly", "small"]


def nccl_buffers(env: Mapping[str, str]) -> Buffers:
    """Whether an environment sets NCCL's buffers as in the measurement: the buffer at most 1 MiB and at most eight
    channels; one without the other is `partly`, of unknown cost."""
    size = whole(env.get("NCCL_BUFFSIZE"))
    channels = whole(env.get("NCCL_MAX_NCHANNELS") or env.get("NCCL_MAX_CTAS"))
    small = size is not None and 0 < size <= 1 << 20
    few = channels is not None and 0 < channels <= 8
    if small and few:
        return "small"
    return "partly" if small or few else "default"


def nccl_cost(world: int, env: Mapping[str, str], *, gpus: bool) -> tuple[int | Absent, str]:
    """(bytes on each node, where the figure comes from). One rank and CPU ranks have no NCCL buffers at all: that is a
    known 0. A number of ranks that nobody measured is Absent."""
    if world <= 1:
        return 0, "one rank: no NCCL"
    if not gpus:
        return 0, "no GPUs: no NCCL"
    setting = nccl_buffers(env)
    if setting == "small":
        if world < 4:
            return Absent(f"NCCL's buffers were not measured at {world} ranks"), "not measured"
        more = "" if world == 8 else f", taken for {world} ranks too [inferred]"
        return SMALL_8, f"0.425 GiB measured at 8 ranks with the buffer settings{more}"
    if world >= 8:
        note = "" if world == 8 else f"; {world} ranks cost at least as much [inferred]"
        partly = "; the settings are incomplete, so this is the upper figure [inferred]" if setting == "partly" else ""
        return DEFAULT_8, f"11.61 GiB measured at 8 ranks with NCCL's default buffers{note}{partly}"
    if world >= 4:
        return DEFAULT_4, "about 10 GiB were measured to come back at 4 ranks with the buffer settings [inferred]"
    return Absent(f"NCCL's buffers were not measured at {world} ranks"), "not measured"
