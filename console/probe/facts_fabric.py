"""Runs on a node: its network interfaces and RDMA ports."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
from typing import TYPE_CHECKING

from console.probe.facts_ground import SYS, Facts, Missing, checked, number, word

if TYPE_CHECKING:
    from typing import Any

SIOCGIFADDR = 0x8915  # linux/sockios.h


def gather_interfaces(facts: Facts) -> None:
    try:
        found = from_ip(checked(["ip", "-j", "addr"], facts.limit_s))
    except (Missing, OSError, ValueError, KeyError, TypeError):
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
        networks = [network(a["local"], int(a["prefixlen"])) for a in inet]
        flags = item.get("flags", [])
        up = item.get("operstate") == "UP" or ("LOWER_UP" in flags and "UP" in flags)
        found.append(
            {"name": item["ifname"], "addresses": addresses, "networks": networks, "up": up, "mtu": item.get("mtu")}
        )
    return found


def network(address: str, length: int) -> str:
    """`10.0.0.0/24` of an address in it."""
    mask = 0xFFFFFFFF << (32 - length) & 0xFFFFFFFF
    (number_,) = struct.unpack("!I", socket.inet_aton(address))
    return "{}/{}".format(socket.inet_ntoa(struct.pack("!I", number_ & mask)), length)


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
