"""A snapshot as OpenMetrics text: names with units, labels escaped, and nothing where nothing is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from console.base.absent import Absent
from console.boot.state import STATS_FRESH_S, BootState
from console.services.hub import NodeView, Snapshot
from console.telemetry.sample import Gpu, NetRate, RdmaRate, Sample

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_UNITS: Final = ("bytes", "seconds", "celsius", "watts", "hertz", "ratio", "bytes_per_second")
Rows = list[tuple[Mapping[str, str], float]]

# Engine figures by the name in the state -> metric and help. Shares are 0 to 1.
_ENGINE: Final = {
    "generation_tokens_per_s": ("engine_generated_tokens_per_second", "Tokens generated per second."),
    "prompt_tokens_per_s": ("engine_prompt_tokens_per_second", "Prompt tokens read per second."),
    "running": ("engine_running_requests", "Requests that run."),
    "waiting": ("engine_waiting_requests", "Requests that wait."),
    "kv_usage": ("engine_kv_cache_usage_ratio", "Share of the KV cache in use."),
    "prefix_hit": ("engine_prefix_hit_ratio", "Share of prompt tokens found in the prefix cache."),
    "acceptance_length": (
        "engine_acceptance_length_tokens",
        "Tokens per step with drafts; near 1 is a sign of garble.",
    ),
    "ttft_s": ("engine_first_token_seconds", "Mean time to the first token."),
}


class _Text:
    """Families in order; one that has no sample is left out."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def gauge(self, name: str, help_text: str, rows: Rows) -> None:
        if not rows:
            return
        full = f"nightdeck_{name}"
        unit = next((u for u in sorted(_UNITS, key=len, reverse=True) if name.endswith(f"_{u}")), "")
        self._parts.append(f"# TYPE {full} gauge\n")
        if unit:
            self._parts.append(f"# UNIT {full} {unit}\n")
        self._parts.append(f"# HELP {full} {_escape(help_text)}\n")
        for labels, value in rows:
            inner = ",".join(f'{k}="{_escape(v)}"' for k, v in labels.items())
            self._parts.append(f"{full}{{{inner}}} {_number(value)}\n" if inner else f"{full} {_number(value)}\n")

    def end(self) -> bytes:
        return ("".join(self._parts) + "# EOF\n").encode("utf-8", "replace")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def openmetrics(snap: Snapshot, now: float) -> bytes:
    """The whole exposition. A lost node has `nightdeck_node_up` 0 and no figures: what it had is not what it has."""
    text = _Text()
    text.gauge("node_up", "1 while samples come from the node.", [({"node": v.node.name}, _up(v)) for v in snap.nodes])
    ages: Rows = [({"node": v.node.name}, v.age_s) for v in snap.nodes if not isinstance(v.age_s, Absent)]
    text.gauge("node_sample_age_seconds", "Age of the last sample.", ages)
    live = [(v.node.name, v.sample) for v in snap.nodes if _up(v) and not isinstance(v.sample, Absent)]
    _nodes(text, live)
    _gpus(text, live)
    _ports(text, live)
    _guards(text, live)
    _boots(text, snap.boots, now)
    active = [a for a in snap.alarms if a.active]
    rows: Rows = [({"code": a.code, "severity": str(a.severity), "subject": a.subject}, 1.0) for a in active]
    text.gauge("alarm_active", "1 for each alarm that holds.", rows)
    return text.end()


def _up(view: NodeView) -> float:
    return 1.0 if view.state in ("fresh", "late") else 0.0


def _nodes(text: _Text, live: list[tuple[str, Sample]]) -> None:
    def one(name: str, help_text: str, pick: Callable[[Sample], float | Absent], scale: float = 1.0) -> None:
        values = [(n, pick(s)) for n, s in live]
        text.gauge(name, help_text, [({"node": n}, v * scale) for n, v in values if not isinstance(v, Absent)])

    one("node_memory_total_bytes", "Memory of the node.", lambda s: s.memory.total_bytes)
    one("node_memory_available_bytes", "Memory that can be had without swapping.", lambda s: s.memory.available_bytes)
    one("node_memory_shared_bytes", "Shared memory.", lambda s: s.memory.shmem_bytes)
    one("node_swap_used_bytes", "Swap in use.", lambda s: s.memory.swap_used_bytes)
    one("node_cpu_usage_ratio", "Share of all cores in use.", lambda s: s.cpu.percent, 0.01)
    one("node_load1", "Load over one minute.", lambda s: s.cpu.load1)
    one(
        "node_memory_stalled_ratio",
        "Share of time that all tasks waited for memory, over a minute.",
        lambda s: s.psi_memory if isinstance(s.psi_memory, Absent) else s.psi_memory.full60,
        0.01,
    )
    space: dict[str, Rows] = {"total": [], "available": []}
    for node, sample in live:
        for fs in () if isinstance(sample.filesystems, Absent) else sample.filesystems:
            for key, value in (("total", fs.total_bytes), ("available", fs.available_bytes)):
                if not isinstance(value, Absent):
                    space[key].append(({"node": node, "path": fs.path}, float(value)))
    text.gauge("node_filesystem_total_bytes", "Size of the file system behind a path.", space["total"])
    text.gauge("node_filesystem_available_bytes", "Space left behind a path.", space["available"])


def _gpus(text: _Text, live: list[tuple[str, Sample]]) -> None:
    def one(name: str, help_text: str, pick: Callable[[Gpu], float | Absent], scale: float = 1.0) -> None:
        rows: Rows = []
        for node, sample in live:
            for gpu in () if isinstance(sample.gpus, Absent) else sample.gpus:
                value = pick(gpu)
                if not isinstance(value, Absent):
                    rows.append(({"node": node, "gpu": str(gpu.index)}, value * scale))
        text.gauge(name, help_text, rows)

    one("gpu_utilization_ratio", "Share of time that the GPU was busy.", lambda g: g.util_percent, 0.01)
    one("gpu_temperature_celsius", "Temperature of the GPU.", lambda g: g.temp_c)
    one("gpu_power_watts", "Power that the GPU draws.", lambda g: g.power_w)
    one("gpu_clock_hertz", "Clock of the GPU's multiprocessors.", lambda g: g.clock_mhz, 1e6)
    one("gpu_memory_used_bytes", "The GPU's own memory in use.", lambda g: g.mem_used_bytes)


def _ports(text: _Text, live: list[tuple[str, Sample]]) -> None:
    def many(name: str, help_text: str, label: str, rows: Iterable[tuple[str, str, float | Absent]]) -> None:
        kept = [({"node": n, label: port}, v) for n, port, v in rows if not isinstance(v, Absent)]
        text.gauge(name, help_text, [(labels, float(v)) for labels, v in kept])

    nets: list[tuple[str, NetRate]] = [(n, r) for n, s in live if not isinstance(s.net, Absent) for r in s.net]
    rdma: list[tuple[str, RdmaRate]] = [(n, r) for n, s in live if not isinstance(s.rdma, Absent) for r in s.rdma]
    received, sent = "Bytes received per second.", "Bytes sent per second."
    many("network_receive_bytes_per_second", received, "interface", ((n, r.name, r.rx_bytes_s) for n, r in nets))
    many("network_transmit_bytes_per_second", sent, "interface", ((n, r.name, r.tx_bytes_s) for n, r in nets))
    many("rdma_receive_bytes_per_second", received, "port", ((n, r.name, r.rx_bytes_s) for n, r in rdma))
    many("rdma_transmit_bytes_per_second", sent, "port", ((n, r.name, r.tx_bytes_s) for n, r in rdma))


def _guards(text: _Text, live: list[tuple[str, Sample]]) -> None:
    rows: Rows = []
    floors: Rows = []
    for node, sample in live:
        for guard in () if isinstance(sample.guards, Absent) else sample.guards:
            labels = {"node": node, "deployment": guard.deployment, "rank": str(guard.rank)}
            rows.append((labels, float(guard.running)))
            if guard.running and not isinstance(guard.floor_bytes, Absent):
                floors.append((labels, float(guard.floor_bytes)))
    text.gauge("guard_running", "1 while the memory guard of a rank runs.", rows)
    text.gauge("guard_floor_bytes", "Available memory below which the guard kills its rank.", floors)


def _boots(text: _Text, boots: Iterable[BootState], now: float) -> None:
    ready: Rows = []
    age: Rows = []
    up: Rows = []
    figures: dict[str, Rows] = {}
    for boot in boots:
        who = {"deployment": boot.deployment, "recipe": boot.recipe}
        ready.append(({**who, "state": str(boot.phase)}, 1.0 if str(boot.phase) == "ready" else 0.0))
        age.append((who, max(0.0, (boot.ended_at or now) - boot.launched_at)))
        for rank in boot.ranks:
            if rank.reachable and rank.status is not None:
                labels = {"deployment": boot.deployment, "rank": str(rank.rank), "node": rank.node}
                up.append((labels, 1.0 if rank.status == "running" else 0.0))
        fresh = boot.stats_at is not None and now - boot.stats_at <= STATS_FRESH_S
        for key in _ENGINE:
            if key in boot.stats and fresh and not boot.phase.over:
                figures.setdefault(key, []).append((who, boot.stats[key]))
    text.gauge("deployment_ready", "1 while a deployment is ready; its state is a label.", ready)
    text.gauge("deployment_age_seconds", "Time since the launch.", age)
    text.gauge("rank_running", "1 while a rank's container runs; absent while its node does not answer.", up)
    for key, (name, help_text) in _ENGINE.items():
        text.gauge(name, help_text, figures.get(key, []))
