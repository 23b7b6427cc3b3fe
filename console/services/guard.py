"""The memory guards of a deployment: started with it on every node, told when it serves, read when a rank dies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from console.base.absent import Absent
from console.base.text import clean_bytes
from console.base.units import gib
from console.boot.events import RankRef
from console.boot.to_json import LAST_MOMENT, stamp
from console.cluster.model import Cluster
from console.plan.model import LABEL_DEPLOYMENT, LABEL_RANK, Plan
from console.probe import guard_program
from console.services.smoke import api_address
from console.telemetry.guard_policy import GuardPolicy
from console.telemetry.guard_rows import guard, read_answer, started
from console.telemetry.launch import BOOTSTRAP
from console.telemetry.sample import Guard, GuardTrip
from console.transport.base import Completed, Fleet, TransportError

START_TIMEOUT_S: Final = 20.0
ASK_TIMEOUT_S: Final = 10.0


def guard_orders(plan: Plan, rank: int, cluster: Cluster, policy: GuardPolicy) -> dict[str, Any]:
    """What the guard of one rank is told. It may be started before the container: it waits for it, by its labels."""
    one = next(r for r in plan.ranks if r.rank == rank)
    node, head = cluster.node(one.node), cluster.node(plan.head_node)
    local = api_address(cluster.api_host)
    # A worker sees the head's API over the fabric, where it listens there; else time decides.
    remote = head.fabric_address if head is not None and local == "127.0.0.1" else local
    where = local if one.is_head else remote
    return {
        "do": "start",
        "deployment": plan.deployment,
        "rank": rank,
        "container": one.container,
        "labels": {LABEL_DEPLOYMENT: plan.deployment, LABEL_RANK: str(rank)},
        "container_cli": node.container_cli if node is not None else "docker",
        "loading_floor_bytes": policy.loading_floor_bytes,
        "serving_floor_bytes": policy.serving_floor_bytes,
        "readings": policy.readings,
        "serving_after_s": policy.serving_after_s or plan.ready_timeout_s,
        "health": [[where, plan.port]] if where else [],
    }


def guard_command(orders: Mapping[str, Any]) -> tuple[list[str], bytes]:
    """The command to run on a node and its standard input; it returns at once, and a guard stays behind."""
    program = guard_program()
    words = ["python3", "-I", "-S", "-c", BOOTSTRAP, str(len(program)), json.dumps(orders, separators=(",", ":"))]
    return words, program


class GuardService:
    """Guards on all nodes. Nothing here raises: a guard that cannot run is an answer, and never stops a launch."""

    def __init__(self, fleet: Fleet, cluster: Cluster, policy: GuardPolicy) -> None:
        self._fleet = fleet
        self._cluster = cluster
        self.policy = policy

    async def start(self, plan: Plan, policy: GuardPolicy | None = None) -> Mapping[str, Guard | Absent]:
        """One guard a node, all at once, beside the launch: by node, what runs there now or why nothing does."""
        chosen = policy or self.policy
        if not chosen.enabled:
            return {r.node: Absent("switched off in [guard]") for r in plan.ranks}
        orders = [guard_orders(plan, r.rank, self._cluster, chosen) for r in plan.ranks]
        done = await asyncio.gather(
            *(self._run(r.node, o, START_TIMEOUT_S) for r, o in zip(plan.ranks, orders, strict=True))
        )
        return {
            r.node: answer if isinstance(answer, Absent) else _started(answer)
            for r, answer in zip(plan.ranks, done, strict=True)
        }

    async def serving(self, deployment: str, ranks: Sequence[RankRef]) -> Mapping[str, str]:
        """Tell every guard of a deployment that its engine serves: node -> why it could not be told, "" when it was."""
        orders = [{"do": "tell", "deployment": deployment, "rank": r.rank, "stage": "serving"} for r in ranks]
        done = await asyncio.gather(
            *(self._run(r.node, o, ASK_TIMEOUT_S) for r, o in zip(ranks, orders, strict=True) if r.node)
        )
        out: dict[str, str] = {}
        for rank, answer in zip([r for r in ranks if r.node], done, strict=True):
            if isinstance(answer, Absent):
                out[rank.node] = answer.reason
                continue
            said = read_answer(answer.stdout)
            told = isinstance(said, dict) and said.get("running") is True
            out[rank.node] = "" if told else clean_bytes(answer.stdout or answer.stderr, limit=200) or "no answer"
        return out

    async def status(self, node: str, deployment: str = "") -> tuple[Guard, ...] | Absent:
        """The guards that run on a node or left their files there; with all the numbers of a trip."""
        answer = await self._run(node, {"do": "status", "deployment": deployment}, ASK_TIMEOUT_S)
        if isinstance(answer, Absent):
            return answer
        said = read_answer(answer.stdout)
        if not isinstance(said, list):
            return Absent(clean_bytes(answer.stdout or answer.stderr, limit=200) or "no answer")
        found = [guard(row) for row in said if isinstance(row, dict)]
        return tuple(g for g in found if g is not None)

    async def marker(self, node: str, deployment: str, rank: int) -> GuardTrip | Absent | None:
        """What the guard left when it killed this rank; None: it did not."""
        rows = await self.status(node, deployment)
        if isinstance(rows, Absent):
            return rows
        return next((g.trip for g in rows if g.rank == rank), None)

    async def _run(self, node: str, orders: Mapping[str, Any], timeout: float) -> Completed | Absent:
        argv, program = guard_command(orders)
        try:
            done = await self._fleet.link(node).run(argv, timeout=timeout, stdin=program)
        except TransportError as error:
            return Absent(error.what)
        except KeyError:
            return Absent("this cluster has no such node")
        if done.ok:
            return done
        return Absent(clean_bytes(done.stderr, limit=300) or f"the guard's program ended with {done.status}")


def _started(answer: Completed) -> Guard | Absent:
    return started(answer.stdout)


def marker_text(trip: GuardTrip, rank: int, node: str) -> str:
    """What a guard did, in lines for the cause engine and for people."""
    some = trip.history[:: max(1, len(trip.history) // 6)]
    before = [f"{-seconds:.1f} s before: {gib(size)} available" for seconds, size in some]
    how = {"engine": "through the container engine", "signal": "by a signal", "command": "by the command line"}
    ended = how.get(trip.killed_by, f"in vain ({'; '.join(trip.tried)})")
    fell = trip.fall_bytes_s
    when = f", {stamp(trip.at)} by the node's clock" if 0 < trip.at < LAST_MOMENT else ""
    rate = "" if fell is None else f", falling {gib(fell, digits=2)}/s"
    return "\n".join(
        [
            f"TRIPPED: the memory guard on {node} killed rank {rank} {ended}: {gib(trip.available_bytes, digits=2)} "
            f"available, floor while {trip.stage} {gib(trip.floor_bytes, digits=2)}{rate}{when}",
            *before,
        ]
    )
