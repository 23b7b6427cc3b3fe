"""Runs on a node: what of the host itself can spoil a launch: sessions, shared memory, swap, clocks, routes, images."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import socket
import struct
import threading
from functools import partial
from typing import TYPE_CHECKING

from console.probe.facts_engine import IMAGES, full_id
from console.probe.facts_ground import PROC, SYS, Facts, Missing, checked, meminfo, number, one_line, run, which, word

if TYPE_CHECKING:
    from typing import Any

# A container that looks at a host sees the host's files there; on the host itself the prefix is empty.
ROOT = os.environ.get("HOST_ROOT", "" if PROC == "/proc" else PROC + "/1/root")
SHM = os.environ.get("HOST_DEV", ROOT + "/dev") + "/shm"
LEFT = re.compile(r"^(psm_|sem\.mp-|sem\.loky|nccl-|torch_|vllm|sglang|__KMP_|shm_)")
WATCHDOGS = ("earlyoom", "memguard", "nohang", "nohang-desktop", "systemd-oomd", "oomd")
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3  # linux/in.h


def gather_sessions(facts: Facts) -> None:
    """logind removes the shared memory of a user whose last session ended, unless told otherwise (logind.conf(5))."""
    if not os.path.isdir(ROOT + "/run/systemd/users"):
        facts.put(remove_ipc=False)  # logind does not run
    else:
        facts.put(remove_ipc=remove_ipc())
    name = str(facts.request.get("user") or "") or os.environ.get("USER") or str(os.getuid())
    facts.put(linger=os.path.exists(f"{ROOT}/var/lib/systemd/linger/{name}"))


def remove_ipc() -> bool:
    value = "yes"  # systemd's own default
    files = [ROOT + "/etc/systemd/logind.conf"]
    drops: dict[str, str] = {}
    for folder in ("/usr/lib", "/run", "/etc"):  # a later folder's file of the same name replaces an earlier one's
        for path in glob.glob(f"{ROOT}{folder}/systemd/logind.conf.d/*.conf"):
            drops[os.path.basename(path)] = path
    for path in files + [drops[name] for name in sorted(drops)]:
        for line in (word(path) or "").splitlines():
            found = re.match(r"\s*RemoveIPC\s*=\s*(\S*)", line)
            if found:
                value = found.group(1) or "yes"
    return value.lower() in ("yes", "true", "1", "on", "y", "t")


def gather_memory(facts: Facts) -> None:
    for name, key in (("swap_total_bytes", "SwapTotal"), ("swap_free_bytes", "SwapFree"),
                      ("cma_total_bytes", "CmaTotal"), ("cma_free_bytes", "CmaFree")):  # fmt: skip
        facts.take(name, partial(meminfo, key))
    facts.take("page_cache_bytes", lambda: max(0, meminfo("Cached") + meminfo("Buffers") - meminfo("Shmem")))
    if not os.path.isdir(SHM):
        raise Missing(SHM + " is not there")
    room = os.statvfs(SHM)
    facts.put(shm_total_bytes=room.f_blocks * room.f_frsize, shm_free_bytes=room.f_bavail * room.f_frsize)
    left = []
    for entry in os.scandir(SHM):
        if LEFT.match(entry.name) and entry.is_file(follow_symlinks=False):
            left.append({"name": entry.name[:100], "bytes": entry.stat(follow_symlinks=False).st_blocks * 512})
    facts.put(shm_leftovers=sorted(left, key=lambda row: -int(str(row["bytes"])))[:200])


def gather_clocks(facts: Facts) -> None:
    """What nvidia-smi says of each GPU's clock; a field that this one does not know costs the reasons alone."""
    base = "clocks.sm,power.draw,utilization.gpu"
    for reasons in (",clocks_event_reasons.active", ",clocks_throttle_reasons.active", ""):
        status, out, err = run(
            ["nvidia-smi", f"--query-gpu={base}{reasons}", "--format=csv,noheader,nounits"], facts.limit_s
        )
        if status == 0:
            break
    else:
        raise Missing(one_line(err or out) or f"nvidia-smi: exit status {status}")
    rows = []
    for line in out.splitlines():
        # The separator has a space: a comma without one is a decimal comma, and moves no column.
        words = [w.strip() for w in line.split(", ")]
        if len(words) == (4 if reasons else 3):
            mask = words[3] if len(words) > 3 else ""
            rows.append(
                {
                    "sm_mhz": real(words[0]),
                    "power_w": real(words[1]),
                    "util": real(words[2]),
                    "reasons": int(mask, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", mask) else None,
                }
            )
    facts.put(gpu_clocks=rows)


def real(text: str) -> float | None:
    """A figure that a device can have; None for [N/A], [Not Supported], `41,20`, `nan`."""
    return float(text) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) else None


def gather_routes(facts: Facts) -> None:
    """How each peer is reached, and whether frames as large as the interface allows get there and back."""
    rows: list[dict[str, Any]] = []
    lock = threading.Lock()

    def ask(address: str) -> None:
        row = route(address, facts.limit_s)
        with lock:
            rows.append(row)

    peers = [str(p) for p in facts.request.get("peers") or []]
    threads = [threading.Thread(target=ask, args=(p,), daemon=True) for p in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(facts.limit_s + 2)
    with lock:
        facts.put(routes=list(rows))


def route(address: str, limit_s: float) -> dict[str, Any]:
    row: dict[str, Any] = {"peer": address, "interface": None, "mtu": None, "small": None, "large": None, "why": ""}
    try:
        socket.inet_aton(address)
        out = checked(["ip", "route", "get", address], limit_s)
    except OSError:
        return {**row, "why": "not an IPv4 address"}
    except Missing as error:
        return {**row, "why": str(error)}
    found = re.search(r"\bdev (\S+)", out)
    if not found:
        return {**row, "why": one_line(out, 100)}
    row["interface"] = found.group(1)
    mtu = row["mtu"] = number(f"{SYS}/class/net/{row['interface']}/mtu")
    if mtu is None or mtu < 576 or row["interface"] == "lo":
        return row
    try:
        row["large"] = ping(address, mtu - 28, limit_s)  # 20 bytes of IP, 8 of ICMP
        row["small"] = True if row["large"] else ping(address, 56, limit_s)
    except Missing as error:
        row["why"] = str(error)
    return row


def ping(address: str, size: int, limit_s: float) -> bool:
    """An echo that may not be split on its way. Two tries: the first may be spent on finding the neighbour."""
    if not which("ping"):
        return any(echo(address, size, n) for n in (1, 2))
    argv = ["ping", "-n", "-q", "-c", "1", "-W", "1", "-M", "do", "-s", str(size), address]
    for _ in (1, 2):
        status, out, err = run(argv, limit_s)
        if status == 0:
            return True
        if "too long" in err + out:
            return False
        if status != 1:
            raise Missing("ping: " + (one_line(err or out) or f"exit status {status}"))
    return False


def echo(address: str, size: int, sequence: int) -> bool:
    """The same without the program, where the kernel allows it (root, or net.ipv4.ping_group_range)."""
    sock = None
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            sock = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
            break
        except OSError:
            continue
    if sock is None:
        raise Missing("ping is not installed, and this user may send no echo itself")
    ident = threading.get_ident() & 0xFFFF
    head = struct.pack("!BBHHH", 8, 0, 0, ident, sequence)
    body = bytes(size)
    packet = struct.pack("!BBHHH", 8, 0, checksum(head + body), ident, sequence) + body
    with sock:
        sock.settimeout(1.0)
        try:
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
            sock.connect((address, 0))
            sock.send(packet)
            for _ in range(50):  # a raw socket hears the echoes of others too
                data = sock.recv(1 << 16)
                answer = data[(data[0] & 15) * 4 :] if kind == socket.SOCK_RAW else data
                if answer[:1] != b"\0" or len(answer) != size + 8:
                    continue
                whose, which = struct.unpack("!HH", answer[4:8])
                if which == sequence and (whose == ident or kind == socket.SOCK_DGRAM):
                    return True
        except OSError:
            return False  # too large for the way, no answer, no way
    return False


def checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def settings(config: dict[str, Any]) -> str:
    """A digest of what a container of the image starts with."""
    keys = ("Entrypoint", "Cmd", "Env", "WorkingDir", "User")
    text = json.dumps([config.get(key) or None for key in keys])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def gather_image_details(facts: Facts) -> None:
    """Reference -> what makes two images the same or not."""
    found = {}
    for reference, item in IMAGES.all(facts).items():
        if isinstance(item, Missing):
            raise item
        if item is None:
            continue
        try:
            config = item.get("Config") or {}
            found[reference] = {
                "id": full_id(item),
                "layers": (item.get("RootFS") or {}).get("Layers") or [],
                "size": item.get("Size"),
                "user": config.get("User") or "",
                "architecture": item.get("Architecture") or "",
                "settings": settings(config),
            }
        except (KeyError, TypeError, AttributeError):
            raise Missing(f"{facts.cli} inspects {reference} in an unknown form") from None
    facts.put(images=found)
