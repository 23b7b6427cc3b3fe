"""Runs on a node: who is asked there, how much memory it has, what listens, which GPU it has."""

from __future__ import annotations

import os
import pwd
import socket

from console.probe.facts_ground import PROC, Facts, Missing, checked, meminfo, one_line, read


def user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise Missing(f"uid {os.getuid()} has no name on the node") from None


def gather_basics(facts: Facts) -> None:
    facts.take("user", user_name)
    facts.take("uid", os.getuid)
    facts.take("home", lambda: os.path.expanduser("~"))
    facts.take("hostname", socket.gethostname)
    facts.take("kernel", lambda: os.uname().release)
    facts.take("architecture", lambda: os.uname().machine)
    facts.take("boot_id", lambda: read(PROC + "/sys/kernel/random/boot_id").strip())
    facts.take("uptime_s", lambda: float(read(PROC + "/uptime").split()[0]))
    facts.take("mem_total_bytes", lambda: meminfo("MemTotal"))
    facts.take("mem_available_bytes", lambda: meminfo("MemAvailable"))
    facts.take("infiniband", lambda: os.path.isdir("/dev/infiniband"))
    facts.take("listening_ports", listening_ports)
    facts.take("control_address", control_address)


def control_address() -> str:
    """sshd(8): SSH_CONNECTION is client address, client port, own address, own port."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    if len(words) != 4:
        raise Missing("the console does not reach this node over SSH")
    return words[2]


def listening_ports() -> list[int]:
    ports: set[int] = set()
    tables = 0
    for table in ("tcp", "tcp6"):
        try:
            lines = read(f"{PROC}/net/{table}", 16 << 20).splitlines()[1:]
        except Missing:
            continue  # a kernel without IPv6 has no tcp6
        tables += 1
        for line in lines:
            words = line.split()
            if len(words) > 3 and words[3] == "0A":  # TCP_LISTEN
                ports.add(int(words[1].rsplit(":", 1)[1], 16))
    if not tables:
        raise Missing(f"{PROC}/net/tcp cannot be read")
    return sorted(ports)


def gather_gpu(facts: Facts) -> None:
    out = checked(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], facts.limit_s)
    rows = [[word.strip() for word in line.rsplit(",", 1)] for line in out.splitlines() if "," in line]
    if not rows:
        raise Missing(f"nvidia-smi lists no GPU: {one_line(out, 100)}")
    facts.put(gpu_names=[row[0] for row in rows])
    driver = rows[0][1]
    if driver and not driver.startswith("["):
        facts.put(gpu_driver=driver)
    else:
        facts.lack(["gpu_driver"], f"nvidia-smi says {driver}")
