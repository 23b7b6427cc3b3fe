"""One image on every node: who lacks it gets it from who has it, node to node; nothing half is called present."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.base.absent import NOT_SAMPLED, Absent
from console.base.clock import Clock
from console.base.errors import NightdeckError
from console.base.text import clean_line, decode
from console.base.units import size_text
from console.cluster.model import Cluster
from console.plan.preflight_images import ROOM_FACTOR
from console.services.image_chain import Hop, run_chain
from console.services.image_load import Load
from console.services.image_squeeze import load_argv, pays, save_argv
from console.services.images import Holding, Image, cli_of, inspect, look, reference_image, room, shared_layers
from console.transport.base import Fleet, TransportError

PASSES: Final = 4
TAG_S: Final = 30.0
# States of a node's result.
HAS, SAME, COPIED, TAGGED, FAILED, NO_ROOM, UNKNOWN = (
    "has_it", "same_content", "copied", "tagged", "failed", "no_room", "unknown",
)  # fmt: skip
GOOD: Final = frozenset({HAS, SAME, COPIED, TAGGED})


@dataclass(frozen=True, slots=True)
class NodeImage:
    """How a node stands. state: `has_it`, `same_content`, `copied`, `tagged`, `failed`, `no_room`, `unknown`; while the
    work goes on also `waiting`, `copying`, `verifying`. via: the node it came from, or `console`. left_s: Absent before
    the rate is known. total_bytes: 0 where it is not known how much comes (compressed, or less than all layers)."""

    node: str
    state: str
    detail: str = ""
    via: str = ""
    moved_bytes: int = 0
    total_bytes: int = 0
    rate: float = 0.0
    left_s: float | Absent = NOT_SAMPLED
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return self.state in GOOD


Told = Callable[[NodeImage], None]


def _quiet(_: NodeImage) -> None:
    return


async def sync_image(
    fleet: Fleet,
    cluster: Cluster,
    image: str,
    nodes: Sequence[str],
    *,
    clock: Clock,
    told: Told = _quiet,
    source: str | None = None,
    direct: bool = True,
) -> Mapping[str, NodeImage]:
    """The image on all of `nodes`: a result for each. Holders are looked for on every node of the cluster. source: this
    node's image counts where images differ. direct: False sends everything through the console.

    An engine unpacks an image after its last byte, so a copy that was cut off leaves no layer behind; nothing is kept
    in files of our own, which would need the image's room once more. What a node need not get again are the lowest
    layers that it has in images of any name, such as an earlier build: a docker that names layers by their content
    (since 25) sends an archive without them.

    Raises NightdeckError where no node has the image. Cancelling ends every copy on the nodes; what was copied whole
    stays."""
    work = Sync(fleet, cluster, image, nodes, clock=clock, told=told, direct=direct)
    return await work.run(source)


class Sync:
    """One run. `results` is true at every moment."""

    def __init__(
        self,
        fleet: Fleet,
        cluster: Cluster,
        image: str,
        nodes: Sequence[str],
        *,
        clock: Clock,
        told: Told = _quiet,
        direct: bool = True,
    ) -> None:
        self._fleet = fleet
        self._cluster = cluster
        self._image = image
        self._nodes = list(nodes)
        self._clock = clock
        self._told = told
        self._direct = direct
        self._began: dict[str, float] = {}
        self._no_route: set[str] = set()  # nodes that could not reach their link directly
        self._again: set[str] = set()  # nodes that failed by another's fault
        self._faults: dict[str, int] = {}  # how often a node broke off by itself
        self._bad: set[str] = set()  # holders that could not send in the last pass
        self._there: dict[str, int] = {}  # how many of the lowest layers a node has already
        self.results: dict[str, NodeImage] = {n: NodeImage(n, "waiting") for n in nodes}

    async def run(self, source: str | None = None) -> Mapping[str, NodeImage]:
        everyone = list(dict.fromkeys([*self._nodes, *(n.name for n in self._cluster.nodes)]))
        holding = await look(self._fleet, self._cluster, self._image, everyone)
        if source is not None and not isinstance(holding.get(source), Image):
            found = holding.get(source)
            why = found.reason if isinstance(found, Absent) else "it is not there"
            raise NightdeckError(f"{self._image} cannot come from {source}: {why}", where=source)
        chosen = reference_image(holding, source)
        if chosen is None:
            raise _nobody(self._image, holding)
        wanted, holders = chosen
        lacking = [n for n in self._nodes if not self._stands(n, holding[n], wanted)]
        lacking = await self._with_tag(lacking, wanted)
        lacking = await self._with_room(lacking, wanted)
        shared = await asyncio.gather(*(self._shared(n, wanted) for n in lacking))
        self._there = dict(zip(lacking, shared, strict=True))
        await self._copy(wanted, holders, lacking)
        return self.results

    def _stands(self, node: str, found: Image | Absent | None, wanted: Image) -> bool:
        """Settles a node that needs nothing or cannot be asked; False for one that needs the image."""
        if isinstance(found, Absent):
            self._settle(node, UNKNOWN, found.reason)
        elif isinstance(found, Image) and found.id == wanted.id:
            self._settle(node, HAS, found.id[:19])
        elif isinstance(found, Image) and found.same(wanted):
            self._settle(node, SAME, f"the same layers under {found.id[:19]}")
        else:
            return False
        return True

    async def _with_tag(self, nodes: list[str], wanted: Image) -> list[str]:
        """A node may have the image without the name: then a name is all that it lacks."""

        async def one(node: str) -> bool:
            cli = cli_of(self._cluster, node)
            link = self._fleet.link(node)
            if not isinstance(await inspect(link, cli, wanted.id), Image):
                return False
            try:
                done = await link.run([cli, "tag", wanted.id, self._image], timeout=TAG_S)
            except TransportError:
                return False
            if done.ok:
                self._settle(node, TAGGED, "it was there without the name")
            return done.ok

        named = await asyncio.gather(*(one(n) for n in nodes))
        return [n for n, done in zip(nodes, named, strict=True) if not done]

    async def _with_room(self, nodes: list[str], wanted: Image) -> list[str]:
        """Before the first byte. A node that does not say what is free is tried."""
        free = await asyncio.gather(*(room(self._fleet, self._cluster, n) for n in nodes))
        need = round(wanted.size * ROOM_FACTOR)
        left = []
        for node, have in zip(nodes, free, strict=True):
            if not isinstance(have, Absent) and have < need:
                text = f"{size_text(have)} free where images lie, {size_text(need)} needed"
                self._settle(node, NO_ROOM, text)
            else:
                left.append(node)
        return left

    async def _copy(self, wanted: Image, holders: list[str], lacking: list[str]) -> None:
        """Passes: chains from the holders; who got it is a holder of the next; what cannot be reached goes through the
        console."""
        sources = [h for h in holders if h not in lacking]
        for _ in range(PASSES):
            waiting = [n for n in lacking if not self.results[n].good]
            waiting = [n for n in waiting if self.results[n].state not in (NO_ROOM, UNKNOWN)]
            waiting = [n for n in waiting if self.results[n].state != FAILED or n in self._again]
            if not waiting or not sources:
                break
            direct = [n for n in waiting if self._direct and n not in self._no_route and self._address(n)]
            direct.sort(key=lambda n: self._faults.get(n, 0))  # one that broke off goes where it breaks nothing
            reach = [s for s in sources if self._address(s) and s not in self._no_route]
            if direct and reach:
                await self._pass_direct(wanted, reach, direct)
            else:
                await self._pass_console(wanted, sources, waiting)
            sources += [n for n in waiting if self.results[n].good]
            self._put_last(sources)
        for node in lacking:
            if self.results[node].state in ("waiting", "copying", "verifying"):
                self._settle(node, FAILED, "no node that has the image could send it")

    def _put_last(self, sources: list[str]) -> None:
        """A holder that could not send goes to the end of the queue."""
        for node in [s for s in sources if s in self._bad]:
            sources.remove(node)
            sources.append(node)
        self._bad.clear()

    async def _pass_direct(self, wanted: Image, sources: Sequence[str], nodes: Sequence[str]) -> None:
        """The nodes shared out among the holders, a chain for each."""
        count = min(len(sources), len(nodes))
        chains: list[list[Hop]] = [[self._hop(source, "save")] for source in sources[:count]]
        for at, node in enumerate(nodes):
            chains[at % count].append(self._hop(node, "load"))
        for chain in chains:
            there = min(self._there.get(hop.node, 0) for hop in chain[1:])
            chain[0].skip = [layer.removeprefix("sha256:") for layer in wanted.layers[:there]]
            for hop in chain[1:]:
                self._begin(hop.node, 0 if there else wanted.size, chain[0].node)
        await asyncio.gather(*(run_chain(self._fleet, chain, self._moved()) for chain in chains))
        self._again.clear()
        await asyncio.gather(*(self._judge(wanted, chain) for chain in chains))

    async def _judge(self, wanted: Image, chain: Sequence[Hop]) -> None:
        """The engine's own word on every node of a chain; what failed by no fault of the node's is tried again."""
        first = chain[0]
        if first.failed and first.where in ("save", "start", "connect", "link"):
            self._bad.add(first.node)
            if first.where == "connect":
                self._no_route.update(hop.node for hop in chain)
        whole = [hop.node for hop in chain[1:] if hop.done]
        await asyncio.gather(*(self._verify(wanted, node, first.node, skipped=first.left_out) for node in whole))
        for hop in chain[1:]:
            if hop.done:
                continue
            if hop.where == "connect":
                self._no_route.add(hop.node)
            if hop.where in ("link", "start"):
                self._faults[hop.node] = self._faults.get(hop.node, 0) + 1
            if hop.where == "load" and first.left_out:
                self._whole_again(hop.node, hop.failed, first.node)
            elif hop.where == "load" or self._faults.get(hop.node, 0) > 1:
                self._settle(hop.node, FAILED, hop.failed, via=first.node)
            else:
                self._again.add(hop.node)
                self._settle(hop.node, FAILED, self._why(chain, hop), via=first.node)

    @staticmethod
    def _why(chain: Sequence[Hop], hop: Hop) -> str:
        """The first thing that broke on the way is why the rest got nothing."""
        for earlier in chain[: chain.index(hop)]:
            if earlier.failed and earlier.where != "load":
                return f"{hop.failed} ({earlier.node}: {earlier.failed})"
        return hop.failed

    async def _pass_console(self, wanted: Image, sources: Sequence[str], nodes: Sequence[str]) -> None:
        """One `save` read here, written to all of them as fast as the slowest takes it; nothing is held on disk.
        Compressed where the console's way is slower than compressing: between nodes it never is."""
        source = sources[0]
        squeezed, _ = await pays(self._fleet, source, nodes)
        argv = {n: load_argv(cli_of(self._cluster, n), squeezed=squeezed) for n in nodes}
        loads = {n: Load(self._fleet, argv[n], n) for n in nodes}
        for node in nodes:
            self._begin(node, 0 if squeezed else wanted.size, "console")
        moved = self._moved()
        self._again.clear()
        why = ""
        try:
            await asyncio.gather(*(load.open() for load in loads.values()))
            save = save_argv(cli_of(self._cluster, source), self._image, squeezed=squeezed)
            async with self._fleet.link(source).stream(save) as stream:
                async for block in stream.blocks():
                    await asyncio.gather(*(load.send(block) for load in loads.values()))
                    for load in loads.values():
                        moved(load.hop)
                result = stream.result()
            if result is None or not result.ok:
                said = decode(result.stderr if result else b"")[-300:]
                why = clean_line(said, limit=300) or "docker save ended early"
            else:
                await asyncio.gather(*(load.finish() for load in loads.values()))
        except TransportError as error:
            why = error.what
        finally:
            await asyncio.gather(*(load.close() for load in loads.values()))
        if why:
            self._bad.add(source)
        for node, load in loads.items():
            if why or not load.hop.done:
                if why:
                    self._again.add(node)
                self._settle(node, FAILED, load.hop.failed or f"{source}: {why}", via="console")
            else:
                await self._verify(wanted, node, "console")

    def _whole_again(self, node: str, why: str, via: str) -> None:
        """An engine that would not take an archive without the layers that it has: all of it, in the next pass."""
        self._there[node] = 0
        self._again.add(node)
        self._settle(node, FAILED, why, via=via)

    async def _shared(self, node: str, wanted: Image) -> int:
        return await shared_layers(self._fleet.link(node), cli_of(self._cluster, node), wanted) if self._direct else 0

    async def _verify(self, wanted: Image, node: str, via: str, *, skipped: int = 0) -> None:
        self._settle(node, "verifying", via=via)
        found = await inspect(self._fleet.link(node), cli_of(self._cluster, node), self._image)
        if isinstance(found, Image) and found.same(wanted):
            parts = f", {skipped} of {len(wanted.layers)} layers were there" if skipped else ""
            self._settle(node, COPIED, found.id[:19] + parts, via=via)
        elif skipped:
            self._whole_again(node, "without the layers that it has, the engine did not come to this image", via)
        elif isinstance(found, Image):
            self._settle(node, FAILED, f"another image came: {found.id[:19]}", via=via)
        else:
            why = found.reason if isinstance(found, Absent) else "the engine took it and does not have it"
            self._settle(node, FAILED, why, via=via)

    # -- small things -------------------------------------------------------------------------------------------

    def _hop(self, node: str, verb: str) -> Hop:
        cli = cli_of(self._cluster, node)
        argv = [cli, "save", self._image] if verb == "save" else [cli, "load"]
        return Hop(node, self._address(node) or "", argv)

    def _address(self, node: str) -> str | None:
        found = self._cluster.node(node)
        return found.fabric_address if found is not None else None

    def _begin(self, node: str, total: int, via: str) -> None:
        """total: 0 where less travels than the image's size, and how much is not known."""
        self._began[node] = self._clock.monotonic()
        self._put(NodeImage(node, "copying", via=via, total_bytes=total))

    def _moved(self) -> Callable[[Hop], None]:
        def moved(hop: Hop) -> None:
            began = self._began.get(hop.node)
            if began is None or self.results[hop.node].state != "copying":
                return
            took = max(1e-6, self._clock.monotonic() - began)
            rate = hop.moved / took
            via, total = self.results[hop.node].via, self.results[hop.node].total_bytes
            left: float | Absent = Absent("not known how much comes") if not total else Absent("nothing came yet")
            if total and rate > 0:
                left = max(0.0, (total - hop.moved) / rate)
            self._put(NodeImage(hop.node, "copying", "", via, hop.moved, total, rate, left, took))

        return moved

    def _settle(self, node: str, state: str, detail: str = "", *, via: str = "") -> None:
        before = self.results[node]
        took = self._clock.monotonic() - self._began[node] if node in self._began else 0.0
        self._put(
            NodeImage(node, state, detail, via, before.moved_bytes, before.total_bytes, before.rate, seconds=took)
        )

    def _put(self, row: NodeImage) -> None:
        self.results[row.node] = row
        self._told(row)


def _nobody(image: str, holding: Holding) -> NightdeckError:
    silent = [f"{n}: {found.reason}" for n, found in holding.items() if isinstance(found, Absent)]
    more = f"; not every node could be asked: {'; '.join(silent)}" if silent else ""
    local = image.endswith(":local")
    remedy = "" if local else f"fetch it on one node (`docker pull {image}`), and sync again; or "
    return NightdeckError(
        f"no node has the image {image}{more}", remedy=f"{remedy}build it with `nightdeck image build`"
    )
