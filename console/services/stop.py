"""Stopping a deployment: head first, then the workers at once, and nothing is called stopped that was not asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from console.base.absent import Absent
from console.base.clock import Clock
from console.base.text import clean_bytes
from console.boot.events import Event, StepChanged, StopEnded, StopSeen, StopStarted
from console.boot.state import STOP_AGAIN, STOP_ASK, STOP_HEAD, STOP_REMOVE, STOP_SAVE, STOP_WORKERS
from console.boot.words import KEPT, UNSAVED
from console.cluster.model import Cluster
from console.services.census import Census, Found, Quick, found_in, read_census, take_census
from console.services.scripts import purge_argv, remove_argv, stop_argv
from console.transport.base import Fleet, TransportError

ASK_TIMEOUT_S = 15.0
ASK_AGAIN_S = 5.0
REMOVE_TIMEOUT_S = 30.0
KILL_MARGIN_S = 20.0  # after the grace the engine kills, and removing takes its own time on a busy node

# Saves what containers hold; of those that could not be saved, by id, why.
Collect = Callable[[Sequence[Found]], Awaitable[Mapping[str, str]]]


class Stop:
    """One stop of one deployment (None: of everything of ours). collect: saves what the containers still hold, called
    after they ended and before they are removed; one that could not be saved is kept, unless `discard_logs`. quick:
    what a node's probe says is there, which spares a process.

    left: what of ours was last seen on each node, of this deployment and of others."""

    def __init__(
        self,
        fleet: Fleet,
        cluster: Cluster,
        clock: Clock,
        emit: Callable[[Event], None],
        *,
        deployment: str | None,
        grace_s: float = 30.0,
        collect: Collect | None = None,
        by: str = "",
        quick: Quick | None = None,
        sees: Callable[[str], bool] = lambda _node: False,
        discard_logs: bool = False,
    ) -> None:
        self._fleet = fleet
        self._cluster = cluster
        self._clock = clock
        self._emit = emit
        self._deployment = deployment
        self._grace_s = grace_s
        self._collect = collect
        self._by = by
        self._quick = quick
        self._sees = sees
        self._discard_logs = discard_logs
        self._kept: dict[str, str] = {}
        self.left: dict[str, tuple[Found, ...] | Absent] = {}
        self.results: dict[str, tuple[str, str]] = {}
        self.found: list[Found] = []
        self._begun = self._over = False
        self._head_over = asyncio.Event()

    def begin(self) -> None:
        """Tell that the stop begins, and that every node is asked now. `run` does it where nobody did before."""
        if self._begun:
            return
        self._begun = True
        self._emit(StopStarted(self._clock.wall(), self._by))
        self._step(STOP_ASK, [n.name for n in self._cluster.nodes], ASK_TIMEOUT_S)

    async def run(
        self, before: Census | None = None, late: Awaitable[Census] | None = None
    ) -> Mapping[str, tuple[str, str]]:
        """node -> (`stopped`, `still_running`, `unknown` or `nothing`, detail), for every node of the cluster.

        late: the census of the nodes that `before` leaves out, because they were silent already: nobody waits for them
        but themselves. Cut off, it still ends in words: whoever did not answer is unknown."""
        self.begin()
        try:
            census = before if before is not None else await take_census(self._fleet, self._cluster, quick=self._quick)
            dark = asyncio.ensure_future(self._stop_late(late)) if late is not None else None
            try:
                await self._stop_found(census)
                if dark is not None:
                    await dark
            finally:
                if dark is not None and not dark.done():
                    dark.cancel()
                    await asyncio.gather(dark, return_exceptions=True)
        except BaseException:
            self.cut_off()
            raise
        self.results = {n.name: self.results[n.name] for n in self._cluster.nodes if n.name in self.results}
        self._over = True
        self._emit(StopEnded(self._clock.wall(), self.outcome))
        return self.results

    def cut_off(self) -> None:
        """Tell that a stop that began does not go on: whoever did not answer is unknown."""
        if self._over or not self._begun:
            return
        self._over = True
        for node in self._cluster.nodes:
            if node.name not in self.results:
                self._result(node.name, "unknown", "the stop was cut off before its answer")
        self._emit(StopEnded(self._clock.wall(), self.outcome))

    async def _stop_found(self, census: Census) -> None:
        silent, found = self._read(census)
        self.found += found
        await self._end(STOP_HEAD, [f for f in found if f.rank == 0])
        self._head_over.set()
        await self._end(STOP_WORKERS, [f for f in found if f.rank != 0])
        await self._save(found)
        await asyncio.gather(*(self._remove(node, rows) for node, rows in _by_node(found).items()))
        await self._again(silent)

    async def _stop_late(self, late: Awaitable[Census]) -> None:
        """Nodes that were silent when the stop began: once they answer, they are stopped as the others were."""
        _, found = self._read(await late)
        await self._head_over.wait()
        await self._stop_workers(found)

    async def _stop_workers(self, found: Sequence[Found]) -> None:
        await self._end(STOP_WORKERS, found)
        await self._save(found)
        self.found += found
        await asyncio.gather(*(self._remove(node, rows) for node, rows in _by_node(found).items()))

    def _read(self, census: Census) -> tuple[list[str], list[Found]]:
        """Which nodes did not answer, and what of ours is on the others."""
        silent: list[str] = []
        found: list[Found] = []
        for node, rows in census.items():
            self.left[node] = rows
            if isinstance(rows, Absent):
                silent.append(node)
                self._result(node, "unknown", rows.reason)
                continue
            ours = [f for f in rows if self._deployment is None or f.deployment == self._deployment]
            found += ours
            if not ours:
                self._result(node, "nothing", "")
        return silent, found

    @property
    def outcome(self) -> str:
        """`stopped`: every node was asked, nothing is left. `nothing`: there was nothing. Else `partly` or `failed`."""
        states = [state for state, _ in self.results.values()]
        if all(s == "nothing" for s in states):
            return "nothing"
        if all(s in ("stopped", "nothing") for s in states):
            return "stopped"
        return "partly" if "stopped" in states else "failed"

    async def _end(self, step: str, rows: Sequence[Found]) -> None:
        living = _by_node([f for f in rows if f.alive])
        self._step(step, living, self._grace_s + KILL_MARGIN_S)
        await asyncio.gather(*(self._end_on(step, node, found) for node, found in living.items()))

    async def _end_on(self, step: str, node: str, rows: Sequence[Found]) -> None:
        argv = stop_argv(self._cli(node), self._grace_s, [f.id for f in rows])
        try:
            done = await self._fleet.link(node).run(argv, timeout=self._grace_s + KILL_MARGIN_S)
        except TransportError as error:
            self._emit(StepChanged(self._clock.wall(), step, node, "unknown", error.what))
            return
        detail = "" if done.ok else clean_bytes(done.stderr, limit=300)
        self._emit(StepChanged(self._clock.wall(), step, node, "done" if done.ok else "failed", detail))

    async def _save(self, rows: Sequence[Found]) -> None:
        if self._collect is None or not rows:
            return
        self._step(STOP_SAVE, _by_node(rows))
        unsaved = await self._collect(rows)
        if not self._discard_logs:
            self._kept |= unsaved

    async def _remove(self, node: str, rows: Sequence[Found]) -> None:
        ids = [f.id for f in rows if f.id not in self._kept]
        self._step(STOP_REMOVE, [node], REMOVE_TIMEOUT_S)
        try:
            left, said = await self._purge(node, ids)
        except TransportError as error:
            self.left[node] = Absent(error.what)
            self._result(node, "unknown", error.what)
            return
        self.left[node] = left
        if isinstance(left, Absent):
            self._result(node, "unknown", left.reason)
            return
        ours = [f for f in left if self._deployment is None or f.deployment == self._deployment]
        alive = ", ".join(f"{f.name} ({f.status})" for f in ours if f.alive)
        if alive:
            self._result(node, "still_running", f"{alive}{': ' + said if said else ''}")
        elif kept := [f for f in ours if f.id in self._kept]:
            why = "; ".join(dict.fromkeys(self._kept[f.id] for f in kept))
            self._result(node, "stopped", f"{KEPT}{_names(kept)}{UNSAVED}{why}")
        elif ours:
            self._result(node, "stopped", f"not removed: {_names(ours)}")
        else:
            self._result(node, "stopped", "")

    async def _purge(self, node: str, ids: Sequence[str]) -> tuple[tuple[Found, ...] | Absent, str]:
        """Remove containers; what of ours is left then by the engine's own word, and what removing them said."""
        link, cli = self._fleet.link(node), self._cli(node)
        if not ids:
            census = await take_census(self._fleet, self._cluster, nodes=[node], timeout=REMOVE_TIMEOUT_S)
            return census[node], ""
        if self._quick is not None and self._sees(node):
            done = await link.run(purge_argv(cli, ids), timeout=REMOVE_TIMEOUT_S)
            rows = await self._quick(node)
            if rows is not None:
                return found_in(node, rows), _last_line(done.stderr)
        done = await link.run(remove_argv(cli, ids), timeout=REMOVE_TIMEOUT_S, limit=32 << 20)
        return read_census(node, done), _last_line(done.stderr)

    async def _again(self, silent: Sequence[str]) -> None:
        """A node that did not answer at first is asked once more: it may have come back meanwhile."""
        if not silent:
            return
        self._step(STOP_AGAIN, silent, ASK_AGAIN_S)
        census = await take_census(self._fleet, self._cluster, nodes=silent, timeout=ASK_AGAIN_S)
        _, late = self._read({node: rows for node, rows in census.items() if isinstance(rows, tuple)})
        await self._stop_workers(late)

    def _step(self, step: str, nodes: Iterable[str], limit_s: float | None = None) -> None:
        for node in nodes:
            self._emit(StepChanged(self._clock.wall(), step, node, "running", limit_s=limit_s))

    def _cli(self, node: str) -> str:
        found = self._cluster.node(node)
        return found.container_cli if found is not None else "docker"

    def _result(self, node: str, result: str, detail: str) -> None:
        self.results[node] = (result, detail)
        self._emit(StopSeen(self._clock.wall(), node, result, detail))


def _names(rows: Sequence[Found]) -> str:
    return ", ".join(f"{f.name} ({f.status})" for f in rows)


def kept_in(results: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Nodes whose ended containers were kept, and why."""
    return {
        node: detail.partition(UNSAVED)[2]
        for node, (state, detail) in results.items()
        if state == "stopped" and detail.startswith(KEPT)
    }


def _last_line(said: bytes) -> str:
    return clean_bytes(said.strip().split(b"\n")[-1], limit=300)


def _by_node(rows: Sequence[Found]) -> dict[str, list[Found]]:
    out: dict[str, list[Found]] = {}
    for row in rows:
        out.setdefault(row.node, []).append(row)
    return out


def in_words(results: Mapping[str, tuple[str, str]]) -> str:
    """The outcome in words that never lie: "6 stopped, 1 still running (dgx6), 1 unknown (dgx8: no answer)"."""
    parts: list[str] = []
    for state, word in (("stopped", "stopped"), ("still_running", "still running"), ("unknown", "unknown")):
        rows = [(node, detail) for node, (s, detail) in results.items() if s == state]
        if not rows:
            continue
        named = [(node, d) for node, d in rows if (d and not d.startswith(KEPT)) or state != "stopped"]
        names = "; ".join(said_of(node, detail) for node, detail in named)
        parts.append(f"{len(rows)} {word} ({names})" if names else f"{len(rows)} {word}")
    kept = kept_in(results)
    for why in dict.fromkeys(kept.values()):
        nodes = ", ".join(node for node, reason in kept.items() if reason == why)
        parts.append(f"containers kept on {nodes}, because their logs are not saved: {why}")
    nothing = sum(1 for s, _ in results.values() if s == "nothing")
    if not parts:
        return f"nothing of a deployment on {nothing} node{'s' if nothing != 1 else ''}"
    if nothing and not all(s in ("stopped", "nothing") for s, _ in results.values()):
        parts.append(f"nothing on {nothing} other{'s' if nothing != 1 else ''}")
    return ", ".join(parts)


def said_of(node: str, detail: str) -> str:
    """A node and what is said of it; transport's sentences begin with the node's name already."""
    if not detail:
        return node
    return detail if detail.startswith((f"{node} ", f"{node}:")) else f"{node}: {detail}"
