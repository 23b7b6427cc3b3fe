"""Histories of all nodes by metric, in fixed memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from console.base.absent import NOT_SAMPLED, Absent
from console.telemetry.history import FINE_S, Series
from console.telemetry.sample import Float, Gpu, Sample
from console.telemetry.trend import seconds_to_empty, seconds_to_empty_now, slope_now


def _gpu(pick: Callable[[Gpu], Float]) -> Callable[[Sample], Float]:
    """The busiest, hottest or hungriest GPU of a node stands for it."""

    def value(sample: Sample) -> Float:
        if isinstance(sample.gpus, Absent):
            return sample.gpus
        found = [v for v in (pick(g) for g in sample.gpus) if not isinstance(v, Absent)]
        return max(found) if found else NOT_SAMPLED

    return value


def _net(receive: bool) -> Callable[[Sample], Float]:
    """RDMA ports and network interfaces together: what crosses the fabric by RDMA never shows on the interface."""

    def value(sample: Sample) -> Float:
        total, seen = 0.0, False
        for rows in (sample.net, sample.rdma):
            if isinstance(rows, Absent):
                continue
            for row in rows:
                rate = row.rx_bytes_s if receive else row.tx_bytes_s
                if not isinstance(rate, Absent) and row.name != "lo":
                    total, seen = total + rate, True
        return total if seen else NOT_SAMPLED

    return value


METRICS: Final[dict[str, Callable[[Sample], Float]]] = {
    "mem_used": lambda s: s.memory.used_bytes,
    "mem_available": lambda s: s.memory.available_bytes,
    "gpu_util": _gpu(lambda g: g.util_percent),
    "gpu_power": _gpu(lambda g: g.power_w),
    "gpu_temp": _gpu(lambda g: g.temp_c),
    "gpu_clock": _gpu(lambda g: g.clock_mhz),
    "net_rx": _net(True),
    "net_tx": _net(False),
    "load": lambda s: s.cpu.load1,
}


class SeriesBook:
    """One `Series` a node and metric, made when the node first speaks."""

    def __init__(self) -> None:
        self._book: dict[tuple[str, str], Series] = {}

    def add(self, sample: Sample) -> None:
        if sample.part != "all":
            return
        for name, pick in METRICS.items():
            series = self._book.get((sample.node, name))
            if series is None:
                series = self._book[(sample.node, name)] = Series()
            series.add(sample.received_at, pick(sample))

    def read(self, node: str, metric: str, *, seconds: float, points: int, now: float) -> Sequence[float | None]:
        """Exactly `points` values over the last `seconds`, oldest first; None for a gap."""
        series = self._book.get((node, metric))
        if series is None or points <= 0:
            return [None] * max(0, points)
        if seconds <= FINE_S:
            values = series.recent(max(1, int(seconds)), now)
        else:
            values = [None if m is None else (m[0] + m[1]) / 2 for m in series.minutes(int(seconds / 60), now)]
        return _resample(values, points)

    def slope(self, node: str, metric: str, now: float) -> Float:
        """Change per second, as `slope_now` tells it."""
        series = self._book.get((node, metric))
        return NOT_SAMPLED if series is None else slope_now(series, now)

    def seconds_to_empty(self, node: str, left: Float, now: float) -> Float:
        """Seconds until a node's available memory is used up at the rate of the last half minute."""
        series = self._book.get((node, "mem_available"))
        return NOT_SAMPLED if series is None else seconds_to_empty(series, left, now)

    def seconds_to_empty_now(self, node: str, left: Float, now: float) -> Float:
        """The same for whoever looks: a fast fall is told at once, by the last samples."""
        series = self._book.get((node, "mem_available"))
        return NOT_SAMPLED if series is None else seconds_to_empty_now(series, left, now)


def _resample(values: Sequence[float | None], points: int) -> list[float | None]:
    """Means of equal slices; a slice without a value is a gap."""
    n = len(values)
    out: list[float | None] = []
    for i in range(points):
        part = [v for v in values[i * n // points : max(i * n // points + 1, (i + 1) * n // points)] if v is not None]
        out.append(sum(part) / len(part) if part else None)
    return out
