"""Frames of one node in their order made into samples: rates between frames, reboots, groups that grow old."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from console.base.absent import NOT_SAMPLED, Absent
from console.telemetry import fabric_rows, host_rows
from console.telemetry.container_rows import containers
from console.telemetry.frames import Frame
from console.telemetry.gpu_text import gpu, gpu_app, lost_gpu
from console.telemetry.guard_rows import guards
from console.telemetry.pick import amount_or, count, count_or, number, raw, rows, table, text, text_or, whole
from console.telemetry.sample import FileSystem, Float, Gpu, GpuApp, KernelLine, Part, Proc, Sample, Text

# Beyond these ages, in seconds on the node's own clock, a group is no longer shown as if it were of now.
GPU_MAX_AGE_S: Final = 5.0
APPS_MAX_AGE_S: Final = 8.0
PROCS_MAX_AGE_S: Final = 20.0
FABRIC_MAX_AGE_S: Final = 5.0
SPACE_MAX_AGE_S: Final = 40.0
MOST_GPUS: Final = 64


class Sampler:
    """One for each node, kept over reconnections: a new probe or a reboot only makes the first rates absent."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._last: Sample | None = None
        self._run: int | None = None  # the probe's pid: another one is another probe
        self._boot: str | None = None
        self._host = host_rows.Counters()
        self._fabric = fabric_rows.Counters()
        self._containers_at: float | None = None
        self._dropped = 0
        self._known_gpus: dict[int, Gpu] = {}

    @property
    def last(self) -> Sample | None:
        return self._last

    def step(self, frame: Frame, *, received_at: float, wall: float) -> Sample:
        """received_at/wall: the console's monotonic and wall clocks when the frame arrived, in seconds."""
        data = frame.data
        now = number(data.get("t")) or 0.0
        part: Part = "containers" if data.get("part") == "containers" else "all"
        rebooted, missed = self._follow(frame, part)
        last = self._last
        host = table(data, "host")
        node_wall = number(data.get("w"))
        fields: dict[str, Any] = {"containers": self._containers(table(data, "containers"), now)}
        if part == "all":
            own = table(data, "self")
            fields.update(self._host.step(host))
            fields.update(
                boot_id=_boot_id(host),
                uptime_s=amount_or((raw(host, "uptime").split() or [""])[0], _why(host, "uptime")),
                gpus=self._gpus(table(data, "gpu"), now),
                gpu_apps=_apps(table(data, "apps"), now),
                filesystems=_space(table(data, "fs"), now),
                procs=_procs(table(data, "procs"), now),
                kernel=_kernel(table(data, "kernel")),
                guards=guards(table(data, "guards")),
                probe_cpu_s=amount_or(own.get("cpu_s"), "the probe does not say"),
                dropped_frames=count_or(data.get("dropped"), "the probe does not say"),
            )
            fabric = table(data, "fabric")
            fields["net"] = fabric_rows.with_links(fields["net"], fabric)
            fields["rdma"] = self._fabric.step(fabric, now, FABRIC_MAX_AGE_S)
        elif last is not None:
            fields = {**{k: getattr(last, k) for k in _CARRIED}, **fields}
        self._last = Sample(
            node=self._node,
            seq=frame.seq,
            received_at=received_at,
            node_time=now,
            wall=node_wall or 0.0,
            part=part,
            clock_offset_s=NOT_SAMPLED if node_wall is None else node_wall - wall,
            rebooted=rebooted,
            missed=missed,
            heard_at=wall,
            **fields,
        )
        return self._last

    def _follow(self, frame: Frame, part: Part) -> tuple[bool, int]:
        """Whether the node booted again, and how many frames were lost since the last one."""
        data, last = frame.data, self._last
        dropped = count(data.get("dropped")) or 0
        run = whole(table(data, "self").get("pid")) if part == "all" else self._run
        missed = 0
        if last is None or run != self._run or frame.seq <= last.seq:
            self._containers_at = None
        else:
            missed = frame.seq - last.seq - 1 + max(0, dropped - self._dropped)
        self._run, self._dropped = run, dropped
        boot = _boot_id(table(data, "host")) if part == "all" else NOT_SAMPLED
        if isinstance(boot, Absent):
            return False, missed
        rebooted = self._boot is not None and boot != self._boot
        self._boot = boot
        if rebooted:
            self._host, self._fabric = host_rows.Counters(), fabric_rows.Counters()
            self._containers_at, missed = None, 0
            self._known_gpus.clear()
        return rebooted, missed

    def _gpus(self, group: Mapping[str, Any], now: float) -> tuple[Gpu, ...] | Absent:
        """GPUs by index. One that was there and falls off the bus while others go on stays, without figures."""
        found = _gpus(group, now)
        if isinstance(found, Absent):
            return found
        # One that comes back under another number is the same GPU, and does not stand there twice.
        here = {g.uuid for g in found if isinstance(g.uuid, str)}
        self._known_gpus = {i: g for i, g in self._known_gpus.items() if g.uuid not in here}
        self._known_gpus.update({g.index: g for g in found})
        named = {g.index: g for g in found}
        said = text(group.get("said"), limit=200)
        why = "nvidia-smi does not name it any more" + (f": {said}" if said else "")
        rows = (named.get(i) or lost_gpu(i, g, why) for i, g in sorted(self._known_gpus.items())[:MOST_GPUS])
        return tuple(rows)

    def _containers(self, group: Mapping[str, Any], now: float) -> Any:
        before = self._last.containers if self._last is not None else NOT_SAMPLED
        if not group:
            return Absent("this probe watches no containers")
        taken = number(group.get("t"))
        if taken is not None and taken == self._containers_at and not isinstance(before, Absent):
            found = containers(group, now, before, 0.0)
            if isinstance(found, Absent) or {c.id for c in found.rows} != {c.id for c in before.rows}:
                return found
            # The same reading again: its rates still hold.
            return type(found)(before.rows, found.how, found.why, found.age_s, found.events)
        seconds = 0.0 if taken is None or self._containers_at is None else taken - self._containers_at
        self._containers_at = taken
        return containers(group, now, before, seconds)


# Of each frame anew, also where it tells of containers alone.
_OWN: Final = frozenset(
    ["node", "seq", "received_at", "node_time", "wall", "part", "clock_offset_s", "rebooted", "missed", "heard_at"]
)
_CARRIED: Final = tuple(name for name in Sample.__dataclass_fields__ if name not in _OWN)


def _why(host: Mapping[str, Any], key: str) -> str:
    return text(table(host, "why").get(key)) or "not in the frame"


def _boot_id(host: Mapping[str, Any]) -> Text:
    return text_or(raw(host, "boot_id").strip(), _why(host, "boot_id"))


def _late(group: Mapping[str, Any], now: float, limit: float, who: str) -> Absent | None:
    """Why a group cannot be shown as of now, or None when it can."""
    if why := text(group.get("why")):
        return Absent(why)
    taken = number(group.get("t"))
    if taken is None:
        return Absent(f"{who} did not answer yet")
    return Absent(f"{who} has been silent for {now - taken:.0f} s") if now - taken > limit else None


def _gpus(group: Mapping[str, Any], now: float) -> tuple[Gpu, ...] | Absent:
    if not group:
        return Absent("this probe watches no GPU")
    late = _late(group, now, GPU_MAX_AGE_S, "nvidia-smi")
    if late is not None:
        return late
    names = [n for n in rows(group, "fields") if isinstance(n, str)]
    found = [gpu(line, names) for line in rows(group) if isinstance(line, str)]
    by_index = {g.index: g for g in found if g is not None}
    if not by_index:
        odd = next((line for line in rows(group) if isinstance(line, str) and line.strip()), "")
        said = text(odd, limit=120)
        return Absent(f"nvidia-smi's line is of no known form: {said}" if said else "nvidia-smi names no GPU")
    return tuple(by_index[i] for i in sorted(by_index))


def _apps(group: Mapping[str, Any], now: float) -> tuple[GpuApp, ...] | Absent:
    if not group:
        return Absent("this probe watches no GPU")
    late = _late(group, now, APPS_MAX_AGE_S, "nvidia-smi")
    if late is not None:
        return late
    names = [n for n in rows(group, "fields") if isinstance(n, str)]
    found = [gpu_app(line, names) for line in rows(group) if isinstance(line, str)]
    # A process counts once on each GPU, also where two outputs came as one (after a stop of the node).
    once = {(a.pid, a.gpu_uuid if isinstance(a.gpu_uuid, str) else n): a for n, a in enumerate(found) if a is not None}
    return tuple(once.values())


def _space(group: Mapping[str, Any], now: float) -> tuple[FileSystem, ...] | Absent:
    out = []
    for path, row in table(group, "rows").items():
        if not isinstance(row, dict):
            continue
        late = _late(row, now, SPACE_MAX_AGE_S, "the mount")
        out.append(
            FileSystem(
                path=text(path),
                total_bytes=count_or(row.get("total"), "not told") if late is None else late,
                available_bytes=count_or(row.get("available"), "not told") if late is None else late,
                device=text_or(row.get("device"), "not in the mount table"),
                kind=text_or(row.get("kind"), "not in the mount table"),
            )
        )
    return tuple(out) if out else Absent("no path is watched")


def _procs(group: Mapping[str, Any], now: float) -> tuple[Proc, ...] | Absent:
    taken = number(group.get("t"))
    if taken is None or now - taken > PROCS_MAX_AGE_S:
        return Absent(text(group.get("why")) or "processes were not read")
    out = []
    for row in rows(group):
        if isinstance(row, list) and len(row) == 5:
            pid, size = count(row[0]), count(row[3])
            share: Float = amount_or(row[4], "a rate needs two looks")
            if pid is not None and size is not None:
                out.append(Proc(pid, text(row[1], limit=32) or f"pid {pid}", size, share, text(row[2], limit=1)))
    return tuple(out)


def _kernel(group: Mapping[str, Any]) -> tuple[KernelLine, ...] | Absent:
    if why := text(group.get("why")):
        return Absent(why)
    if not group:
        return NOT_SAMPLED
    out = []
    for row in rows(group):
        if isinstance(row, list) and len(row) == 3 and (serial := whole(row[0])) is not None:
            stamp = number(row[1])
            at: Float = Absent("not told") if stamp is None else stamp / 1e6
            out.append(KernelLine(serial, at, text(row[2], limit=500)))
    return tuple(out)
