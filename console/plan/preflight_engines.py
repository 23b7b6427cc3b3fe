"""The preflight of what else is on a node: old ranks, foreign engines, holders of GPU memory, guards, consoles."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from console.base.absent import Absent, known
from console.base.findings import Finding
from console.base.units import age, size_text
from console.cluster.launch_facts import ContainerFact, EngineProcess, LaunchFacts
from console.plan.codes import finding


def engine_findings(present: Mapping[str, LaunchFacts]) -> Iterator[Finding]:
    for name, fact in present.items():
        boxes = {} if isinstance(fact.containers, Absent) else {c.id: c for c in fact.containers}
        ours = [c for c in boxes.values() if c.ours and c.alive]
        for box in ours:
            yield finding(
                "leftover-container",
                f"{box.name} of an earlier deployment is {box.state}",
                node=name,
                observed=box.state,
                expected="no container of an earlier deployment",
            )
        named = yield from _engines(name, fact, boxes, ours)
        yield from _holders(name, fact, boxes, named)
        for dog in () if isinstance(fact.watchdogs, Absent) else fact.watchdogs:
            yield finding("watchdog", f"{dog} runs", node=name, observed=dog)
        if known(fact.consoles) and fact.consoles:
            yield finding("watched-elsewhere", "another console watches", node=name, observed=str(fact.consoles))


def _engines(
    name: str, fact: LaunchFacts, boxes: Mapping[str, ContainerFact], ours: list[ContainerFact]
) -> Generator[Finding, None, set[int]]:
    """One finding a container, and one for those outside any. Returns the process ids that were named."""
    groups: dict[str, list[EngineProcess]] = {}
    for process in () if isinstance(fact.engines, Absent) else fact.engines:
        box = boxes.get(process.container)
        if box is not None and box.ours:
            continue
        if not process.container and ours:
            continue  # most likely that rank's own, on a host that does not tell containers apart
        groups.setdefault(process.container, []).append(process)
    named: set[int] = set()
    for container, processes in groups.items():
        named |= {p.pid for p in processes}
        box = boxes.get(container)
        where = (
            f"in container {box.name} ({box.image})" if box else "in a container" if container else "in no container"
        )
        first = min(processes, key=lambda p: (p.line.startswith(("VLLM::", "sglang::")), p.pid))
        size = sum(p.rss_bytes for p in processes)
        yield finding(
            "engine-running",
            f"an engine runs {where}: pid {first.pid}, {first.line[:60]}",
            node=name,
            observed=f"{len(processes)} processes, {size_text(size)}, since {age(max(p.age_s for p in processes))}",
            expected="no other engine",
        )
    return named


def _holders(name: str, fact: LaunchFacts, boxes: Mapping[str, ContainerFact], named: set[int]) -> Iterator[Finding]:
    for holder in () if isinstance(fact.gpu_holders, Absent) else fact.gpu_holders:
        box = boxes.get(holder.container)
        if holder.pid in named or (box is not None and box.ours):
            continue
        size = size_text(holder.size_bytes) if known(holder.size_bytes) else "an unknown size"
        where = f" in container {box.name}" if box else ""
        yield finding(
            "gpu-held",
            f"{holder.name or 'a process'} (pid {holder.pid}){where} holds {size} of GPU memory",
            node=name,
            observed=size,
            expected="none",
        )
