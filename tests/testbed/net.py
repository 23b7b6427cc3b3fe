"""The bed's network: one bridge, a link and a network namespace for each host, and faults on them."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from dataclasses import dataclass

from tests.testbed.needs import tool

INTERFACE = "eth0"
NETWORKS = ipaddress.ip_network("10.78.0.0/16")


class BedError(RuntimeError):
    """A command of the bed failed; the text holds the command and what it said."""


def run(*argv: str, text: str | None = None, check: bool = True) -> str:
    """Run a command of the bed's own on this machine and return its output."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise BedError(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
    return done.stdout


def free_network() -> ipaddress.IPv4Network:
    """The first /24 of 10.78.0.0/16 that no interface and no route of this machine touches."""
    taken = [
        ipaddress.ip_network(route["dst"], strict=False)
        for route in json.loads(run("ip", "-json", "-4", "route", "show", "table", "all") or "[]")
        if "." in route["dst"]
    ]
    for network in NETWORKS.subnets(new_prefix=24):
        if isinstance(network, ipaddress.IPv4Network) and not any(network.overlaps(other) for other in taken):
            return network
    raise BedError("no free /24 left in 10.78.0.0/16: beds of earlier runs hold them all")


@dataclass(frozen=True, slots=True)
class Link:
    """One host's cable. Names stay under Linux' limit of 15 characters: token of 5, index below 1000."""

    token: str
    index: int
    address: str
    bridge: str

    @property
    def veth(self) -> str:
        return f"nd{self.token}v{self.index}"

    @property
    def netns(self) -> str:
        return f"nd{self.token}n{self.index}"

    def up(self) -> None:
        run("ip", "netns", "add", self.netns)
        script = f"""
link add {self.veth} type veth peer name {INTERFACE} netns {self.netns}
link set {self.veth} master {self.bridge} up
"""
        run("ip", "-batch", "-", text=script)
        script = f"link set lo up\naddr add {self.address}/24 dev {INTERFACE}\nlink set {INTERFACE} up\n"
        run("ip", "-n", self.netns, "-batch", "-", text=script)

    def down(self) -> None:
        run("ip", "link", "del", self.veth, check=False)
        run("ip", "netns", "del", self.netns, check=False)

    def cut(self) -> None:
        """Pull the cable: packets vanish, nothing is refused."""
        run("ip", "link", "set", self.veth, "down")

    def heal(self) -> None:
        run("ip", "link", "set", self.veth, "up")

    def loss(self, percent: int) -> None:
        """Drop this share of packets, each way, at random; 0 ends it. By nftables: netem is missing in some kernels."""
        if percent == 0 and tool("nft") is None:
            return  # then nothing was ever dropped
        chance = "" if percent >= 100 else f"numgen random mod 100 < {percent} "
        text = "add table inet ndfault\ndelete table inet ndfault\n"
        if percent:
            text += f"""table inet ndfault {{
  chain i {{ type filter hook input priority -300; iifname "{INTERFACE}" {chance}drop; }}
  chain o {{ type filter hook output priority -300; oifname "{INTERFACE}" {chance}drop; }}
}}
"""
        run("ip", "netns", "exec", self.netns, "nft", "-f", "-", text=text)

    def rate(self, kbit: int | None) -> None:
        """Limit what the host sends to `kbit` kbit/s; None ends it."""
        where = ("ip", "netns", "exec", self.netns, "tc", "qdisc")
        if kbit is None:
            run(*where, "del", "dev", INTERFACE, "root", check=False)
            return
        shape = ("tbf", "rate", f"{kbit}kbit", "burst", "32kbit", "latency", "2s")
        run(*where, "replace", "dev", INTERFACE, "root", *shape)
