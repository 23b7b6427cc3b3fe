"""CPU and memory that the probe costs on this machine: `python -m tests.probe.bench_cpu [seconds] [interval]`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from console.telemetry.launch import ProbeOptions
from tests.probe.fakes import Console


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    options = ProbeOptions(interval_s=float(sys.argv[2]) if len(sys.argv) > 2 else 1.0, gpu=False)
    roots = {"HOST_PROC": "/proc", "HOST_SYS": "/sys", "HOST_DEV": "/dev"}
    host = os.environ.get("DOCKER_HOST")
    console = Console(Path("/nowhere"), options, **roots, **({"DOCKER_HOST": host} if host else {}))
    first = console.until(lambda d: d["part"] == "all" and d["t"] > 0 and d["seq"] >= 3)
    start, spent = first.data["t"], first.data["self"]["cpu_s"]
    last = console.until(lambda d: d["part"] == "all" and d["t"] - start >= seconds, seconds + 15)
    wall, cpu = last.data["t"] - start, last.data["self"]["cpu_s"] - spent
    status = Path(f"/proc/{console.child.pid}/status").read_text()
    rss = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    size = len(repr(dict(last.data)))
    print(
        f"{cpu / wall * 60:.3f} CPU s/min = {cpu / wall * 100:.2f} % of a core, {rss} kB, {size} B/frame, {wall:.0f} s"
    )
    console.close()


if __name__ == "__main__":
    main()
