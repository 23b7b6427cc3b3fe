"""Does a boot stand still? Only where several signs agree: silence alone is a compiler, a slow disk, an idle server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from console.enginelog.stages_model import Stage

# Seconds without a new line on any rank that a healthy boot has been seen to take, with room. From public reports: the
# store waits 600 s for its ranks; eight readers of a cold NFS take 10 to 18 min, and only rank 0 shows a bar; kernels
# compiled for the first time take 7 min and more; a graph capture prints a bar and takes seconds.
LIMITS: Final = {
    Stage.IMAGE: 3600.0,
    Stage.CONTAINER: 300.0,
    Stage.ARGUMENTS: 300.0,
    Stage.RENDEZVOUS: 660.0,
    Stage.NCCL: 300.0,
    Stage.MODEL: 600.0,
    Stage.WEIGHTS: 1200.0,
    Stage.LOADED: 1500.0,
    Stage.PROFILE: 1200.0,
    Stage.KV_CACHE: 900.0,
    Stage.WARMUP: 1200.0,
    Stage.GRAPHS: 600.0,
    Stage.HTTP: 300.0,
}
# Nine statistics lines of ten seconds (a public hang check).
TOKENLESS_S: Final = 90.0
# A hung collective spins on one core and keeps the GPU "busy" at 20 to 25 W (GB10; healthy work draws 35 W and more).
_SPINNING_CORES: Final = 1.6
_BUSY_PERCENT: Final = 80.0
_LOW_WATTS: Final = 30.0
_WORKING_WATTS: Final = 35.0
_MOVING_BYTES: Final = 1_000_000.0
_STILL_BYTES: Final = 100_000.0
_STILL_CORES: Final = 0.2
# A sample older than this says nothing of now.
_FRESH_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Pulse:
    """One rank by now; None is not known. silent_s: seconds since its log last said something new
    (`CauseCollector.news`) or its progress bar moved. cores_busy: of its node, 1.0 is one core. gpu_percent, gpu_watts,
    disk_bytes_per_s (reads and writes), net_bytes_per_s (both ways, Ethernet and RDMA): of its node. sample_age_s: of
    these."""

    rank: int
    stage: Stage | None = None
    silent_s: float | None = None
    cores_busy: float | None = None
    gpu_percent: float | None = None
    gpu_watts: float | None = None
    disk_bytes_per_s: float | None = None
    net_bytes_per_s: float | None = None
    sample_age_s: float | None = None

    @property
    def sampled(self) -> bool:
        return self.sample_age_s is not None and self.sample_age_s <= _FRESH_S

    @property
    def moves(self) -> bool:
        """Something on the node works: a compiler, a disk, a NAS, a GPU that draws power."""
        if not self.sampled:
            return False
        flow = max(self.disk_bytes_per_s or 0.0, self.net_bytes_per_s or 0.0)
        works = (self.gpu_percent or 0.0) > 0.0 and (self.gpu_watts or 0.0) >= _WORKING_WATTS
        return flow >= _MOVING_BYTES or (self.cores_busy or 0.0) > _SPINNING_CORES or works


def limit_of(pulses: Sequence[Pulse]) -> float:
    """Seconds of silence that the ranks' stages allow: the most patient one counts, for the others wait for it."""
    return max((LIMITS.get(p.stage, 0.0) for p in pulses if p.stage is not None), default=LIMITS[Stage.ARGUMENTS])


def judge_stall(pulses: Sequence[Pulse]) -> tuple[str, ...]:
    """The signs, in words, that a boot stands still; empty while it moves or while that cannot be told."""
    known = [p.silent_s for p in pulses if p.silent_s is not None]
    if not known or len(known) < len(pulses):
        return ()
    limit, silent = limit_of(pulses), min(known)
    if silent < limit or any(p.moves for p in pulses):
        return ()
    signs = [f"no rank has said anything for {silent:.0f} s (limit {limit:.0f} s)"]
    seen = [p for p in pulses if p.sampled]
    spinning = [p for p in seen if _spins(p)]
    if spinning:
        worst = spinning[0]
        watts = min(p.gpu_watts or 0.0 for p in spinning)
        signs.append(f"rank {worst.rank}'s GPU is {worst.gpu_percent:.0f}% busy at {watts:.0f} W: a hung collective")
    flows = [f for p in seen for f in (p.disk_bytes_per_s, p.net_bytes_per_s) if f is not None]
    if flows and len(seen) == len(pulses) and max(flows) < _STILL_BYTES:
        signs.append("no rank reads, writes or sends anything")
    cores = [p.cores_busy for p in seen if p.cores_busy is not None]
    if cores and len(cores) == len(pulses) and max(cores) < _STILL_CORES:
        signs.append("no rank uses the CPU")
    if len(signs) > 1:
        return tuple(signs)
    if not seen and silent >= 2 * limit:
        return (*signs, "nothing is known of the nodes' CPU, GPU and network")
    return ()


def judge_serving(
    pulses: Sequence[Pulse], running: float | None, tokens_per_s: float | None, tokenless_s: float | None
) -> tuple[str, ...]:
    """The same after ready. running: requests in work; tokens_per_s: generated now; tokenless_s: how long that has been
    zero with requests running. An idle engine is silent, and that is no fault."""
    if not running or tokens_per_s is None or tokens_per_s > 0 or tokenless_s is None or tokenless_s < TOKENLESS_S:
        return ()
    signs = [f"{running:.0f} requests run, and for {tokenless_s:.0f} s no token came"]
    spinning = [p for p in pulses if p.sampled and _spins(p)]
    if spinning:
        signs.append(f"rank {spinning[0].rank}'s GPU is busy at {spinning[0].gpu_watts:.0f} W: a hung collective")
    elif any(p.sampled and (p.gpu_watts or 0.0) >= _WORKING_WATTS and (p.gpu_percent or 0.0) > 0.0 for p in pulses):
        # A long prefill gives no token either, and its GPUs draw power.
        return ()
    return tuple(signs)


def _spins(pulse: Pulse) -> bool:
    busy, watts = pulse.gpu_percent, pulse.gpu_watts
    return busy is not None and watts is not None and busy >= _BUSY_PERCENT and watts < _LOW_WATTS
