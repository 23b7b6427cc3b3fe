"""What a few seconds of load say about each GPU: a latched clock mostly shows under load alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from console.base.absent import NOT_SAMPLED, Absent, known
from console.base.findings import Finding
from console.plan.codes import finding
from console.plan.preflight_host import LATCH_MHZ, LATCH_W

# Published for GB10 (Nestu, docs/gpu-clock-latch.md): a matrix burn of a latched one comes to less than 60 TFLOPS, a
# healthy one to 75-90. In which precision is not said; bf16 is inferred.
GB10_TFLOPS: Final = 60.0
PEER_SHARE: Final = 0.75  # boots of one recipe differ by a quarter for other reasons
# Codes that say that something works on a node: it must not be loaded.
IN_USE: Final = frozenset({"leftover-container", "engine-running", "gpu-held"})


@dataclass(frozen=True, slots=True)
class Loaded:
    """One GPU under load. sm_mhz, power_w: medians of samples at 50 % use and more."""

    tflops: float | Absent = NOT_SAMPLED
    sm_mhz: float | Absent = NOT_SAMPLED
    power_w: float | Absent = NOT_SAMPLED
    name: str = ""

    @property
    def words(self) -> str:
        parts = [
            f"{value:.0f} {unit}"
            for value, unit in ((self.sm_mhz, "MHz"), (self.power_w, "W"), (self.tflops, "TFLOPS"))
            if known(value)
        ]
        return ", ".join(parts) or "no figure"


def measured(loads: Mapping[str, Loaded | Absent]) -> dict[str, dict[str, float | str | None]]:
    """By node, for people and scripts: the figures, the least that each must come to, and `why` where there is none.

    tflops: dense bf16; sm_mhz, power_w: medians under load. `*_least` is None where there is no limit."""
    rates = [load.tflops for load in loads.values() if isinstance(load, Loaded) and known(load.tflops)]
    middle = statistics.median(rates) if len(rates) > 2 else 0.0
    rows: dict[str, dict[str, float | str | None]] = {}
    for node, load in loads.items():
        if isinstance(load, Absent):
            names = ("tflops", "tflops_least", "sm_mhz", "sm_mhz_least", "power_w", "power_w_least")
            rows[node] = {"name": None, **dict.fromkeys(names), "why": load.reason}
            continue
        least = max(GB10_TFLOPS if "GB10" in load.name else 0.0, middle * PEER_SHARE) or None
        rows[node] = {
            "name": load.name or None,
            "tflops": load.tflops if known(load.tflops) else None,
            "tflops_least": least,
            "sm_mhz": load.sm_mhz if known(load.sm_mhz) else None,
            "sm_mhz_least": LATCH_MHZ,
            "power_w": load.power_w if known(load.power_w) else None,
            "power_w_least": LATCH_W,
            "why": next((v.reason for v in (load.tflops, load.sm_mhz, load.power_w) if isinstance(v, Absent)), None),
        }
    return rows


def load_findings(loads: Mapping[str, Loaded | Absent]) -> Iterator[Finding]:
    """By node: what was measured, or why nothing was."""
    rates = [load.tflops for load in loads.values() if isinstance(load, Loaded) and known(load.tflops)]
    middle = statistics.median(rates) if len(rates) > 2 else 0.0
    for node, load in loads.items():
        if isinstance(load, Absent):
            yield finding("gpu-not-loaded", f"{node}: {load.reason}", node=node, observed=load.reason)
            continue
        clock, power, rate = load.sm_mhz, load.power_w, load.tflops
        if known(clock) and clock < LATCH_MHZ and (not known(power) or power < LATCH_W):
            yield finding(
                "gpu-clock-low",
                f"{node}: under load {load.words}",
                node=node,
                observed=f"{clock:.0f} MHz",
                expected="2200-2400 MHz at load",
            )
        elif known(rate) and (("GB10" in load.name and rate < GB10_TFLOPS) or rate < middle * PEER_SHARE):
            other = (
                f"the middle of all nodes is {middle:.0f}"
                if middle
                else f"a healthy GB10 does {GB10_TFLOPS:.0f} and more"
            )
            yield finding(
                "gpu-slow",
                f"{node}: under load {load.words}; {other}",
                node=node,
                observed=f"{rate:.0f} TFLOPS",
                expected=f"about {middle:.0f} TFLOPS" if middle else f"at least {GB10_TFLOPS:.0f} TFLOPS",
            )
