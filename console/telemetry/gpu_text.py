"""Lines of nvidia-smi made into values: what it cannot say is absent with its own words, never 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from console.base.absent import NOT_SAMPLED, Absent
from console.telemetry.pick import number, text, whole
from console.telemetry.sample import Float, Gpu, GpuApp, Int, MemKind, Text

_MIB: Final = 1 << 20
# What a driver says of a quantity that the device does not have; an error of the device is worded otherwise.
_NOT_THERE: Final = frozenset({"[n/a]", "n/a", "not supported", "[not supported]"})
# nvml.h, nvmlClocksEventReasons; idle, application clocks and display are no trouble and are left out.
_REASONS: Final = (
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x20, "thermal (software)"),
    (0x40, "thermal (hardware)"),
    (0x80, "power brake"),
)
_UNIFIED: Final = Absent("unified memory: it is the node's memory")


def gpu(line: str, fields: Sequence[str]) -> Gpu | None:
    """One line of `--query-gpu` with these fields, or None when it is another kind of line."""
    words = [w.strip() for w in line.split(",")]
    if len(words) != len(fields):
        return None
    said = dict(zip(fields, words, strict=True))
    index = whole(said.get("index", ""))
    if index is None or not 0 <= index < 1024:
        return None
    temp, util = _number(said, "temperature.gpu"), _number(said, "utilization.gpu")
    power, clock = _number(said, "power.draw"), _number(said, "clocks.sm")
    used, total = _mib(said, "memory.used"), _mib(said, "memory.total")
    kind: MemKind | Absent
    if not isinstance(total, Absent) and total > 0:
        kind = MemKind.DEDICATED
    elif said.get("memory.total", "").lower() in _NOT_THERE and not all(
        isinstance(v, Absent) for v in (temp, util, power, clock)
    ):
        # By behaviour, not by name: the device answers, and says that it has no memory of its own.
        kind, used, total = MemKind.UNIFIED, _UNIFIED, _UNIFIED
    else:
        kind = Absent("nvidia-smi does not say whose memory it is")
        if total == 0:
            used = total = Absent("nvidia-smi says a total of 0 MiB")
    return Gpu(
        index=index,
        name=_text(said, "name"),
        uuid=_text(said, "uuid"),
        util_percent=util,
        temp_c=temp,
        power_w=power,
        clock_mhz=clock,
        clock_max_mhz=_number(said, "clocks.max.sm"),
        mem_kind=kind,
        mem_used_bytes=used,
        mem_total_bytes=total,
        throttle=_throttle(said),
    )


def gpu_app(line: str, fields: Sequence[str] = ("pid", "process_name", "used_memory")) -> GpuApp | None:
    """One line of `--query-compute-apps` with these fields, of which the last may be gpu_uuid; the name may hold
    commas."""
    pid_text, _, rest = line.partition(",")
    uuid: Text = NOT_SAMPLED
    if fields[-1:] == ["gpu_uuid"]:
        head, _, last = rest.rpartition(",")
        if "," in head:  # else a driver that leaves the column out
            rest, uuid = head, _word(last.strip())
    name, mark, size = rest.rpartition(",")
    pid = whole(pid_text)
    if pid is None or pid <= 0 or not mark:
        return None
    mib = number(size)
    used: Int = (
        Absent(f"nvidia-smi says {text(size.strip(), limit=60)}") if mib is None or mib < 0 else round(mib * _MIB)
    )
    return GpuApp(pid, text(name.strip(), limit=200) or f"pid {pid}", used, uuid)


def lost_gpu(index: int, before: Gpu, why: str) -> Gpu:
    """A GPU that was there and is not named any more: its name, and no figure."""
    gone = Absent(why)
    return Gpu(index, before.name, before.uuid, gone, gone, gone, gone, gone, gone, gone, gone, gone)


def _word(said: str) -> Text:
    return text(said, limit=100) if said and not said.startswith("[") else Absent(f"nvidia-smi says {said[:60] or '-'}")


def _said(said: Mapping[str, str], field: str) -> Absent:
    if field not in said:
        return Absent(f"this nvidia-smi has no {field}")
    return Absent(f"nvidia-smi says {text(said[field], limit=60) or 'nothing'}")


def _number(said: Mapping[str, str], field: str) -> Float:
    value = number(said.get(field, ""))
    return _said(said, field) if value is None or value < 0 else value


def _mib(said: Mapping[str, str], field: str) -> Int:
    value = _number(said, field)
    return value if isinstance(value, Absent) else round(value * _MIB)


def _text(said: Mapping[str, str], field: str) -> Text:
    value = text(said.get(field, ""), limit=100)
    return value if value and not value.startswith("[") else _said(said, field)


def _throttle(said: Mapping[str, str]) -> tuple[str, ...] | Absent:
    field = "clocks_event_reasons.active"
    word = said.get(field, "")
    if not word.startswith("0x") or len(word) > 18:
        return _said(said, field)
    try:
        bits = int(word, 16)
    except ValueError:
        return _said(said, field)
    return tuple(name for bit, name in _REASONS if bits & bit)
