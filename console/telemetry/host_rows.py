"""The host group of a frame: memory, pressure, CPU, interfaces and disks, with rates since the frame before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from console.base.absent import Absent
from console.telemetry import host_text
from console.telemetry.pick import amount_or, count, growth, number, rate, raw, table, text, whole
from console.telemetry.sample import Cpu, DiskRate, Float, Int, Memory, NetRate, Pressure

MOST_PAGE: Final = 1 << 30  # bytes; the largest that a kernel is built with are of 64 KiB


class Counters:
    """What is kept of one frame to compute the next one's rates."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._cpu: tuple[int, ...] | None = None
        self._swap: dict[str, int] = {}
        self._net: dict[str, tuple[int, int, int, int]] = {}
        self._disks: dict[str, tuple[int, int, int]] = {}

    def step(self, host: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of a `Sample` by name."""
        at = number(host.get("t"))
        seconds = 0.0 if at is None or self._at is None else at - self._at
        out = {
            "memory": self._memory(host, seconds),
            "cpu": self._load(host),
            "psi_memory": _pressure(host, "psi_memory"),
            "psi_cpu": _pressure(host, "psi_cpu"),
            "psi_io": _pressure(host, "psi_io"),
            "net": self._interfaces(host, seconds),
            "disks": self._devices(host, seconds),
        }
        self._at = at
        return out

    def _memory(self, host: Mapping[str, Any], seconds: float) -> Memory:
        found = host_text.meminfo(raw(host, "meminfo"))
        why = _why(host, "meminfo")

        def size(name: str) -> Int:
            return found.get(name, Absent(why or f"the kernel gives no {name}"))

        page = whole(host.get("page")) or 0
        page = page if 0 < page <= MOST_PAGE else 0
        largest, high = host_text.high_orders(raw(host, "buddyinfo"), page)
        swap = host_text.counters(raw(host, "vmstat"))

        def paged(name: str) -> Float:
            if page <= 0:
                return Absent("the node does not say how large a page is")
            now: Int = swap.get(name, Absent(_why(host, "vmstat") or f"the kernel gives no {name}"))
            pages = rate(self._swap.get(name), now, seconds)
            return pages if isinstance(pages, Absent) else pages * page

        memory = Memory(
            total_bytes=size("MemTotal"),
            available_bytes=size("MemAvailable"),
            free_bytes=size("MemFree"),
            cached_bytes=size("Cached"),
            buffers_bytes=size("Buffers"),
            shmem_bytes=size("Shmem"),
            swap_total_bytes=size("SwapTotal"),
            swap_free_bytes=size("SwapFree"),
            cma_total_bytes=size("CmaTotal"),
            cma_free_bytes=size("CmaFree"),
            dirty_bytes=size("Dirty"),
            writeback_bytes=size("Writeback"),
            swap_in_bytes_s=paged("pswpin"),
            swap_out_bytes_s=paged("pswpout"),
            largest_order=largest,
            high_order_bytes=high,
        )
        self._swap = swap
        return memory

    def _load(self, host: Mapping[str, Any]) -> Cpu:
        content = raw(host, "stat")
        ticks = host_text.cpu_ticks(content)
        busy, iowait, steal = host_text.cpu_percent(self._cpu, ticks)
        self._cpu = ticks
        why = _why(host, "loadavg") or "not in the frame"
        one, five, fifteen = (amount_or(v, why) for v in host_text.loads(raw(host, "loadavg")))
        blocked = host_text.counters(content).get("procs_blocked")
        return Cpu(
            percent=busy,
            iowait_percent=iowait,
            steal_percent=steal,
            cores=count(host.get("cores")) or Absent(_why(host, "stat") or "not in the frame"),
            load1=one,
            load5=five,
            load15=fifteen,
            blocked=Absent("the kernel does not say") if blocked is None else blocked,
        )

    def _interfaces(self, host: Mapping[str, Any], seconds: float) -> tuple[NetRate, ...] | Absent:
        if why := _why(host, "net"):
            return Absent(why)
        found = host_text.net_counters(raw(host, "net"))
        out = []
        for name, now in found.items():
            before = self._net.get(name, (None, None, None, None))
            out.append(
                NetRate(
                    name=name,
                    rx_bytes_s=rate(before[0], now[0], seconds),
                    tx_bytes_s=rate(before[1], now[1], seconds),
                    errors=growth(before[2], now[2]),
                    drops=growth(before[3], now[3]),
                    errors_total=now[2],
                    drops_total=now[3],
                )
            )
        self._net = found
        return tuple(out)

    def _devices(self, host: Mapping[str, Any], seconds: float) -> tuple[DiskRate, ...] | Absent:
        if why := _why(host, "disks"):
            return Absent(why)
        found = host_text.disk_counters(raw(host, "disks"))
        out = []
        for name, now in found.items():
            before = self._disks.get(name, (None, None, None))
            busy = rate(before[2], now[2], seconds)
            out.append(
                DiskRate(
                    name=name,
                    read_bytes_s=rate(before[0], now[0], seconds),
                    write_bytes_s=rate(before[1], now[1], seconds),
                    busy_percent=busy if isinstance(busy, Absent) else min(100.0, busy / 10.0),
                )
            )
        self._disks = found
        return tuple(out)


def _why(host: Mapping[str, Any], key: str) -> str:
    """The reason that the probe gives for a file it could not read; "" when it gave none."""
    return text(table(host, "why").get(key))


def _pressure(host: Mapping[str, Any], key: str) -> Pressure | Absent:
    why = _why(host, key)
    return Absent(f"no pressure information: {why}") if why else host_text.pressure(raw(host, key))
