"""One simulated DGX Spark: its unified memory, its GPU and its fabric, as numbers that move while a boot runs."""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass
from typing import Final

from console.lab.clock import LabClock

# A GB10 as its kernel reports it: 121.69 GiB, of which 115.83 GiB are available on an idle node.
MEM_TOTAL_KB: Final = 127_600_812
IDLE_AVAILABLE_GIB: Final = 115.83
GIB_KB: Final = 1024 * 1024
HCAS: Final = (("rocep1s0f0", "enp1s0f0np0"), ("roceP2p1s0f0", "enP2p1s0f0np0"))


@dataclass(slots=True)
class Load:
    """What one process asks of the machine now. gib: memory held, moving linearly from one value to another.
    util: percent of the GPU. rx/tx: bytes a wall second on the fabric. disk: bytes read a wall second. cpu: cores.
    pid: the container's first process, 0 for a process of nobody's; its worker has the pid after it."""

    gib: float = 0.0
    goal: float = 0.0
    since: float = 0.0
    until: float = 0.0
    util: float = 0.0
    rx: float = 0.0
    tx: float = 0.0
    disk: float = 0.0
    cpu: float = 0.0
    pid: int = 0
    name: str = "python3"
    ticks: float = 0.0

    def held(self, now: float) -> float:
        if now >= self.until:
            return self.goal
        return self.gib + (self.goal - self.gib) * (now - self.since) / (self.until - self.since)

    def ramp(self, now: float, goal: float, over_s: float) -> None:
        """Go to `goal` GiB within `over_s` lab seconds."""
        self.gib, self.goal, self.since, self.until = self.held(now), goal, now, now + over_s


@dataclass(slots=True)
class Totals:
    """Counters since the node came up."""

    rx: float = 3.2e9
    tx: float = 2.9e9
    eth_rx: float = 8.0e8
    eth_tx: float = 4.0e8
    disk: float = 4.1e10
    cpu_busy: float = 52_000.0
    cpu_idle: float = 4_000_000.0
    stall_us: float = 12_000.0


class Machine:
    """The state of one node. `sample` moves the counters on; everything else only reads."""

    def __init__(self, name: str, number: int, clock: LabClock) -> None:
        self.name = name
        self.number = number
        self.fabric_address = f"10.99.{number // 250}.{number % 250}"
        self.clock = clock
        self.rng = random.Random(f"machine {name}")
        self.boot_id = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.lab.{time.time_ns()}"))
        self.up_since = time.time() - 86_400 * 9 - number * 977
        self.loads: dict[str, Load] = {}
        self.collapse: Load | None = None
        self.latched = False
        self.listening: set[tuple[str, int]] = {("0.0.0.0", 22)}
        self.totals = Totals()
        self._last = time.monotonic()
        self.temperature = 41.0 + number % 3
        self._base = 5.86 + 0.03 * (number % 5)

    def load(self, key: str) -> Load:
        return self.loads.setdefault(key, Load())

    def available_gib(self) -> float:
        """MemAvailable in GiB: total less what the system and every process hold."""
        now = self.clock.now()
        held = self._base + sum(load.held(now) for load in self.loads.values())
        free = MEM_TOTAL_KB / GIB_KB - held
        if self.collapse is not None:
            free = min(free, self.collapse.held(now))
        return max(free, 0.12)

    def gpu_util(self) -> int:
        return round(min(99.0, sum(load.util for load in self.loads.values())))

    def gpu_power(self) -> float:
        """Watts: a GB10 idles at about 4 W and works at 40 to 80; a latched clock holds it under 20 W."""
        watts = 4.3 + 0.38 * self.gpu_util() + self.rng.uniform(-0.4, 0.6) + (self.number % 4) * 0.3
        return min(watts, 14.2) if self.latched else watts

    def gpu_clock(self) -> int:
        """MHz of the SM clock; a latched clock stays under 1 GHz whatever the load."""
        if self.latched:
            return 507 if self.gpu_util() > 5 else 208
        return 2405 - self.number % 7 - self.rng.randrange(12) if self.gpu_util() > 5 else 208

    def sample(self) -> None:
        """Counters and temperature up to this moment."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        t = self.totals
        rx = sum(load.rx for load in self.loads.values())
        tx = sum(load.tx for load in self.loads.values())
        t.rx += (rx * self.rng.uniform(0.93, 1.05) + 900) * passed
        t.tx += (tx * self.rng.uniform(0.93, 1.05) + 900) * passed
        t.eth_rx += self.rng.uniform(1500, 4000) * passed
        t.eth_tx += self.rng.uniform(1500, 6000) * passed
        t.disk += sum(load.disk for load in self.loads.values()) * passed
        cores = 0.15 + sum(load.cpu for load in self.loads.values()) + self.rng.uniform(0, 0.1)
        for load in self.loads.values():
            load.ticks += load.cpu * 100 * passed
        t.cpu_busy += cores * 100 * passed
        t.cpu_idle += (20 - min(cores, 20)) * 100 * passed
        if self.available_gib() < 2:
            t.stall_us += 420_000 * passed
        goal = 40.0 + self.number % 3 + 0.27 * self.gpu_util()
        self.temperature += (goal - self.temperature) * min(1.0, passed / 12.0)

    def load_average(self) -> float:
        return round(0.3 + sum(load.cpu for load in self.loads.values()) + (self.number % 5) * 0.08, 2)
