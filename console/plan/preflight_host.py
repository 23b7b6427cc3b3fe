"""The preflight of a host's state: sessions, shared memory, swap, the kernel's memory, GPU clocks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Final

from console.base.absent import Absent, known
from console.base.findings import Finding, Severity
from console.base.units import size_text
from console.cluster.facts import NodeFacts
from console.cluster.launch_facts import LaunchFacts
from console.cluster.model import Cluster
from console.plan.codes import finding
from console.plan.model import Plan
from console.plan.sizes import GIB

SHM_LOW: Final = 2 * GIB  # NCCL's small buffers take 0.43 GiB at eight ranks, the engine's queues about as much
SHM_FULL: Final = 64 << 20
SWAP_USED: Final = 1 * GIB
FIRST_USER: Final = 1000  # logind spares system users (SYSTEM_UID_MAX is 999)
LATCH_MHZ, LATCH_W, BUSY = 1000.0, 20.0, 50.0  # published: below 1 GHz and 20 W under load; healthy 2.2 GHz, 80 W
# nvidia-smi -q -d PERFORMANCE: reasons that are no choice of the operator and no idleness.
REASONS: Final = {0x08: "HW slowdown", 0x20: "SW thermal slowdown", 0x40: "HW thermal slowdown", 0x80: "HW power brake"}


def host_findings(
    cluster: Cluster, plan: Plan, facts: Mapping[str, NodeFacts], present: Mapping[str, LaunchFacts]
) -> Iterator[Finding]:
    for name, fact in present.items():
        yield from _sessions(name, facts[name], fact, plan)
        yield from _shared_memory(name, fact)
        yield from _swap(name, fact)
        if known(fact.cma_free_bytes) and known(fact.cma_total_bytes) and fact.cma_free_bytes > fact.cma_total_bytes:
            yield finding(
                "cma-broken",
                f"CmaFree {size_text(fact.cma_free_bytes)} is more than CmaTotal {size_text(fact.cma_total_bytes)}",
                node=name,
                observed=str(fact.cma_free_bytes),
                expected=f"at most {fact.cma_total_bytes}",
                severity=None if len(plan.ranks) > 1 else Severity.WARN,
            )
    yield from _clocks(present)


def _sessions(name: str, fact: NodeFacts, launch: LaunchFacts, plan: Plan) -> Iterator[Finding]:
    if launch.remove_ipc is not True or launch.linger is not False:
        return
    if not known(fact.uid) or fact.uid < FIRST_USER:
        return
    rank = next(r for r in plan.ranks if r.node == name)
    if "--ipc" not in rank.argv or rank.argv[rank.argv.index("--ipc") + 1] != "host":
        return
    image = None if isinstance(launch.images, Absent) else launch.images.get(plan.image)
    rootless = known(fact.container_cli) and fact.container_cli.rsplit("/", 1)[-1] == "podman"
    as_root = image is not None and image.user.split(":")[0] in ("", "root", "0") and not rootless
    user = fact.user if known(fact.user) else str(fact.uid)
    spared = "; this image's engine runs as root, whose own are spared" if as_root else ""
    yield finding(
        "remove-ipc",
        f"logind removes {user}'s shared memory with his last session (RemoveIPC=yes, no linger){spared}",
        node=name,
        observed="RemoveIPC=yes, Linger=no",
        expected="RemoveIPC=no or Linger=yes",
        severity=Severity.INFO if as_root else None,
    )


def _shared_memory(name: str, fact: LaunchFacts) -> Iterator[Finding]:
    free, total = fact.shm_free_bytes, fact.shm_total_bytes
    if known(free) and known(total) and free < SHM_LOW:
        yield finding(
            "shm-full" if free < SHM_FULL else "shm-low",
            f"/dev/shm: {size_text(free)} of {size_text(total)} free",
            node=name,
            observed=size_text(free),
            expected=f"at least {size_text(SHM_LOW)}",
        )
    if known(fact.shm_leftovers) and fact.shm_leftovers and fact.engines == ():
        size = sum(fact.shm_leftovers.values())
        names = sorted(fact.shm_leftovers, key=lambda n: -fact_size(fact, n))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield finding(
            "shm-leftovers",
            f"/dev/shm holds {size_text(size)} of engines that have ended: {', '.join(names[:3])}{more}",
            node=name,
            observed=size_text(size),
            expected="nothing",
            severity=Severity.WARN if size >= GIB else None,
        )


def fact_size(fact: LaunchFacts, name: str) -> int:
    return 0 if isinstance(fact.shm_leftovers, Absent) else fact.shm_leftovers.get(name, 0)


def _swap(name: str, fact: LaunchFacts) -> Iterator[Finding]:
    total, free = fact.swap_total_bytes, fact.swap_free_bytes
    if not known(total) or not known(free) or total == 0:
        return
    used = total - free
    code = "swap-used" if used >= SWAP_USED else "swap-on"
    text = (
        f"{size_text(used)} of {size_text(total)} swap in use" if used >= SWAP_USED else f"{size_text(total)} of swap"
    )
    yield finding(code, text, node=name, observed=f"{size_text(used)} in use", expected="no swap")


def _clocks(present: Mapping[str, LaunchFacts]) -> Iterator[Finding]:
    """Only what can be read without load: a latched clock mostly shows under load alone."""
    clocks = {name: fact.gpu_clocks[0] for name, fact in present.items() if known(fact.gpu_clocks) and fact.gpu_clocks}
    speeds = {name: c.sm_mhz for name, c in clocks.items() if known(c.sm_mhz)}
    middle = statistics.median(speeds.values()) if len(speeds) > 2 else 0.0
    for name, clock in clocks.items():
        mask = clock.reasons if known(clock.reasons) else 0
        held = [text for bit, text in REASONS.items() if mask & bit]
        if held:
            yield finding("gpu-throttled", f"held by {', '.join(held)}", node=name, observed=hex(mask), expected="0x0")
        if not known(clock.sm_mhz):
            continue
        busy = known(clock.util) and clock.util > BUSY
        latched = busy and clock.sm_mhz < LATCH_MHZ and known(clock.power_w) and clock.power_w < LATCH_W
        odd = middle >= 1.5 * LATCH_MHZ and clock.sm_mhz < middle / 2
        if latched or odd:
            what = "at load" if latched else f"while its peers run at {middle:.0f} MHz"
            yield finding(
                "gpu-clock-low",
                f"{clock.sm_mhz:.0f} MHz {what}",
                node=name,
                observed=f"{clock.sm_mhz:.0f} MHz",
                expected="2200-2400 MHz at load" if latched else f"about {middle:.0f} MHz",
            )
