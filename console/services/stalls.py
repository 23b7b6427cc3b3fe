"""Does a deployment stand still: the signs gathered from logs and telemetry, judged now and then."""

from __future__ import annotations

from collections.abc import Mapping

from console.base.absent import Absent, known
from console.boot.state import BootState, Phase
from console.enginelog.stall import Pulse, judge_serving, judge_stall
from console.telemetry.sample import NetRate, RdmaRate, Sample

JUDGE_EVERY_S = 5.0


class StallWatch:
    """One deployment's. Times: the console's clocks, wall for logs, monotonic for samples; seconds."""

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        self._samples: dict[str, Sample] = {}
        self._news: dict[int, tuple[object, float]] = {}
        self._tokenless_since: float | None = None

    def sample(self, sample: Sample) -> None:
        if sample.part == "all":
            self._samples[sample.node] = sample

    def heard(self, rank: int, mark: object, now: float) -> None:
        """`mark` changes when a rank's log says something new: a repeated waiting line is no news."""
        old = self._news.get(rank)
        if old is None or old[0] != mark:
            self._news[rank] = (mark, now)

    def signs(self, state: BootState, stats: Mapping[str, float], *, wall: float, monotonic: float) -> tuple[str, ...]:
        """What speaks for a stall now; empty while it moves, is over, is being stopped, or cannot be told."""
        if state.phase.over or state.phase in (Phase.STOPPING, Phase.STARTING):
            return ()
        pulses = [self._pulse(state, n, wall, monotonic) for n in range(len(state.ranks))]
        if state.ready_at is None:
            return judge_stall(pulses)
        running, tokens = stats.get("running"), stats.get("generation_tokens_per_s")
        if not running or tokens is None or tokens > 0:
            self._tokenless_since = None
        elif self._tokenless_since is None:
            self._tokenless_since = wall
        tokenless = None if self._tokenless_since is None else wall - self._tokenless_since
        return judge_serving(pulses, running, tokens, tokenless)

    def _pulse(self, state: BootState, index: int, wall: float, monotonic: float) -> Pulse:
        rank = state.ranks[index]
        news = self._news.get(rank.rank)
        silent = wall - (news[1] if news is not None else self._started_at) if rank.reachable else None
        sample = self._samples.get(rank.node)
        if sample is None:
            return Pulse(rank.rank, rank.stage, silent)
        gpus = sample.gpus if known(sample.gpus) else ()
        utils = [g.util_percent for g in gpus if known(g.util_percent)]
        watts = [g.power_w for g in gpus if known(g.power_w)]
        percent, cores = sample.cpu.percent, sample.cpu.cores
        return Pulse(
            rank=rank.rank,
            stage=rank.stage,
            silent_s=silent,
            cores_busy=percent * cores / 100 if known(percent) and known(cores) else None,
            gpu_percent=max(utils, default=None),
            gpu_watts=max(watts, default=None),
            disk_bytes_per_s=_disk(sample),
            net_bytes_per_s=_net(sample),
            sample_age_s=monotonic - sample.received_at,
        )


def _disk(sample: Sample) -> float | None:
    if isinstance(sample.disks, Absent):
        return None
    flows = [f for d in sample.disks for f in (d.read_bytes_s, d.write_bytes_s) if known(f)]
    return sum(flows) if flows else None


def _net(sample: Sample) -> float | None:
    """Ethernet and RDMA, both ways; a NAS that is slow still moves bytes here."""
    rows: list[NetRate | RdmaRate] = []
    rows += [r for r in sample.net if r.name != "lo"] if known(sample.net) else []
    rows += sample.rdma if known(sample.rdma) else ()
    flows = [f for r in rows for f in (r.rx_bytes_s, r.tx_bytes_s) if known(f)]
    return sum(flows) if flows else None
