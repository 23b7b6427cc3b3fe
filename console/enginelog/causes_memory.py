"""What speaks for a cause that lies in memory: a guard's own numbers, and the sample with the least memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from console.base.text import clean_line
from console.base.times import utc_text
from console.base.units import gib
from console.enginelog.causes_finding import MAX_EVIDENCE, Finding, Tier, state_finding
from console.enginelog.evidence import ContainerState, RankEvidence

_SHOWN: Final = 400
SAMPLES_APART_S: Final = 3.0
NEAR_BYTES: Final = 8 << 30
SLACK_S: Final = 0.25  # the container's end is told some time after its memory was refused
# The first line of a guard's marker, as `console.services.guard.marker_text` writes it.
_TRIPPED: Final = re.compile(
    r"TRIPPED: [^\n]{1,300}?: (?P<left>[\d.]{1,12} GiB) available, "
    r"floor while (?P<stage>\w{1,20}) (?P<floor>[\d.]{1,12} GiB)(?:, falling (?P<rate>[\d.]{1,12} GiB/s))?"
)
# Where memory is the cause, the figures of the node's own telemetry belong to it.
_MEMORY: Final = frozenset({"host_oom", "host_oom_during_jit", "host_wedged", "guard_tripped"})


def of_guard(where: RankEvidence) -> Finding:
    """A memory guard ended the rank: said with its numbers, its marker as evidence."""
    lines = tuple(clean_line(line, limit=_SHOWN) for line in where.guard.splitlines() if line.strip())
    found = _TRIPPED.search(where.guard)
    sentence = ""
    if found is not None:
        rate = f", falling {found['rate']}" if found["rate"] else ""
        sentence = (
            f"The memory guard stopped the engine at {found['left']} available{rate}: "
            f"below its floor of {found['floor']} while {found['stage']}."
        )
    at = where.container.finished_at if isinstance(where.container, ContainerState) else None
    return state_finding(where, "guard_tripped", sentence, tier=Tier.PROOF, weight=96, evidence=lines[:4], moment=at)


def ran_out(where: RankEvidence) -> bool:
    """Memory fell so fast at the last sample before the rank's end that by then nothing was left [inferred: there is a
    sample a second, and a collapse takes less]."""
    low, at, fell = where.available_low_bytes, where.available_low_at, where.memory_fell_bytes_s
    end = where.container.finished_at if isinstance(where.container, ContainerState) else None
    if low is None or low > NEAR_BYTES or at is None or end is None or not fell or not 0 <= end - at <= SAMPLES_APART_S:
        return False
    return low - fell * (end - at) < fell * SLACK_S


def lowest_words(where: RankEvidence) -> str:
    """The sample with the least memory, with node and time; "" where there is none."""
    low = where.available_low_bytes
    if low is None:
        return ""
    at = where.available_low_at
    when = "" if at is None else f" at {utc_text(at)}"
    fell = where.memory_fell_bytes_s
    rate = "" if not fell else f", after it fell {gib(fell, digits=2)}/s"
    node = clean_line(where.node, limit=120) or "the node"
    return f"telemetry: the lowest on {node} was {gib(low, digits=2)} available{when}{rate}"


def with_samples(found: Iterable[Finding], where: RankEvidence) -> list[Finding]:
    """Findings with the sample that speaks for them, where memory is what they are about."""
    words = lowest_words(where)
    if not words:
        return list(found)
    return [replace(f, evidence=(*f.evidence[: MAX_EVIDENCE - 1], words)) if f.cls in _MEMORY else f for f in found]
