"""Which network the ranks should talk over: chosen from facts, with the reason in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from console.base.absent import known
from console.cluster.facts import Hca, Interface, NodeFacts

_VIRTUAL: Final = re.compile(r"^(?:lo|docker|br-|veth|virbr|cni|podman|flannel|cali|tun|tap|wg|tailscale|zt|ifb)")
# A ConnectX-7 port of a DGX Spark shows as two functions: enp1s0f0np0 and, in the other PCIe domain, enP2p1s0f0np0.
_DOMAIN: Final = re.compile(r"^en(?:P[0-9a-fA-F]+)?(?=p\d)")


@dataclass(frozen=True, slots=True)
class Place:
    """One node's place on a network."""

    address: str
    interface: Interface
    hcas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A network that every node has. speed_mbit: of the slowest link, 0 where no driver says it. control: the console's
    SSH goes over it."""

    network: str
    places: Mapping[str, Place]
    rdma: bool
    speed_mbit: int
    control: bool

    def why(self) -> str:
        parts = []
        if self.rdma:
            parts.append("RDMA on every node")
        if self.speed_mbit:
            parts.append(f"{self.speed_mbit / 1000:g} Gbit/s")
        parts.append("also carries the console's SSH" if self.control else "apart from the console's SSH")
        return ", ".join(parts)


def choices(facts: Mapping[str, NodeFacts]) -> list[Choice]:
    """Networks that every one of these nodes is on, the best first: RDMA, then speed, then not the one SSH uses."""
    places = {name: dict(_places(fact)) for name, fact in facts.items()}
    if not places:
        return []
    shared = set.intersection(*(set(p) for p in places.values()))
    found = []
    for network in shared:
        here = {name: p[network] for name, p in places.items()}
        speeds = [p.interface.speed_mbit for p in here.values()]
        found.append(
            Choice(
                network=network,
                places=here,
                rdma=all(p.hcas for p in here.values()),
                speed_mbit=min((s for s in speeds if known(s)), default=0) if all(map(known, speeds)) else 0,
                control=any(facts[n].control_address == p.address for n, p in here.items()),
            )
        )
    return sorted(found, key=lambda c: (not c.rdma, -c.speed_mbit, c.control, _order(c)))


def _order(choice: Choice) -> tuple[str, str]:
    """Between equals the port of the first PCIe domain comes first (enp1s0f0np0 before enP2p1s0f0np0), as every public
    eight-node run has it."""
    first = min((p.interface.name for p in choice.places.values()), default="")
    return first.swapcase(), choice.network


def _places(fact: NodeFacts) -> Iterator[tuple[str, Place]]:
    if not known(fact.interfaces):
        return
    for interface in fact.interfaces:
        if not interface.up or _VIRTUAL.match(interface.name):
            continue
        for address, network in zip(interface.addresses, interface.networks, strict=False):
            if not network.startswith(("127.", "169.254.")) and not network.endswith("/32"):
                yield network, Place(address, interface, hcas_of(fact, interface.name))


def hcas_of(fact: NodeFacts, interface: str) -> tuple[str, ...]:
    """Active RDMA ports of an interface, then those of its twin, which need an address of their own: RoCE v2 over IPv4
    has no GID without."""
    if not known(fact.hcas):
        return ()
    own = [h.name for h in fact.hcas if is_active(h) and h.interface == interface]
    twins = [h.name for h in fact.hcas if is_active(h) and is_twin(h, interface) and known(h.gid_index_rocev2)]
    return (*own, *twins) if own else ()


def bare_twin(fact: NodeFacts, interface: str) -> Hca | None:
    """An active twin port that has no IPv4 address: half of the port's PCIe width stays unused."""
    if not known(fact.hcas):
        return None
    return next(
        (h for h in fact.hcas if is_active(h) and is_twin(h, interface) and not known(h.gid_index_rocev2)), None
    )


def is_active(hca: Hca) -> bool:
    return known(hca.state) and hca.state.upper() == "ACTIVE"


def is_twin(hca: Hca, interface: str) -> bool:
    """[inferred from the names that DGX Sparks show] the same port seen in another PCIe domain."""
    if not known(hca.interface) or hca.interface == interface:
        return False
    return _DOMAIN.match(interface) is not None and _bare(hca.interface) == _bare(interface)


def _bare(interface: str) -> str:
    return _DOMAIN.sub("en", interface)
