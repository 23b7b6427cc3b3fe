"""The /proc and /sys that programs on a lab node read: files in the node's folder, kept up to date."""
# ruff: noqa: E501 lines of output are kept whole, as they are printed

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Final

from console.lab.machine import GIB_KB, HCAS, MEM_TOTAL_KB, Machine

_CORES: Final = 20
_SECTOR: Final = 512


class HostFs:
    """`proc/` and `sys/` of one node. Writes are in place: a reader that keeps a file open sees it move, as in /proc."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self._folder = folder
        self._proc = folder / "proc"
        self._sys = folder / "sys"
        self._machine = machine
        self._listening: frozenset[tuple[str, int]] | None = None
        self._sizes: dict[str, int] = {}
        fixed = self._fixed()
        for parent in sorted({path.rpartition("/")[0] for path in fixed}):
            (folder / parent).mkdir(parents=True, exist_ok=True)
        for path, text in fixed.items():
            (folder / path).write_text(text)
        self._proc.mkdir(parents=True, exist_ok=True)
        (folder / "dev/infiniband").mkdir(parents=True, exist_ok=True)
        self._pids: set[int] = set()
        for pid, name in ((1, "systemd"), (1101, "containerd"), (1188, "dockerd")):
            self._process(pid, name, 1 if pid > 1 else 0, 4_000 + pid, 90_000)
            (self._proc / f"{pid}/limits").write_text(_LIMITS)
            (self._proc / f"{pid}/status").write_text(f"Name:\t{name}\nPid:\t{pid}\nCapEff:\t000001ffffffffff\n")
            (self._proc / f"{pid}/uid_map").write_text("         0          0 4294967295\n")
        for path in ("net", "pressure"):
            (self._proc / path).mkdir(parents=True, exist_ok=True)
        for hca, netdev in HCAS:
            (self._sys / f"class/infiniband/{hca}/ports/1/counters").mkdir(parents=True, exist_ok=True)
            (self._sys / f"class/net/{netdev}/statistics").mkdir(parents=True, exist_ok=True)
            link = self._sys / f"class/infiniband/{hca}/device/net/{netdev}"
            link.mkdir(parents=True, exist_ok=True)
        self._counters = [
            (
                str(self._sys / f"class/infiniband/{hca}/ports/1/counters/port_xmit_data"),
                str(self._sys / f"class/infiniband/{hca}/ports/1/counters/port_rcv_data"),
                str(self._sys / f"class/net/{netdev}/statistics/tx_bytes"),
                str(self._sys / f"class/net/{netdev}/statistics/rx_bytes"),
            )
            for hca, netdev in HCAS
        ]
        self.update()

    def _put(self, path: str, text: str) -> None:
        data = text.encode()
        before = self._sizes.get(path, 0)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(fd, data, 0)
            if len(data) < before:
                os.ftruncate(fd, len(data))
        finally:
            os.close(fd)
        self._sizes[path] = len(data)

    def update(self) -> None:
        """One pass over the files that move."""
        m = self._machine
        m.sample()
        proc = str(self._proc)
        self._put(f"{proc}/meminfo", self._meminfo())
        self._put(f"{proc}/stat", self._stat())
        load = m.load_average()
        self._put(f"{proc}/loadavg", f"{load:.2f} {load * 0.9:.2f} {load * 0.8:.2f} 2/812 {31_000 + m.number}\n")
        up = time.time() - m.up_since
        self._put(f"{proc}/uptime", f"{up:.2f} {up * 19:.2f}\n")
        self._put(f"{proc}/net/dev", self._netdev())
        self._put(f"{proc}/vmstat", self._vmstat())
        sectors = int(m.totals.disk) // _SECTOR
        self._put(
            f"{proc}/diskstats",
            f" 259       0 nvme0n1 {sectors // 256:12d} 120 {sectors:14d} 90210 81230 4410 9120331 20110 0 60210 110320 0 0 0 0 0 0\n"
            f" 259       1 nvme0n1p2 {sectors // 256:12d} 120 {sectors:14d} 90010 81000 4400 9120000 20000 0 60000 110000 0 0 0 0 0 0\n",
        )
        stalled = 31.0 if m.available_gib() < 2 else 0.0
        total = int(m.totals.stall_us)
        self._put(
            f"{proc}/pressure/memory",
            f"some avg10={stalled * 1.2:.2f} avg60={stalled:.2f} avg300={stalled / 2:.2f} total={total}\n"
            f"full avg10={stalled:.2f} avg60={stalled * 0.8:.2f} avg300={stalled / 3:.2f} total={total // 2}\n",
        )
        share = (0.62, 0.38)  # the two halves of one ConnectX-7 port do not carry the same
        for part, (xmit, rcv, tx, rx) in zip(share, self._counters, strict=True):
            self._put(xmit, f"{int(m.totals.tx * part) // 4}\n")  # in words of four bytes, as the driver counts
            self._put(rcv, f"{int(m.totals.rx * part) // 4}\n")
            self._put(tx, f"{int(m.totals.tx * part)}\n")
            self._put(rx, f"{int(m.totals.rx * part)}\n")
        self._processes()
        listening = frozenset(m.listening)
        if listening != self._listening:
            self._listening = listening
            self._put(f"{proc}/net/tcp", _tcp(listening))

    def _processes(self) -> None:
        """The engine's processes: a small first one and a worker that holds the memory."""
        alive: set[int] = set()
        now = self._machine.clock.now()
        for load in self._machine.loads.values():
            if load.pid:
                alive |= {load.pid, load.pid + 1}
                self._process(load.pid, "vllm", 1101, int(load.ticks * 0.1), 900_000)
                self._process(
                    load.pid + 1, load.name, load.pid, int(load.ticks * 0.9), int(load.held(now) * GIB_KB * 0.3)
                )
        for pid in self._pids - alive:
            shutil.rmtree(self._proc / str(pid), ignore_errors=True)
        self._pids = alive

    def _process(self, pid: int, name: str, parent: int, ticks: int, rss_kb: int) -> None:
        folder = self._proc / str(pid)
        if not folder.is_dir():
            folder.mkdir()
            (folder / "comm").write_text(name[:15] + "\n")
            (folder / "cmdline").write_bytes(name.encode() + b"\0")
            (folder / "cgroup").write_text("0::/\n")
        self._put(
            f"{folder}/stat",
            f"{pid} ({name[:15]}) S {parent} {pid} {pid} 0 -1 4194560 1 0 1 0 {ticks:10d} {ticks // 9:10d} 0 0 20 0 24 0 812 "
            f"{rss_kb * 2048} {rss_kb // 4:10d} 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0\n",
        )

    def _meminfo(self) -> str:
        m = self._machine
        available = int(m.available_gib() * GIB_KB)
        loading = any(load.disk > 0 for load in m.loads.values())
        free = min(available, int(0.7 * GIB_KB) if loading else int(available * 0.82))
        cached = max(available - free, 0) + 900_000
        shmem = sum(1 for load in m.loads.values() if load.goal > 1) * 620_000 + 41_000
        rows = {
            "MemTotal": MEM_TOTAL_KB, "MemFree": free, "MemAvailable": available, "Buffers": 210_000, "Cached": cached,
            "SwapCached": 0, "Active": cached // 2, "Inactive": cached // 2, "Dirty": 128, "Writeback": 0,
            "AnonPages": MEM_TOTAL_KB - available - 1_000_000, "Mapped": 410_000, "Shmem": shmem, "Slab": 620_000,
            "SReclaimable": 300_000, "SwapTotal": 16_777_212, "SwapFree": 16_777_212, "CmaTotal": 131_072,
            "CmaFree": 120_064, "HugePages_Total": 0, "Hugepagesize": 2048,
        }  # fmt: skip
        return "".join(
            f"{k + ':':<16}{max(v, 0):8d}{'' if k.startswith('HugePages') else ' kB'}\n" for k, v in rows.items()
        )

    def _stat(self) -> str:
        t = self._machine.totals
        busy, idle = int(t.cpu_busy), int(t.cpu_idle)
        lines = [f"cpu  {busy * 3 // 4:12d} 0 {busy // 4:12d} {idle:14d} 1200 0 300 0 0 0"]
        one = f"{busy * 3 // 4 // _CORES:12d} 0 {busy // 4 // _CORES:12d} {idle // _CORES:14d} 60 0 15 0 0 0"
        lines += [f"cpu{n} {one}" for n in range(_CORES)]
        lines += [f"btime {int(self._machine.up_since)}", "processes 812233", "procs_running 2", "procs_blocked 0"]
        return "\n".join(lines) + "\n"

    def _netdev(self) -> str:
        t = self._machine.totals
        rows = [
            ("lo", 91_000, 91_000), ("enP7s7", int(t.eth_rx), int(t.eth_tx)),
            *((netdev, int(t.rx * p), int(t.tx * p)) for p, (_, netdev) in zip((0.62, 0.38), HCAS, strict=True)),
        ]  # fmt: skip
        head = (
            "Inter-|   Receive                                                |  Transmit\n"
            " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
        )
        return head + "".join(
            f"{name:>14}: {rx:16d} {rx // 1400:12d}    0    0    0     0          0         0 {tx:16d} {tx // 1400:12d}"
            "    0    0    0     0       0          0\n"
            for name, rx, tx in rows
        )

    def _vmstat(self) -> str:
        m = self._machine
        free_pages = int(m.available_gib() * 0.5 * GIB_KB / 4)
        paged = int(m.totals.disk / 1024)
        return (
            f"nr_free_pages {free_pages:12d}\npgpgin {paged:14d}\npgpgout 81000\npswpin 0\npswpout 0\n"
            f"pgmajfault 9120\nallocstall_normal 0\noom_kill 0\n"
        )

    def _fixed(self) -> dict[str, str]:
        m = self._machine
        files = {
            "proc/version": "Linux version 6.17.0-1032-nvidia (buildd@bos03) (gcc 13.3.0) #32-Ubuntu SMP PREEMPT\n",
            "proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.17.0-1032-nvidia root=UUID=lab ro quiet\n",
            "proc/cpuinfo": "".join(
                f"processor\t: {n}\nBogoMIPS\t: 2000.00\nCPU part\t: 0xd85\n\n" for n in range(_CORES)
            ),
            "proc/mounts": f"/dev/nvme0n1p2 / ext4 rw,relatime 0 0\nnas:/hf {self._folder}/home/.cache/huggingface nfs4 rw,relatime,vers=4.2 0 0\n",
            "proc/sys/fs/nr_open": "1048576\n",
            "dev/kmsg": "",
            "sys/block/nvme0n1/size": "7814037168\n",
            "proc/filesystems": "nodev\tsysfs\nnodev\tproc\n\text4\nnodev\tnfs4\n",
            "proc/buddyinfo": "Node 0, zone   Normal   4211   3980   3511   2904   2110   1620   1204    910    702    530   8120\n",
            "proc/sys/kernel/random/boot_id": m.boot_id + "\n",
            "proc/sys/kernel/hostname": m.name + "\n",
            "proc/sys/kernel/osrelease": "6.17.0-1032-nvidia\n",
            "proc/sys/vm/min_free_kbytes": "67584\n",
            "proc/sys/vm/swappiness": "60\n",
            "proc/net/tcp6": _TCP_HEAD,
            "proc/net/udp": _TCP_HEAD,
            "proc/net/fib_trie": _fib_trie(m.fabric_address, f"192.168.99.{m.number % 250}"),
            "proc/net/route": _ROUTE_HEAD + _route("enp1s0f0np0", 10, 99) + _route("enP7s7", 192, 168),
            "proc/pressure/cpu": "some avg10=0.10 avg60=0.08 avg300=0.05 total=91000\n",
            "proc/pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total=88000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=70000\n",
            "sys/class/dmi/id/product_name": "NVIDIA DGX Spark\n",
            "sys/class/dmi/id/sys_vendor": "NVIDIA\n",
            "sys/class/thermal/thermal_zone0/type": "acpitz\n",
            "sys/class/thermal/thermal_zone0/temp": "43000\n",
        }
        for name, speed, mtu in (
            ("lo", "", 65536),
            ("enP7s7", "10000", 1500),
            ("enp1s0f0np0", "200000", 9000),
            ("enP2p1s0f0np0", "200000", 9000),
        ):
            base = f"sys/class/net/{name}"
            files[f"{base}/operstate"] = "unknown\n" if name == "lo" else "up\n"
            files[f"{base}/mtu"] = f"{mtu}\n"
            files[f"{base}/carrier"] = "1\n"
            files[f"{base}/flags"] = "0x9\n" if name == "lo" else "0x1003\n"
            files[f"{base}/type"] = "772\n" if name == "lo" else "1\n"
            files[f"{base}/address"] = f"4c:bb:47:00:{m.number % 256:02x}:{len(name):02x}\n"
            if speed:
                files[f"{base}/speed"] = speed + "\n"
        octets = [int(x) for x in m.fabric_address.split(".")]
        mapped = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}\n".format(*octets)
        for number, (hca, netdev) in enumerate(HCAS):
            port = f"sys/class/infiniband/{hca}/ports/1"
            files[f"{port}/state"] = "4: ACTIVE\n"
            files[f"{port}/phys_state"] = "5: LinkUp\n"
            files[f"{port}/rate"] = "200 Gb/sec (4X HDR)\n"
            files[f"{port}/link_layer"] = "Ethernet\n"
            for index, (kind, gid) in enumerate(
                (
                    ("IB/RoCE v1", "fe80:" + "0000:" * 6 + "0001\n"),
                    ("RoCE v2", "fe80:" + "0000:" * 6 + "0001\n"),
                    ("IB/RoCE v1", mapped),
                    ("RoCE v2", mapped),
                )
            ):
                files[f"{port}/gids/{index}"] = gid if index < 2 or number == 0 else gid.replace("0a63", "0a64")
                files[f"{port}/gid_attrs/types/{index}"] = kind + "\n"
                files[f"{port}/gid_attrs/ndevs/{index}"] = netdev + "\n"
            for counter in ("port_rcv_errors", "port_xmit_discards", "symbol_error", "link_downed"):
                files[f"{port}/counters/{counter}"] = "0\n"
        return files


_LIMITS: Final = (
    "Limit                     Soft Limit           Hard Limit           Units\n"
    "Max locked memory         unlimited            unlimited            bytes\n"
    "Max open files            1048576              1048576              files\n"
)
_TCP_HEAD: Final = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
_ROUTE_HEAD: Final = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def _hex_address(address: str) -> str:
    return "".join(f"{int(part):02X}" for part in reversed(address.split(".")))


def _tcp(listening: frozenset[tuple[str, int]]) -> str:
    rows = [
        f"{n:4d}: {_hex_address(address)}:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 {90_000 + n} 1 0000000000000000 100 0 0 10 0\n"
        for n, (address, port) in enumerate(sorted(listening))
    ]
    return _TCP_HEAD + "".join(rows)


def _route(name: str, a: int, b: int) -> str:
    return f"{name}\t0000{b:02X}{a:02X}\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"


def _fib_trie(*addresses: str) -> str:
    rows = "".join(f"           |-- {a}\n              /32 host LOCAL\n" for a in addresses)
    return f"Local:\n  +-- 0.0.0.0/0 3 0 5\n     +-- 127.0.0.0/8 2 0 2\n           |-- 127.0.0.1\n              /32 host LOCAL\n{rows}"
