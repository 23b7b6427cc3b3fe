"""Carrying a plan out: workers first, the head last, all nodes of a step at once, and a result for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from console.base.clock import Clock
from console.base.errors import ExitCode, NightdeckError
from console.base.secrets import mask_text
from console.base.text import clean_line, decode
from console.boot.events import Event, StepChanged
from console.cluster.model import Cluster
from console.plan.codes import LIFTED_BY_A_STOP as LIFTED_BY_A_STOP
from console.plan.model import Plan, RankPlan
from console.plan.secret_env import argv_without, secret_env
from console.services.census import Census, Found, take_census
from console.services.scripts import MKDIR_FAILED, Fence, start_argv, start_input
from console.services.stop import said_of
from console.transport.base import Completed, Fleet, TransportError

WORKERS = "start workers"
HEAD = "start head"
ABORT_WAIT_S = 10.0  # a start that was asked for is let end: cut off in the middle, it may come to be all the same
RUN_TIMEOUT_S = 120.0  # `docker run -d` of a local image takes 0.1 s; a node that is short of memory takes minutes


class LaunchRefused(NightdeckError):
    """Nothing was started, and why."""


class LaunchFailed(NightdeckError):
    """A step failed on a node. results: node -> (`started`, `failed`, `not_started` or `unknown`, detail)."""

    def __init__(self, what: str, *, where: str, remedy: str, results: Mapping[str, tuple[str, str]]) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.results = dict(results)
        partly = any(state == "started" for state, _ in results.values())
        self.exit_code = ExitCode.PARTLY if partly else ExitCode.FAILED
        self.nothing_started = all(state == "not_started" for state, _ in results.values())


def refuse_blocks(plan: Plan, override: Sequence[str]) -> None:
    """Raises LaunchRefused where a finding blocks the plan that no code in `override` passes over."""
    blocks = [f for f in plan.blocks if f.code not in override]
    if not blocks and not plan.unexplained:
        return
    said = [f"{f.code}{f' on {f.node}' if f.node else ''}: {f.message}" for f in blocks[:6]]
    remedies = dict.fromkeys(f.remedy for f in blocks if f.remedy)
    raise LaunchRefused(
        "; ".join([*said, *plan.unexplained[:3]]),
        remedy=" ".join([*remedies, "--override CODE goes on in spite of a block."]),
    )


def refuse_leftovers(census: Census, *, chosen: Sequence[str]) -> None:
    """Refuse while anything of an earlier deployment lives on any node: a new worker can join the old head's store.

    Raises LaunchRefused, which names each; also where a chosen node could not be asked."""
    living: list[Found] = []
    silent: list[str] = []
    for node, found in census.items():
        if isinstance(found, tuple):
            living += [f for f in found if f.alive]
        elif node in chosen:
            silent.append(said_of(node, found.reason))
    if living:
        names = ", ".join(f"{f.node}: {f.name} ({f.status})" for f in living[:8])
        more = f" and {len(living) - 8} more" if len(living) > 8 else ""
        raise LaunchRefused(
            f"an earlier deployment still lives: {names}{more}",
            remedy="stop it first: `nightdeck stop`, or restart with `nightdeck restart`",
        )
    if silent:
        raise LaunchRefused(
            "not every node could be asked what runs there: " + "; ".join(silent),
            remedy="`nightdeck cluster check` tells more",
        )


class Launch:
    """One launch of one plan. fences: by node the lease under which it may start; once that is gone, nothing starts
    there any more, however late the node gets to it.

    `results` is true at every moment, also after a failure or an abort."""

    def __init__(
        self,
        plan: Plan,
        fleet: Fleet,
        cluster: Cluster,
        clock: Clock,
        emit: Callable[[Event], None],
        fences: Callable[[], Mapping[str, Fence]] = dict,
    ) -> None:
        self._plan = plan
        self._fleet = fleet
        self._cluster = cluster
        self._clock = clock
        self._emit = emit
        self._fences = fences
        self.results: dict[str, tuple[str, str]] = {r.node: ("not_started", "") for r in plan.ranks}

    async def run(self) -> None:
        """Raises LaunchFailed. When cancelled, finds out what did start before it lets go."""
        workers = [r for r in self._plan.ranks if not r.is_head]
        heads = [r for r in self._plan.ranks if r.is_head]
        try:
            if workers:
                await self._step(WORKERS, workers)
            await self._step(HEAD, heads)
        except asyncio.CancelledError:
            # The operator aborts once; finding out what is true now is part of the abort, and has its own limit.
            await asyncio.shield(self._look(10.0))
            self._tell_abort(workers, heads)
            raise

    async def _step(self, name: str, ranks: Sequence[RankPlan]) -> None:
        for rank in ranks:
            self._tell(name, rank.node, "running")
        starts = [asyncio.create_task(self._start(name, r), name=f"{name} on {r.node}") for r in ranks]
        try:
            await asyncio.wait(starts)
        finally:
            await self._let_end(starts)
        for start in starts:
            start.result()
        bad = [(r, *self.results[r.node]) for r in ranks if self.results[r.node][0] != "started"]
        if not bad:
            return
        rank, state, detail = bad[0]
        more = f" (and on {', '.join(r.node for r, _, _ in bad[1:])})" if len(bad) > 1 else ""
        verb = "failed" if state == "failed" else "has an unknown outcome"
        raise LaunchFailed(
            f"{name} {verb} for rank {rank.rank}{more}: {detail}",
            where=rank.node,
            remedy="what was started is kept for its logs; `nightdeck stop` removes it",
            results=self.results,
        )

    async def _let_end(self, starts: Sequence[asyncio.Task[None]]) -> None:
        """After an abort: what is under way is answered, or cut off at the limit."""
        running = [start for start in starts if not start.done()]
        if not running:
            return
        try:
            await asyncio.wait(running, timeout=ABORT_WAIT_S)
        finally:
            for start in running:
                start.cancel()
        await asyncio.wait(running)

    async def _start(self, step: str, rank: RankPlan) -> None:
        self.results[rank.node] = ("unknown", "asked, not answered yet")
        hidden = secret_env(self._plan, rank)
        try:
            words = start_argv(rank.mkdirs, argv_without(rank, hidden), self._fences().get(rank.node), tuple(hidden))
            done = await self._fleet.link(rank.node).run(
                words, timeout=RUN_TIMEOUT_S, stdin=start_input(hidden.values())
            )
        except TransportError as error:
            self.results[rank.node] = ("unknown", error.what)
            self._tell(step, rank.node, "unknown", error.what)
            return
        except NightdeckError as error:  # nothing was sent: a command line longer than a node takes, say
            self.results[rank.node] = ("failed", error.what)
            self._tell(step, rank.node, "failed", error.what)
            return
        if done.ok:
            self.results[rank.node] = ("started", "")
            self._tell(step, rank.node, "done")
            return
        detail = self._words(done)
        self.results[rank.node] = ("failed", detail)
        self._tell(step, rank.node, "failed", detail)

    def _words(self, done: Completed) -> str:
        """What the node said, clean and masked; the engine repeats its usage hint last, which says nothing."""
        lines = [line for line in decode(done.stderr or done.stdout).splitlines() if line.strip()]
        lines = [
            line for line in lines if not line.startswith(("See 'docker run", "Run 'docker run", "time="))
        ] or lines
        text = mask_text(clean_line(" ".join(lines[-3:]), limit=600), self._plan.secrets)
        if done.status == MKDIR_FAILED:
            return text
        return text or f"exit status {done.status}"

    async def _look(self, timeout: float) -> None:
        """After an abort: ask each node what came to be."""
        asked = [node for node, (state, _) in self.results.items() if state == "unknown"]
        census = await take_census(self._fleet, self._cluster, nodes=asked, timeout=timeout)
        for node, found in census.items():
            if not isinstance(found, tuple):
                self.results[node] = ("unknown", found.reason)
                continue
            ours = [f for f in found if f.deployment == self._plan.deployment]
            if ours:
                self.results[node] = ("started", f"when the launch was aborted: {ours[0].name} is {ours[0].status}")
            else:
                self.results[node] = ("unknown", "its start was cut off, and no container is there yet")

    def _tell_abort(self, workers: Sequence[RankPlan], heads: Sequence[RankPlan]) -> None:
        """The last word on every node, also on those whose turn had not come."""
        words = {"started": "done"}
        for name, ranks in ((WORKERS, workers), (HEAD, heads)):
            for rank in ranks:
                state, detail = self.results[rank.node]
                self._tell(name, rank.node, words.get(state, state), detail)

    def _tell(self, step: str, node: str, state: str, detail: str = "") -> None:
        self._emit(StepChanged(self._clock.wall(), step, node, state, detail))
