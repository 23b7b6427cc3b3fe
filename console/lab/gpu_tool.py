"""`nvidia-smi` as a GB10 answers it: utilisation, temperature, power and clocks, but no memory of its own."""
# ruff: noqa: E501 lines of output are kept whole, as they are printed

from __future__ import annotations

import time
from collections.abc import Sequence

from console.lab.clock import LabClock
from console.lab.machine import Machine
from console.lab.shim import Call

_DRIVER = "580.173.02"


async def nvidia_smi(call: Call, m: Machine, clock: LabClock) -> int:
    """Queries with --format=csv, repeats with -l and -lms, `-L`, and the plain table."""
    options: dict[str, str] = {}
    words = list(call.args)
    while words:
        word = words.pop(0)
        name, sep, value = word.partition("=")
        if not sep and name in ("-l", "-lms", "-i", "--loop", "--loop-ms", "--id", "-f") and words:
            value = words.pop(0)
        options[name] = value
    if "-L" in options:
        await call.out(f"GPU 0: NVIDIA GB10 (UUID: {_uuid(m)})\n")
        return 0
    every = 0.0
    if seconds := options.get("-l") or options.get("--loop"):
        every = float(seconds)
    elif ms := options.get("-lms") or options.get("--loop-ms"):
        every = float(ms) / 1000
    style = options.get("--format", "csv").replace(" ", "").split(",")
    first = True
    while True:
        m.sample()
        if query := options.get("--query-gpu"):
            fields = [f.strip() for f in query.split(",")]
            unknown = [f for f in fields if _field(m, f) is None]
            if unknown:
                await call.out(f'Field "{unknown[0]}" is not a valid field to query.\n\n')
                return 2
            if first and "noheader" not in style:
                await call.out(", ".join(fields) + "\n")
            await call.out(gpu_line(m, fields, style) + "\n")
        elif query := options.get("--query-compute-apps"):
            fields = [f.strip() for f in query.split(",")]
            if first and "noheader" not in style:
                await call.out(", ".join(fields) + "\n")
            for line in app_lines(m, clock.now(), fields, style):
                await call.out(line + "\n")
        else:
            await call.out(
                f"{time.strftime('%a %b %d %H:%M:%S %Y')}\n| NVIDIA-SMI {_DRIVER}   Driver Version: {_DRIVER}   CUDA Version: 13.0 |\n"
                f"|   0  NVIDIA GB10   On | 0000000F:01:00.0 Off |  N/A |\n"
                f"| N/A  {m.temperature:.0f}C  P0  {m.gpu_power():.0f}W / N/A | Not Supported | {m.gpu_util()}%  Default |\n"
            )
        first = False
        if not every:
            return 0
        await clock.pace(every)


def gpu_line(m: Machine, fields: Sequence[str], style: Sequence[str]) -> str:
    """A row of --query-gpu for known fields; style: the words of --format."""
    return ", ".join(_show(_field(m, f) or ("", ""), style) for f in fields)


def app_lines(m: Machine, now: float, fields: Sequence[str], style: Sequence[str]) -> list[str]:
    """Rows of --query-compute-apps: the processes that hold memory. now: in lab seconds."""
    lines = []
    for load in list(m.loads.values()):
        held = load.held(now)
        if held > 0.2:
            used = (str(int(held * 1024)), "MiB")
            row = {"pid": (str(load.pid + 1), ""), "process_name": (load.name, ""), "name": (load.name, ""),
                   "used_memory": used, "used_gpu_memory": used, "gpu_uuid": (_uuid(m), "")}  # fmt: skip
            lines.append(", ".join(_show(row.get(f, ("[N/A]", "")), style) for f in fields))
    return lines


def _uuid(m: Machine) -> str:
    return f"GPU-5eed0000-0000-4000-8000-{m.number:012d}"


def _field(m: Machine, name: str) -> tuple[str, str] | None:
    """Value and unit; `[N/A]` where a GB10 has none, as its memory is the machine's own."""
    values = {
        "timestamp": (time.strftime("%Y/%m/%d %H:%M:%S.000"), ""), "index": ("0", ""), "count": ("1", ""),
        "name": ("NVIDIA GB10", ""), "gpu_name": ("NVIDIA GB10", ""), "uuid": (_uuid(m), ""), "gpu_uuid": (_uuid(m), ""),
        "driver_version": (_DRIVER, ""), "pstate": ("P0", ""), "compute_cap": ("12.1", ""), "persistence_mode": ("Enabled", ""),
        "pci.bus_id": ("0000000F:01:00.0", ""), "gpu_bus_id": ("0000000F:01:00.0", ""), "mig.mode.current": ("[N/A]", ""),
        "utilization.gpu": (str(m.gpu_util()), "%"), "utilization.memory": ("0", "%"),
        "temperature.gpu": (f"{m.temperature:.0f}", ""), "temperature.memory": ("N/A", ""), "fan.speed": ("[N/A]", ""),
        "power.draw": (f"{m.gpu_power():.2f}", "W"), "power.draw.instant": (f"{m.gpu_power():.2f}", "W"),
        "power.draw.average": (f"{m.gpu_power():.2f}", "W"), "power.limit": ("[N/A]", ""), "enforced.power.limit": ("[N/A]", ""),
        "clocks.sm": (str(m.gpu_clock()), "MHz"), "clocks.gr": (str(m.gpu_clock()), "MHz"), "clocks.current.sm": (str(m.gpu_clock()), "MHz"),
        "clocks.current.graphics": (str(m.gpu_clock()), "MHz"), "clocks.max.sm": ("3003", "MHz"), "clocks.max.graphics": ("3003", "MHz"),
        "clocks.mem": ("[N/A]", ""), "memory.used": ("[N/A]", ""), "memory.total": ("[N/A]", ""), "memory.free": ("[N/A]", ""),
        "clocks_throttle_reasons.active": ("0x0000000000000000", ""), "clocks_event_reasons.active": ("0x0000000000000000", ""),
    }  # fmt: skip
    return values.get(name)


def _show(value: tuple[str, str], style: Sequence[str]) -> str:
    text, unit = value
    return f"{text} {unit}" if unit and "nounits" not in style else text
