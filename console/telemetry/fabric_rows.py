"""The fabric group of a frame: RDMA ports and their rates, and what the interfaces say of themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from console.base.absent import NOT_SAMPLED, Absent
from console.telemetry.pick import count, growth, number, rate, table, text, text_or, whole
from console.telemetry.sample import Int, NetRate, RdmaRate

_RATE: Final = re.compile(r"^(\d{1,5}(?:\.\d)?) Gb/sec")
_WORDS: Final = ("port_rcv_data", "port_xmit_data", "state", "rate")
# port_rcv_data and port_xmit_data count in units of four bytes (InfiniBand PortCounters; sysfs-class-infiniband).
_OCTETS: Final = 4


class Counters:
    """What is kept of one reading to compute the next one's rates; the same reading twice keeps its rates."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._ports: Mapping[str, Any] = {}
        self._rates: tuple[RdmaRate, ...] = ()

    def step(self, group: Mapping[str, Any], now: float, limit: float) -> tuple[RdmaRate, ...] | Absent:
        """Ports by name. now: the frame's time; a reading older than `limit` seconds is not shown as of now."""
        if not group:
            return NOT_SAMPLED
        if why := text(group.get("why")):
            return Absent(why)
        at = number(group.get("t"))
        if at is None or now - at > limit:
            return Absent("the fabric's counters did not answer")
        if at == self._at:
            return self._rates
        seconds = 0.0 if self._at is None else at - self._at
        ports = table(group, "ports")
        self._rates = tuple(
            _port(text(name, limit=64), table(ports, name), table(self._ports, name), seconds)
            for name in list(ports)[:64]
        )
        self._at, self._ports = at, ports
        return self._rates


def _port(name: str, now: Mapping[str, Any], before: Mapping[str, Any], seconds: float) -> RdmaRate:
    def speed(key: str) -> float | Absent:
        words = rate(whole(before.get(key)), _counter(now, key), seconds)
        return words if isinstance(words, Absent) else words * _OCTETS

    grown: dict[str, int] = {}
    totals: dict[str, int] = {}
    for key in list(now)[:64]:
        if key in _WORDS or isinstance(total := _counter(now, key), Absent):
            continue
        counter = text(key.rpartition("/")[2], limit=64)
        totals[counter] = total
        more = growth(whole(before.get(key)), total)
        if not isinstance(more, Absent) and more > 0:
            grown[counter] = more
    said = _RATE.match(text(now.get("rate")))
    return RdmaRate(
        name=name,
        rx_bytes_s=speed("port_rcv_data"),
        tx_bytes_s=speed("port_xmit_data"),
        state=text_or(text(now.get("state")).rpartition(": ")[2], "the driver does not say"),
        rate_gbit=float(said[1]) if said else Absent("the driver does not say"),
        errors=grown if before else Absent("a rate needs two samples"),
        error_totals=totals,
    )


def _counter(data: Mapping[str, Any], key: str) -> Int:
    value = count(data.get(key))
    return Absent("the driver does not say") if value is None else value


def with_links(net: tuple[NetRate, ...] | Absent, group: Mapping[str, Any]) -> tuple[NetRate, ...] | Absent:
    """Interfaces with their speed, MTU and state out of /sys; a speed of -1 means that the driver knows none."""
    if isinstance(net, Absent):
        return net
    links = table(group, "link")
    out = []
    for one in net:
        said = table(links, one.name)
        speed, mtu = whole(said.get("speed")), whole(said.get("mtu"))
        gone = Absent("the driver does not say")
        out.append(
            replace(
                one,
                speed_mbit=speed if speed is not None and speed > 0 else gone,
                mtu=mtu if mtu is not None and mtu > 0 else gone,
                operstate=text_or(said.get("operstate"), gone.reason),
            )
        )
    return tuple(out)
