"""A snapshot as OpenMetrics text: names with units, labels escaped, and nothing where nothing is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeGuard

from console.base.absent import Absent
from console.boot.figures import elapsed_seconds
from console.boot.state import STATS_FRESH_S, BootState
from console.services.hub import NodeView, Snapshot
from console.telemetry.sample import Gpu, NetRate, RdmaRate, Sample, Text

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# The exposition is in the text format too: there `# UNIT` and `# EOF` are comments.
TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_UNITS: Final = ("bytes", "seconds", "celsius", "watts", "hertz", "ratio", "bytes_per_second")
Rows = list[tuple[Mapping[str, str], float]]
Part = tuple[str, str, float | Absent]

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
        self._family("gauge", name, help_text, rows)

    def counter(self, name: str, help_text: str, rows: Rows) -> None:
        """name: without the `_total` that its samples end with."""
        self._family("counter", name, help_text, rows)

    def each(self, name: str, help_text: str, label: str, rows: Iterable[Part]) -> None:
        """A gauge of the nodes' parts: (node, part, value), without those that are not known."""
        self.gauge(name, help_text, [({"node": n, label: part}, v) for n, part, v in rows if not isinstance(v, Absent)])

    def _family(self, kind: str, name: str, help_text: str, rows: Rows) -> None:
        if not rows:
            return
        full = f"nightdeck_{name}"
        unit = next((u for u in sorted(_UNITS, key=len, reverse=True) if name.endswith(f"_{u}")), "")
        self._parts.append(f"# TYPE {full} {kind}\n")
        if unit:
            self._parts.append(f"# UNIT {full} {unit}\n")
        self._parts.append(f"# HELP {full} {_escape(help_text)}\n")
        full += "_total" if kind == "counter" else ""
        seen: set[str] = set()
        for labels, value in rows:
            inner = ",".join(f'{k}="{_escape(v)}"' for k, v in labels.items())
            # Two ports of one name, cut alike: a scraper throws the whole exposition away for a series told twice.
            if inner not in seen:
                seen.add(inner)
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
    one("node_memory_free_bytes", "Memory that nothing uses.", lambda s: s.memory.free_bytes)
    one("node_memory_page_cache_bytes", "What the kernel could drop of files.", lambda s: s.memory.page_cache_bytes)
    one("node_memory_shared_bytes", "Shared memory.", lambda s: s.memory.shmem_bytes)
    one("node_memory_high_order_bytes", "Free in blocks of 2 MiB and more.", lambda s: s.memory.high_order_bytes)
    one("node_memory_cma_total_bytes", "The kernel's contiguous pool.", lambda s: s.memory.cma_total_bytes)
    one("node_memory_cma_free_bytes", "Free in the contiguous pool.", lambda s: s.memory.cma_free_bytes)
    one("node_swap_total_bytes", "Swap there is.", lambda s: s.memory.swap_total_bytes)
    one("node_swap_used_bytes", "Swap in use.", lambda s: s.memory.swap_used_bytes)
    one("node_swap_read_bytes_per_second", "Read back from swap.", lambda s: s.memory.swap_in_bytes_s)
    one("node_swap_write_bytes_per_second", "Written out to swap.", lambda s: s.memory.swap_out_bytes_s)
    one("node_cpu_usage_ratio", "Share of all cores in use.", lambda s: s.cpu.percent, 0.01)
    one("node_load1", "Load over one minute.", lambda s: s.cpu.load1)
    one("node_uptime_seconds", "Time since the node started.", lambda s: s.uptime_s)
    one("node_clock_offset_seconds", "The node's clock less the console's.", lambda s: s.clock_offset_s)
    one("node_probe_cpu_seconds", "CPU time that the probe has used.", lambda s: s.probe_cpu_s)
    _pressure(text, live)
    _disks(text, live)


def _pressure(text: _Text, live: list[tuple[str, Sample]]) -> None:
    rows: Rows = []
    for node, sample in live:
        for resource, psi in (("memory", sample.psi_memory), ("cpu", sample.psi_cpu), ("io", sample.psi_io)):
            if isinstance(psi, Absent):
                continue
            for kind, percent in (("some", psi.some60), ("full", psi.full60)):
                if not isinstance(percent, Absent):
                    rows.append(({"node": node, "resource": resource, "tasks": kind}, percent * 0.01))
    text.gauge("node_pressure_ratio", "Share of a minute that some or all tasks waited for a resource.", rows)


def _disks(text: _Text, live: list[tuple[str, Sample]]) -> None:
    total: Rows = []
    available: Rows = []
    answers: Rows = []
    for node, sample in live:
        for fs in () if isinstance(sample.filesystems, Absent) else sample.filesystems:
            labels = {"node": node, "path": fs.path}
            answers.append((labels, 0.0 if isinstance(fs.available_bytes, Absent) else 1.0))
            if not isinstance(fs.total_bytes, Absent):
                total.append((labels, fs.total_bytes))
            if not isinstance(fs.available_bytes, Absent):
                available.append((labels, fs.available_bytes))
    text.gauge("node_filesystem_total_bytes", "Size of the file system behind a path.", total)
    text.gauge("node_filesystem_available_bytes", "Space left behind a path.", available)
    text.gauge("node_filesystem_answers", "0 where a watched path hangs or is gone.", answers)
    disks = [(n, d) for n, s in live if not isinstance(s.disks, Absent) for d in s.disks]
    text.each(
        "disk_read_bytes_per_second", "Read from a disk.", "device", ((n, d.name, d.read_bytes_s) for n, d in disks)
    )
    text.each(
        "disk_write_bytes_per_second", "Written to a disk.", "device", ((n, d.name, d.write_bytes_s) for n, d in disks)
    )


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
    one("gpu_clock_max_hertz", "The highest clock it can be set to.", lambda g: g.clock_max_mhz, 1e6)
    one("gpu_memory_total_bytes", "The GPU's own memory.", lambda g: g.mem_total_bytes)
    one("gpu_memory_used_bytes", "The GPU's own memory in use.", lambda g: g.mem_used_bytes)
    slowed: Rows = []
    held: dict[tuple[str, str], float] = {}
    for node, sample in live:
        for gpu in () if isinstance(sample.gpus, Absent) else sample.gpus:
            reasons = () if isinstance(gpu.throttle, Absent) else gpu.throttle
            slowed += [
                ({"node": node, "gpu": str(gpu.index), "reason": reason}, 1.0) for reason in sorted(set(reasons))
            ]
        for app in () if isinstance(sample.gpu_apps, Absent) else sample.gpu_apps:
            if not isinstance(app.used_bytes, Absent):
                held[node, app.name] = held.get((node, app.name), 0.0) + app.used_bytes
    text.gauge("gpu_throttled", "1 for each reason that slows a GPU down now.", slowed)
    rows: Rows = [({"node": node, "process": name}, size) for (node, name), size in held.items()]
    text.gauge("gpu_process_memory_bytes", "What processes of one name hold on the node's GPUs together.", rows)


def _ports(text: _Text, live: list[tuple[str, Sample]]) -> None:
    nets: list[tuple[str, NetRate]] = [(n, r) for n, s in live if not isinstance(s.net, Absent) for r in s.net]
    rdma: list[tuple[str, RdmaRate]] = [(n, r) for n, s in live if not isinstance(s.rdma, Absent) for r in s.rdma]
    received, sent = "Bytes received per second.", "Bytes sent per second."
    text.each("network_receive_bytes_per_second", received, "interface", ((n, r.name, r.rx_bytes_s) for n, r in nets))
    text.each("network_transmit_bytes_per_second", sent, "interface", ((n, r.name, r.tx_bytes_s) for n, r in nets))
    speeds = ((n, r.name, _scaled(r.speed_mbit, 1e6 / 8)) for n, r in nets)
    text.each("network_speed_bytes_per_second", "What the link is set to.", "interface", speeds)
    links = ((n, r.name, _is(r.operstate, "up")) for n, r in nets)
    text.each("network_up", "1 while the link is up.", "interface", links)
    text.each("rdma_receive_bytes_per_second", received, "port", ((n, r.name, r.rx_bytes_s) for n, r in rdma))
    text.each("rdma_transmit_bytes_per_second", sent, "port", ((n, r.name, r.tx_bytes_s) for n, r in rdma))
    rates = ((n, r.name, _scaled(r.rate_gbit, 1e9 / 8)) for n, r in rdma)
    text.each("rdma_speed_bytes_per_second", "What the port is set to.", "port", rates)
    text.each("rdma_up", "1 while the port is active.", "port", ((n, r.name, _is(r.state, "ACTIVE")) for n, r in rdma))
    errors: Rows = [({"node": n, "interface": r.name}, r.errors_total) for n, r in nets if _counts(r.errors_total)]
    text.counter("network_errors", "Errors in and out, as the kernel counts them.", errors)
    drops: Rows = [({"node": n, "interface": r.name}, r.drops_total) for n, r in nets if _counts(r.drops_total)]
    text.counter("network_drops", "Packets dropped in and out, as the kernel counts them.", drops)
    bad: Rows = [
        ({"node": n, "port": r.name, "counter": key}, total)
        for n, r in rdma
        for key, total in r.error_totals.items()
        if _counts(total)
    ]
    text.counter("rdma_errors", "Error counters of a port, as the driver counts them.", bad)


def _counts(value: int | Absent) -> TypeGuard[int]:
    return not isinstance(value, Absent) and value >= 0


def _scaled(value: float | Absent, scale: float) -> float | Absent:
    return value if isinstance(value, Absent) else value * scale


def _is(value: Text, word: str) -> float | Absent:
    return value if isinstance(value, Absent) else float(value == word)


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
        age.append((who, elapsed_seconds(boot, now)))
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
