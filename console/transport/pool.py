"""All links of a cluster: each its own, opened without waiting for one another."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from console.base.clock import Clock
from console.base.errors import UsageError
from console.base.imports import without_compiler
from console.cluster.model import Cluster
from console.transport.base import Fleet, Link
from console.transport.local import LocalLink
from console.transport.turns import Turnstile

if TYPE_CHECKING:
    from console.transport.ssh_config import Hop

# sshd begins to drop unauthenticated connections at 10 (MaxStartups 10:30:100).
CONNECTS_PER_HOST: Final = 8
CLOSE_LIMIT_S: Final = 4.0


class LinkFleet:
    """`Fleet` over links made once, closed together."""

    def __init__(self, links: dict[str, Link]) -> None:
        self._links = links

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._links)

    def link(self, node: str) -> Link:
        """The link of a node. Raises UsageError for a name that the cluster does not have."""
        try:
            return self._links[node]
        except KeyError:
            raise UsageError(
                f"no node is called {node!r}", remedy=f"the cluster has: {', '.join(self._links)}"
            ) from None

    async def close(self) -> None:
        """Close all at once, within 4 s; a link that does not close in time is left to the process's end."""
        closing = [asyncio.create_task(link.close(), name=f"close {link.node}") for link in self._links.values()]
        if closing:
            _, late = await asyncio.wait(closing, timeout=CLOSE_LIMIT_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*closing, return_exceptions=True)


class ConnectGate:
    """Limits how many connections are being opened to one address: a jump host serves many nodes."""

    def __init__(self, per_host: int = CONNECTS_PER_HOST) -> None:
        self._per_host = per_host
        self._by_address: dict[str, asyncio.Semaphore] = {}

    def __call__(self, hop: Hop) -> AbstractAsyncContextManager[Any]:
        return self._by_address.setdefault(hop.address, asyncio.Semaphore(self._per_host))


def make_fleet(cluster: Cluster, clock: Clock) -> Fleet:
    """Links to all nodes of a cluster; nothing is opened yet. `local` nodes need no SSH."""
    links: dict[str, Link] = {n.name: LocalLink(n) for n in cluster.nodes if n.is_local}
    distant = [n for n in cluster.nodes if not n.is_local]
    if distant:
        with without_compiler():  # only here: a command that needs no node does not wait for the library
            from console.transport.ssh import SshLink
        gate, turns = ConnectGate(), Turnstile()
        links |= {
            n.name: SshLink(n, clock=clock, ssh_config=cluster.ssh_config, gate=gate, turns=turns) for n in distant
        }
    return LinkFleet({n.name: links[n.name] for n in cluster.nodes})
