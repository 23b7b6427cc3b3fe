"""Runs on a node: gathers what a plan must know of it and prints one JSON object; Python 3.8, standard library only.

Called as `python3 -I - REQUEST` with this text on standard input. REQUEST is JSON:
{"cli": "docker", "images": [...], "paths": [...], "limit_s": 4.0}. Every fact comes as {"v": value} or {"why": reason}.
What can hang (a dead daemon, a dead mount) is asked in child processes with a limit, all at once: a hung mount is an
answer with a reason, not a wait. HOST_PROC and HOST_SYS stand for /proc and /sys, as in containers that look at a host.
"""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import platform
import pwd
import queue
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

PROC = os.environ.get("HOST_PROC", "/proc")
SYS = os.environ.get("HOST_SYS", "/sys")
MARK = "nightdeck-facts-1 "
MAX_OUTPUT = 4 << 20
CAP_SYS_RESOURCE = 24  # linux/capability.h
SIOCGIFADDR = 0x8915  # linux/sockios.h

# Free bytes for this user at a path, or at its nearest folder that exists.
FREE = """
import os, sys
p = os.path.abspath(sys.argv[1])
while not os.path.exists(p) and p != "/":
    p = os.path.dirname(p)
s = os.statvfs(p)
print(s.f_bavail * s.f_frsize)
"""
TRIAL = """
import resource, sys
n = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
"""
TRIAL_MEMLOCK = """
import resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


class Missing(Exception):
    """A fact that is not known, and why."""


def one_line(text: str, limit: int = 300) -> str:
    return " ".join(text.split())[:limit]


def read(path: str, size: int = 1 << 20) -> str:
    """Text of a small file of the kernel's."""
    try:
        with open(path, "rb") as file:
            return file.read(size).decode("utf-8", "replace")
    except OSError as error:
        raise Missing(f"{path}: {error.strerror}") from None


def run(argv: list[str], limit_s: float) -> tuple[int, str, str]:
    """(exit status, stdout, stderr) of a child that is not waited for beyond its limit, not even to be reaped:
    one stuck in the kernel cannot be killed."""
    try:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise Missing(f"{argv[0]} is not installed") from None
    except OSError as error:
        raise Missing(f"{argv[0]}: {error.strerror}") from None
    texts: dict[str, str] = {}

    def pump(name: str, pipe: Any) -> None:
        texts[name] = pipe.read(MAX_OUTPUT).decode("utf-8", "replace")

    pumps = [
        threading.Thread(target=pump, args=("out", child.stdout), daemon=True),
        threading.Thread(target=pump, args=("err", child.stderr), daemon=True),
    ]
    for thread in pumps:
        thread.start()
    end = time.monotonic() + limit_s
    for thread in pumps:
        thread.join(max(0.0, end - time.monotonic()))
    try:
        status = child.wait(max(0.05, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        child.kill()
        raise Missing(f"{os.path.basename(argv[0])} gave no answer in {limit_s:g} s") from None
    return status, texts.get("out", ""), texts.get("err", "")


def checked(argv: list[str], limit_s: float) -> str:
    status, out, err = run(argv, limit_s)
    if status != 0:
        raise Missing("{}: {}".format(os.path.basename(argv[0]), one_line(err or out) or f"exit status {status}"))
    return out


class Facts:
    """What was found; each gatherer puts its own."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.cli = str(request.get("cli") or "docker")
        self.images = [str(i) for i in request.get("images") or []]
        self.paths = [str(p) for p in request.get("paths") or []]
        self.limit_s = float(request.get("limit_s") or 4.0)
        self.request = request
        self.values: dict[str, dict[str, Any]] = {}
        self.missing: dict[str, str] = {}
        self.lock = threading.Lock()

    def put(self, **values: object) -> None:
        with self.lock:
            for name, value in values.items():
                self.values[name] = {"v": value}

    def lack(self, names: Iterable[str], reason: str) -> None:
        with self.lock:
            for name in names:
                self.values.setdefault(name, {"why": reason})

    def take(self, name: str, get: Callable[[], object]) -> None:
        """One fact whose failure leaves the others alone."""
        try:
            self.put(**{name: get()})
        except Missing as error:
            self.lack([name], str(error))
        except (OSError, ValueError, KeyError, IndexError) as error:
            self.lack([name], f"{type(error).__name__}: {one_line(str(error))}")


def meminfo(key: str) -> int:
    found = re.search(rf"^{key}:\s+(\d+) kB", read(PROC + "/meminfo"), re.M)
    if not found:
        raise Missing(f"{PROC}/meminfo has no {key}")
    return int(found.group(1)) * 1024


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
    facts.take("kernel", platform.release)
    facts.take("architecture", platform.machine)
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


def gather_container(facts: Facts) -> None:
    names = ("container_cli", "container_version", "container_runtimes", "storage_driver", "nvidia_runtime")
    path = shutil.which(facts.cli)
    if path is None:
        raise Missing(f"{facts.cli} is not installed")
    facts.put(container_cli=facts.cli)
    out = checked([path, "info", "--format", "{{json .}}"], facts.limit_s)
    try:
        info = json.loads(out)
    except ValueError:
        raise Missing(f"{facts.cli} info did not answer in JSON") from None
    if not isinstance(info, dict):
        raise Missing(f"{facts.cli} info did not answer with an object")
    if info.get("ServerErrors"):
        raise Missing(one_line("; ".join(str(e) for e in info["ServerErrors"])))
    host, store = info.get("host") or {}, info.get("store") or {}
    version = info.get("ServerVersion") or (info.get("version") or {}).get("Version")
    runtimes = sorted(info.get("Runtimes") or {}) or [r for r in [(host.get("ociRuntime") or {}).get("name")] if r]
    driver = info.get("Driver") or store.get("graphDriverName")
    root = info.get("DockerRootDir") or store.get("graphRoot")
    for name, value in (("container_version", version), ("storage_driver", driver)):
        if value:
            facts.put(**{name: value})
        else:
            facts.lack([name], f"{facts.cli} info does not say")
    facts.put(container_runtimes=runtimes)
    path = hook_path()
    hook = any(shutil.which(name, path=path) for name in ("nvidia-container-runtime-hook", "nvidia-container-cli"))
    facts.put(nvidia_runtime=bool("nvidia" in runtimes or hook or os.path.exists("/etc/cdi/nvidia.yaml")))
    if root:
        free(facts, root, root)
    facts.lack(names, f"{facts.cli} info does not say")


def gather_images(facts: Facts) -> None:
    path = shutil.which(facts.cli)
    if path is None:
        raise Missing(f"{facts.cli} is not installed")
    ids: dict[str, str] = {}
    reasons: list[str] = []

    def ask(reference: str) -> None:
        try:
            status, out, err = run([path, "image", "inspect", "--format", "{{.Id}}", "--", reference], facts.limit_s)
        except Missing as error:
            reasons.append(str(error))
            return
        found = re.match(r"(?:sha256:)?([0-9a-f]{64})\s*$", out)
        if status == 0 and found:
            ids[reference] = "sha256:" + found.group(1)
        elif not re.search(r"no such image|not known|no image|not found|does not exist", err, re.I):
            reasons.append(one_line(err) or f"image inspect: exit status {status}")

    threads = [threading.Thread(target=ask, args=(r,), daemon=True) for r in facts.images]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(facts.limit_s + 1)
    if reasons:
        raise Missing(reasons[0])
    facts.put(image_ids=ids)


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


def gather_interfaces(facts: Facts) -> None:
    try:
        found = from_ip(checked(["ip", "-j", "addr"], facts.limit_s))
    except (Missing, ValueError, KeyError, TypeError):
        found = from_sysfs()
    for item in found:
        if "mtu" not in item:
            item["mtu"] = number("{}/class/net/{}/mtu".format(SYS, item["name"]))
        item["speed_mbit"] = number("{}/class/net/{}/speed".format(SYS, item["name"]))
    facts.put(interfaces=found)


def from_ip(out: str) -> list[dict[str, Any]]:
    found = []
    for item in json.loads(out):
        inet = [a for a in item.get("addr_info", []) if a.get("family") == "inet" and "local" in a]
        addresses = [a["local"] for a in inet]
        networks = [str(ipaddress.ip_interface("{local}/{prefixlen}".format(**a)).network) for a in inet]
        flags = item.get("flags", [])
        up = item.get("operstate") == "UP" or ("LOWER_UP" in flags and "UP" in flags)
        found.append(
            {"name": item["ifname"], "addresses": addresses, "networks": networks, "up": up, "mtu": item.get("mtu")}
        )
    return found


def from_sysfs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        names = sorted(os.listdir(SYS + "/class/net"))
    except OSError as error:
        raise Missing(f"{SYS}/class/net: {error.strerror}") from None
    for name in names:
        if not os.path.isdir(f"{SYS}/class/net/{name}"):
            continue
        addresses = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            try:
                request = struct.pack("256s", name.encode()[:15])
                addresses = [socket.inet_ntoa(fcntl.ioctl(sock.fileno(), SIOCGIFADDR, request)[20:24])]
            except OSError:
                addresses = []  # an interface without an IPv4 address
        state = word(f"{SYS}/class/net/{name}/operstate")
        found.append({"name": name, "addresses": addresses, "up": state in ("up", "unknown")})
    return found


def number(path: str) -> int | None:
    """A count above 0, or None: drivers say -1, or refuse to be read, for "unknown"."""
    text = word(path)
    return int(text) if text is not None and text.isdigit() and int(text) > 0 else None


def word(path: str) -> str | None:
    try:
        return read(path, 4096).strip()
    except Missing:
        return None


def gather_hcas(facts: Facts) -> None:
    base = SYS + "/class/infiniband"
    found = []
    try:
        devices = sorted(os.listdir(base))
    except FileNotFoundError:
        devices = []  # no RDMA driver is loaded: no HCA, which is an answer
    except OSError as error:
        raise Missing(f"{base}: {error.strerror}") from None
    for device in devices:
        for port in sorted(os.listdir(f"{base}/{device}/ports"), key=lambda p: (len(p), p)):
            found.append(hca(base, device, port))
    facts.put(hcas=found)


def hca(base: str, device: str, port: str) -> dict[str, Any]:
    folder = f"{base}/{device}/ports/{port}"
    state = word(folder + "/state")
    netdev = word(folder + "/gid_attrs/ndevs/0")
    if not netdev:
        try:
            netdev = sorted(os.listdir(f"{base}/{device}/device/net"))[0]
        except (OSError, IndexError):
            netdev = None
    try:
        indexes = sorted(int(i) for i in os.listdir(folder + "/gid_attrs/types") if i.isdigit())
    except OSError:
        indexes = []
    gid = None
    for index in indexes:
        kind = word(f"{folder}/gid_attrs/types/{index}")  # an empty slot refuses to be read
        address = word(f"{folder}/gids/{index}") or ""
        # RoCE v2 over IPv4 has an IPv4-mapped GID.
        if kind == "RoCE v2" and address.startswith("0000:0000:0000:0000:0000:ffff:"):
            gid = index
            break
    return {
        "name": f"{device}:{port}",
        "interface": netdev,
        "state": state.split(":", 1)[-1].strip() if state else None,
        "gid_index_rocev2": gid,
    }


def gather_limits(facts: Facts) -> None:
    """What a container may raise its limits to: its parent's hard limits, or the kernel's where that may raise."""
    nr_open = int(read(PROC + "/sys/fs/nr_open"))
    if os.getuid() == 0 and not (facts.cli == "docker" and daemons()):
        ok, _, _ = run([sys.executable, "-I", "-c", TRIAL, str(nr_open)], facts.limit_s)
        facts.put(nofile_limit=nr_open if ok == 0 else resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        ok, _, _ = run([sys.executable, "-I", "-c", TRIAL_MEMLOCK], facts.limit_s)
        facts.put(memlock_unlimited=ok == 0)
        return
    if facts.cli == "podman":  # without a daemon, and here without root: the user's own limits
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        facts.put(nofile_limit=nr_open if hard == resource.RLIM_INFINITY else hard)
        facts.put(memlock_unlimited=resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] == resource.RLIM_INFINITY)
        return
    pid = daemon()
    limits = read(f"{PROC}/{pid}/limits")
    status = read(f"{PROC}/{pid}/status")
    caps = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.M)
    # Only in the first user namespace does the capability raise limits; its map has one line that covers all ids.
    whole = (word(f"{PROC}/{pid}/uid_map") or "").split() == ["0", "0", "4294967295"]
    may_raise = bool(whole and caps and int(caps.group(1), 16) >> CAP_SYS_RESOURCE & 1)
    files = re.search(r"^Max open files\s+\S+\s+(\S+)", limits, re.M)
    locked = re.search(r"^Max locked memory\s+\S+\s+(\S+)", limits, re.M)
    if may_raise:
        facts.put(nofile_limit=nr_open, memlock_unlimited=True)
        return
    if files:
        facts.put(nofile_limit=nr_open if files.group(1) == "unlimited" else int(files.group(1)))
    if locked:
        facts.put(memlock_unlimited=locked.group(1) == "unlimited")


def daemon() -> str:
    """The process whose limits containers start from."""
    found = daemons()
    if not found:
        raise Missing("neither dockerd nor containerd runs, whose limits containers get")
    return found[0]


def daemons() -> list[str]:
    """Process ids of the container engine, dockerd before containerd."""
    names = {pid: word(f"{PROC}/{pid}/comm") for pid in os.listdir(PROC) if pid.isdigit()}
    return [pid for wanted in ("dockerd", "containerd") for pid, name in names.items() if name == wanted]


def hook_path() -> str | None:
    """Where the container engine looks for its GPU hook: the PATH it was started with, else this one."""
    for pid in daemons()[:1]:
        try:
            for item in read(f"{PROC}/{pid}/environ").split("\0"):
                if item.startswith("PATH="):
                    return item[5:]
        except Missing:
            break  # another user's process
    return None


def gather_disks(facts: Facts) -> None:
    threads = [
        threading.Thread(target=free, args=(facts, path, os.path.expanduser(path)), daemon=True) for path in facts.paths
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(facts.limit_s + 1)


def free(facts: Facts, name: str, path: str) -> None:
    try:
        size = int(checked([sys.executable, "-I", "-c", FREE, path], facts.limit_s))
    except (Missing, ValueError) as error:
        with facts.lock:
            facts.missing[f"disk {name}"] = one_line(str(error))
        return
    with facts.lock:
        facts.values.setdefault("disk_free_bytes", {"v": {}})["v"][name] = size


GATHERERS = (
    (gather_basics, ("user", "uid", "home", "hostname", "kernel", "architecture", "boot_id", "uptime_s",
                     "mem_total_bytes", "mem_available_bytes", "control_address", "infiniband", "listening_ports")),
    (gather_container, ("container_cli", "container_version", "container_runtimes", "storage_driver",
                        "nvidia_runtime")),
    (gather_images, ("image_ids",)),
    (gather_gpu, ("gpu_names", "gpu_driver")),
    (gather_interfaces, ("interfaces",)),
    (gather_hcas, ("hcas",)),
    (gather_limits, ("nofile_limit", "memlock_unlimited")),
    (gather_disks, ("disk_free_bytes",)),
)  # fmt: skip


def main(argv: list[str], more: tuple[Any, ...] = ()) -> None:
    """more: further gatherers with the names of their facts."""
    began = time.time()
    gatherers = GATHERERS + more
    facts = Facts(json.loads(argv[1]) if len(argv) > 1 else {})
    done: queue.Queue[object] = queue.Queue()

    def work(gather: Callable[[Facts], None], names: Iterable[str]) -> None:
        try:
            gather(facts)
            facts.lack(names, "the node does not say")
        except Missing as error:
            facts.lack(names, str(error))
        except Exception as error:  # noqa: BLE001  one gatherer's surprise must not cost the other facts
            facts.lack(names, f"{type(error).__name__}: {one_line(str(error))}")
        done.put(gather)

    for gather, names in gatherers:
        threading.Thread(target=work, args=(gather, names), daemon=True).start()
    end = time.monotonic() + 2 * facts.limit_s + 1
    for _ in gatherers:
        try:
            done.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
    for _, names in gatherers:
        facts.lack(names, "no answer in %g s" % (2 * facts.limit_s + 1))
    with facts.lock:
        report = {"facts": facts.values, "missing": facts.missing, "began": began, "ended": time.time()}
        text = MARK + json.dumps(report) + "\n"
    sys.stdout.write(text)
    sys.stdout.flush()
    os._exit(0)  # threads that hang must not hold the answer back


if __name__ == "__main__":
    main(sys.argv)
