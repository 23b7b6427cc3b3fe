"""Lines of nvidia-smi made into values: what it cannot say is absent with its own words, never 0."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from console.base.absent import NOT_SAMPLED, Absent
from console.telemetry.pick import amount, text, whole
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
# More than any device has: what lies beyond is noise of the driver, not a figure. Percent, °C, W, MHz, MiB.
_MOST: Final[Mapping[str, float]] = {
    "utilization.gpu": 100.0,
    "temperature.gpu": 250.0,
    "power.draw": 20_000.0,
    "clocks.sm": 20_000.0,
    "clocks.max.sm": 20_000.0,
    "memory.used": 1 << 30,
    "memory.total": 1 << 30,
}
_BITS: Final = re.compile(r"0x[0-9a-fA-F]{1,16}")
_UNIFIED: Final = Absent("unified memory: it is the node's memory")


def gpu(line: str, fields: Sequence[str]) -> Gpu | None:
    """One line of `--query-gpu` with these fields, or None when it is another kind of line."""
    # The separator has a space: a comma without one is inside a word, as a decimal comma of some locale is.
    words = [w.strip() for w in line.split(", ")]
    if len(words) != len(fields):
        words = [w.strip() for w in line.split(",")]
    if len(words) != len(fields):
        return None
    said = dict(zip(fields, words, strict=True))
    index = whole(said.get("index", ""))
    if index is None or not 0 <= index < 1024 or not _is_gpu(said):
        return None
    temp, util = _number(said, "temperature.gpu"), _number(said, "utilization.gpu")
    power, clock = _number(said, "power.draw"), _number(said, "clocks.sm")
    used, total = _mib(said, "memory.used"), _mib(said, "memory.total")
    if not isinstance(used, Absent) and not isinstance(total, Absent) and used > total > 0:
        used = Absent(f"nvidia-smi says {text(said['memory.used'], limit=60)} MiB used of {total // _MIB}")
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


def _is_gpu(said: Mapping[str, str]) -> bool:
    """False for a MIG instance, which is a part of a GPU that has a line of its own."""
    return not said.get("uuid", "").startswith("MIG-") and not said.get("name", "").startswith("MIG ")


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
    mib = amount(size)
    told = mib is not None and mib <= _MOST["memory.used"]
    hidden = Absent(f"nvidia-smi says {text(size.strip(), limit=60)}")
    used: Int = round(mib * _MIB) if mib is not None and told else hidden
    return GpuApp(pid, text(name.strip(), limit=200) or f"pid {pid}", used, uuid)


def lost_gpu(index: int, before: Gpu, why: str) -> Gpu:
    """A GPU that was there and is not named any more: its name, and no figure."""
    gone = Absent(why)
    return Gpu(index, before.name, before.uuid, gone, gone, gone, gone, gone, gone, gone, gone, gone)


def _word(said: str) -> Text:
    word = text(said, limit=100)
    return word if word and not word.startswith("[") else Absent(f"nvidia-smi says {word[:60] or '-'}")


def _said(said: Mapping[str, str], field: str) -> Absent:
    if field not in said:
        return Absent(f"this nvidia-smi has no {field}")
    return Absent(f"nvidia-smi says {text(said[field], limit=60) or 'nothing'}")


def _number(said: Mapping[str, str], field: str) -> Float:
    value = amount(said.get(field, ""))
    return _said(said, field) if value is None or value > _MOST.get(field, math.inf) else value


def _mib(said: Mapping[str, str], field: str) -> Int:
    value = _number(said, field)
    return value if isinstance(value, Absent) else round(value * _MIB)


def _text(said: Mapping[str, str], field: str) -> Text:
    value = text(said.get(field, ""), limit=100)
    return value if value and not value.startswith("[") else _said(said, field)


def _throttle(said: Mapping[str, str]) -> tuple[str, ...] | Absent:
    field = "clocks_event_reasons.active"
    word = said.get(field, "")
    if not _BITS.fullmatch(word):
        return _said(said, field)
    bits = int(word, 16)
    return tuple(name for bit, name in _REASONS if bits & bit)
