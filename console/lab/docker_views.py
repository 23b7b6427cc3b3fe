"""How docker shows what it has: rows of `ps` and `images`, and `info`."""

from __future__ import annotations

import time
from typing import Any, Final

from console.lab.containers import Container, ContainerEngine
from console.lab.gotemplate import render
from console.lab.images import Image

VERSION: Final = "28.5.1"
API_VERSION: Final = "1.51"


def ago(ns: int) -> str:
    """ "5 minutes": how docker words an age."""
    s = max(0, (time.time_ns() - ns) // 1_000_000_000)
    if s < 1:
        return "Less than a second"
    for limit, unit, size in (
        (60, "second", 1),
        (3600, "minute", 60),
        (172_800, "hour", 3600),
        (10**12, "day", 86_400),
    ):
        if s < limit:
            n = s // size
            if unit == "minute" and n == 1:
                return "About a minute"
            if unit == "hour" and n == 1:
                return "About an hour"
            return f"{n} {unit}{'' if n == 1 else 's'}"
    return "a long time"


def ps_row(c: Container, whole: bool) -> dict[str, Any]:
    """One container as `docker ps --format json` shows it: every value is text."""
    command = '"' + " ".join(c.command) + '"'
    if not whole and len(command) > 22:
        command = command[:20] + "…" + '"'
    status = {
        "created": "Created",
        "running": f"Up {ago(c.started)}",
    }.get(c.status, f"Exited ({c.exit_code}) {ago(c.finished)} ago")
    moment = time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC", time.gmtime(c.created / 1e9))
    return {
        "Command": command, "CreatedAt": moment, "ID": c.id if whole else c.id[:12], "Image": c.spec.image,
        "Labels": ",".join(f"{k}={v}" for k, v in c.labels.items()), "LocalVolumes": "0", "Mounts": "",
        "Names": c.name, "Networks": str(c.spec.host_config.get("NetworkMode", "bridge")), "Ports": "",
        "RunningFor": ago(c.created) + " ago", "Size": "0B", "State": c.status, "Status": status,
        "_labels": dict(c.labels),
    }  # fmt: skip


def ps_table(rows: list[dict[str, Any]], template: str) -> str:
    if template == "json":
        template = "{{json .}}"
    if template.startswith("table "):
        template = template.removeprefix("table ")
    if template:
        return "".join(render(template, r) + "\n" for r in rows)
    columns = ["ID", "Image", "Command", "RunningFor", "Status", "Ports", "Names"]
    return table(columns, rows, {"ID": "CONTAINER ID", "RunningFor": "CREATED"})


def table(columns: list[str], rows: list[dict[str, Any]], titles: dict[str, str]) -> str:
    cells = [[titles.get(c, c.upper()) for c in columns]] + [[str(r[c]) for c in columns] for r in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    return "".join("   ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() + "\n" for row in cells)


def image_row(i: Image, whole: bool) -> dict[str, Any]:
    name, _, tag = i.reference.rpartition(":")
    return {
        "ID": i.id if whole else i.id.removeprefix("sha256:")[:12], "Repository": name, "Tag": tag, "Digest": "<none>",
        "CreatedAt": "2026-09-18 00:00:00 +0000 UTC", "CreatedSince": "2 weeks ago", "Size": f"{i.size / 1e9:.1f}GB",
        "Containers": "N/A", "SharedSize": "N/A", "UniqueSize": "N/A", "VirtualSize": f"{i.size / 1e9:.1f}GB",
    }  # fmt: skip


def info(engine: ContainerEngine, node: str) -> dict[str, Any]:
    """`docker info` of a DGX Spark with the NVIDIA container toolkit."""
    containers = engine.all()
    running = sum(c.running for c in containers)
    return {
        "ID": f"lab-{node}", "Containers": len(containers), "ContainersRunning": running, "ContainersPaused": 0,
        "ContainersStopped": len(containers) - running, "Images": len(engine.images.all()), "Driver": "overlay2",
        "DriverStatus": [["Backing Filesystem", "extfs"]], "LoggingDriver": "json-file", "CgroupDriver": "systemd",
        "CgroupVersion": "2", "KernelVersion": "6.17.0-1032-nvidia", "OperatingSystem": "Ubuntu 24.04.3 LTS",
        "OSType": "linux", "Architecture": "aarch64", "NCPU": 20, "MemTotal": 130_663_231_488, "Name": node,
        "DockerRootDir": "/var/lib/docker", "ServerVersion": VERSION, "DefaultRuntime": "runc",
        "Runtimes": {"io.containerd.runc.v2": {"path": "runc"}, "nvidia": {"path": "nvidia-container-runtime"},
                     "runc": {"path": "runc"}},
        "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
        "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}],
        "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"], "Warnings": None,
        "Labels": [], "LiveRestoreEnabled": False,
    }  # fmt: skip
