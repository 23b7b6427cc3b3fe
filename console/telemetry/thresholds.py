"""Rules that speak once when a limit is crossed and once when it is over: hysteresis and a time to hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from console.base.absent import Absent
from console.base.findings import Severity
from console.base.units import GIB
from console.telemetry.sample import Float, Sample


@dataclass(frozen=True, slots=True)
class Rule:
    """`measure` beyond `enter` for `hold_s` raises it, back beyond `leave` for `hold_s` clears it. With enter < leave
    low values are bad, with enter > leave high ones. message: for the operator. Units are the measure's."""

    code: str
    measure: str
    enter: float
    leave: float
    severity: Severity
    message: str
    hold_s: float = 0.0

    def bad(self, value: float) -> bool:
        return value < self.enter if self.enter < self.leave else value > self.enter

    def good(self, value: float) -> bool:
        return value >= self.leave if self.enter < self.leave else value <= self.leave


# Limits from public notes on eight- and four-node GB10 clusters: a healthy head serves with 1.6-5 GiB available, and
# below 1 GiB nodes were lost; memory pressure of 28-40 % is normal while weights load, above 5 % for long it is not;
# a latched clock shows as less than 1 GHz and 20 W under load, and needs the power adapter unplugged.
RULES: Final = (
    Rule("memory-low", "available_bytes", 4 * GIB, 5 * GIB, Severity.WARN, "less than 4 GiB of memory available"),
    Rule(
        "memory-critical", "available_bytes", 1 * GIB, 1.5 * GIB, Severity.BLOCK, "less than 1 GiB of memory available"
    ),
    Rule("memory-pressure", "psi_full60", 5.0, 2.0, Severity.WARN, "all tasks wait for memory", hold_s=60.0),
    Rule("swapping", "swap_bytes_s", 1e6, 1e5, Severity.WARN, "pages go to and from swap", hold_s=5.0),
    Rule("gpu-hot", "gpu_temp_c", 87.0, 82.0, Severity.WARN, "the GPU is hotter than 87 °C", hold_s=5.0),
    Rule(
        "gpu-clock-latch", "gpu_latched", 0.5, 0.25, Severity.WARN, "clock and power stay low under load", hold_s=30.0
    ),
    Rule("disk-full", "disk_free_share", 0.03, 0.05, Severity.WARN, "less than 3 % of a file system is free"),
    # Logs of ranks are compared by their times; a node that thrashes falls behind too [inferred].
    Rule(
        "clock-off", "clock_offset_s", 30.0, 10.0, Severity.WARN, "the node's clock is not this machine's", hold_s=10.0
    ),
)


@dataclass(frozen=True, slots=True)
class Edge:
    """A rule of a node that was raised or cleared at `at` (seconds, the clock given), with the value that did it."""

    rule: Rule
    node: str
    raised: bool
    value: float
    at: float


class Thresholds:
    """Which rules are raised on one node."""

    def __init__(self, node: str, rules: Iterable[Rule] = RULES) -> None:
        self._node = node
        self._rules = tuple(rules)
        self._raised: set[str] = set()
        self._since: dict[str, float] = {}

    @property
    def raised(self) -> tuple[Rule, ...]:
        return tuple(r for r in self._rules if r.code in self._raised)

    def hold(self, code: str) -> bool:
        """Take a rule for raised already; False where there is no such rule."""
        if not any(r.code == code for r in self._rules):
            return False
        self._raised.add(code)
        return True

    def step(self, at: float, values: Mapping[str, Float]) -> list[Edge]:
        """Edges of this moment. An absent value neither raises nor clears, and starts the time to hold again."""
        out = []
        for rule in self._rules:
            value = values.get(rule.measure)
            raised = rule.code in self._raised
            if value is None or isinstance(value, Absent) or not (rule.good(value) if raised else rule.bad(value)):
                self._since.pop(rule.code, None)
                continue
            if at - self._since.setdefault(rule.code, at) < rule.hold_s:
                continue
            del self._since[rule.code]
            if raised:
                self._raised.discard(rule.code)
            else:
                self._raised.add(rule.code)
            out.append(Edge(rule, self._node, not raised, value, at))
        return out


def measures(sample: Sample) -> dict[str, Float]:
    """What the rules look at. Units: bytes, percent, degrees Celsius, shares from 0 to 1."""
    none = Absent("not known")
    gpus = () if isinstance(sample.gpus, Absent) else sample.gpus
    temps = [g.temp_c for g in gpus if not isinstance(g.temp_c, Absent)]
    latched: list[float] = []
    for g in gpus:
        known = [v for v in (g.util_percent, g.clock_mhz, g.power_w) if not isinstance(v, Absent)]
        if len(known) == 3:
            latched.append(1.0 if known[0] > 80 and known[1] < 1000 and known[2] < 20 else 0.0)
    files = () if isinstance(sample.filesystems, Absent) else sample.filesystems
    shares = [
        f.available_bytes / f.total_bytes
        for f in files
        if not isinstance(f.available_bytes, Absent) and not isinstance(f.total_bytes, Absent) and f.total_bytes > 0
    ]
    swap = [sample.memory.swap_in_bytes_s, sample.memory.swap_out_bytes_s]
    flows = [v for v in swap if not isinstance(v, Absent)]
    return {
        "available_bytes": sample.memory.available_bytes,
        "psi_full60": none if isinstance(sample.psi_memory, Absent) else sample.psi_memory.full60,
        "swap_bytes_s": sum(flows) if flows else none,
        "gpu_temp_c": max(temps) if temps else none,
        "gpu_latched": max(latched) if latched else none,
        "disk_free_share": min(shares) if shares else none,
        "clock_offset_s": sample.clock_offset_s
        if isinstance(sample.clock_offset_s, Absent)
        else abs(sample.clock_offset_s),
    }
