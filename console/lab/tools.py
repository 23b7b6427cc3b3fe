"""What a lab node answers besides docker: nvidia-smi, ip, hostname, uname, ping, sudo."""
# ruff: noqa: E501 lines of output are kept whole, as they are printed

from __future__ import annotations

import json
import re
from typing import Final

from console.lab.clock import LabClock
from console.lab.gpu_tool import nvidia_smi
from console.lab.machine import Machine
from console.lab.shim import Call

NAMES: Final = (
    "docker",
    "nvidia-smi",
    "ip",
    "hostname",
    "uname",
    "ping",
    "sudo",
    "ibdev2netdev",
    "nproc",
    "id",
    "whoami",
)


class Tools:
    """The small commands of one node. peers: who answers a ping, by name or fabric address."""

    def __init__(self, machine: Machine, clock: LabClock, peers: dict[str, Machine]) -> None:
        self._m = machine
        self._clock = clock
        self._peers = peers

    async def __call__(self, call: Call) -> int:
        if call.name == "nvidia-smi":
            return await nvidia_smi(call, self._m, self._clock)
        if call.name == "hostname":
            address = "-I" in call.args or "-i" in call.args
            await call.out(
                (f"{self._m.fabric_address} 192.168.99.{self._m.number % 250} " if address else self._m.name) + "\n"
            )
            return 0
        if call.name == "nproc":
            await call.out("20\n")
            return 0
        if call.name == "uname":
            return await self._uname(call)
        if call.name in ("id", "whoami"):
            words = "".join(call.args)
            plain = call.name == "whoami" or "n" in words
            text = (
                "operator"
                if plain
                else "1000"
                if words
                else "uid=1000(operator) gid=1000(operator) groups=1000(operator),988(docker)"
            )
            await call.out(text + "\n")
            return 0
        if call.name == "ip":
            return await self._ip(call)
        if call.name == "ping":
            return await self._ping(call)
        if call.name == "sudo":
            await call.err("sudo: a password is required\n")
            return 1
        if call.name == "ibdev2netdev":
            await call.out("rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)\nroceP2p1s0f0 port 1 ==> enP2p1s0f0np0 (Up)\n")
            return 0
        await call.err(f"sh: 1: {call.name}: not found\n")
        return 127

    async def _uname(self, call: Call) -> int:
        known = {
            "s": "Linux",
            "n": self._m.name,
            "r": "6.17.0-1032-nvidia",
            "v": "#32-Ubuntu SMP PREEMPT",
            "m": "aarch64",
        }
        letters = "".join(a.lstrip("-") for a in call.args) or "s"
        if "a" in letters:
            letters = "snrvm"
        await call.out(" ".join(known[c] for c in "snrvm" if c in letters) + "\n")
        return 0

    def _links(self) -> list[dict[str, object]]:
        m = self._m
        second = m.fabric_address.replace("10.99.", "10.100.")
        rows = (
            (1, "lo", "127.0.0.1", 8, 65536), (2, "enP7s7", f"192.168.99.{m.number % 250}", 24, 1500),
            (3, "enp1s0f0np0", m.fabric_address, 16, 9000), (4, "enP2p1s0f0np0", second, 16, 9000),
        )  # fmt: skip
        return [
            {
                "ifindex": i, "ifname": name, "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"], "mtu": mtu,
                "operstate": "UNKNOWN" if name == "lo" else "UP",
                "addr_info": [{"family": "inet", "local": address, "prefixlen": prefix, "scope": "global", "label": name}],
            }
            for i, name, address, prefix, mtu in rows
        ]  # fmt: skip

    async def _ip(self, call: Call) -> int:
        words = [a for a in call.args if not a.startswith("-")]
        flags = {a for a in call.args if a.startswith("-")}
        links = [
            x
            for x in self._links()
            if not (set(words[1:]) & {str(y["ifname"]) for y in self._links()}) or x["ifname"] in words
        ]
        if words and "address".startswith(words[0]) and len(words[0]) >= 1 and words[0][0] == "a":
            if flags & {"-j", "-json", "--json"}:
                await call.out(json.dumps(links) + "\n")
                return 0
            for x in links:
                info = x["addr_info"]
                assert isinstance(info, list)
                address = f"{info[0]['local']}/{info[0]['prefixlen']}"
                if flags & {"-o", "-oneline"}:
                    await call.out(f"{x['ifindex']}: {x['ifname']}    inet {address} scope global {x['ifname']}\n")
                elif flags & {"-br", "-brief"}:
                    await call.out(f"{x['ifname']!s:<16} {x['operstate']!s:<14} {address}\n")
                else:
                    await call.out(
                        f"{x['ifindex']}: {x['ifname']}: <UP,LOWER_UP> mtu {x['mtu']} state {x['operstate']}\n    inet {address} scope global {x['ifname']}\n"
                    )
            return 0
        if words and words[0][0] == "r":
            await call.out(
                "10.99.0.0/16 dev enp1s0f0np0 proto kernel scope link\ndefault via 192.168.99.254 dev enP7s7\n"
            )
            return 0
        await call.out(json.dumps(links) + "\n")
        return 0

    async def _ping(self, call: Call) -> int:
        names = [a for a in call.args if re.fullmatch(r"[a-z0-9.\-]+", a) and not a.isdigit() and not a.startswith("-")]
        target = names[-1] if names else ""
        peer = self._peers.get(target)
        if peer is None:
            await self._clock.sleep(1)
            await call.out(
                f"PING {target} 56(84) bytes of data.\n\n1 packets transmitted, 0 received, 100% packet loss\n"
            )
            return 1
        await call.out(
            f"PING {target} ({peer.fabric_address}) 56(84) bytes of data.\n64 bytes from {peer.fabric_address}: icmp_seq=1 ttl=64 "
            f"time=0.062 ms\n\n1 packets transmitted, 1 received, 0% packet loss, time 0ms\n"
        )
        return 0
