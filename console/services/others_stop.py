"""What another console stops is no failure: before a container's end is told, the nodes are asked who stops it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from console.base.clock import Clock
from console.base.errors import NightdeckError
from console.boot.state import BootState
from console.plan.model import LABEL_DEPLOYMENT, LABEL_RANK
from console.services.census import epoch
from console.services.tasks import Owner
from console.telemetry.sample import Containers

ASK_LIMIT_S: Final = 2.0
# One end brings others about: who stops is asked once for all of them.
ASK_AGAIN_S: Final = 10.0
_DOING: Final = re.compile(r", (stopping|restarting)\b[^;]{0,200}? since (\d\d):(\d\d):(\d\d) UTC")
_DAY_S: Final = 86400


def began_at(holder: str, now: float, state: BootState, kept: Mapping[str, Containers]) -> float:
    """When the stop of this holder of the controls began (epoch s): by the time of day that it tells, nearest before
    `now`, and no later than what ended by it, since its clock may be another. kept: what the nodes say by now."""
    found = _DOING.search(holder)
    told = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4]) if found is not None else now % _DAY_S
    ago = (now - told) % _DAY_S
    ran = {str(r.rank) for r in state.ranks if r.status == "running"}
    ends = [
        epoch(row.finished_at)
        for answer in kept.values()
        for row in answer.rows
        if row.labels.get(LABEL_DEPLOYMENT) == state.deployment and row.labels.get(LABEL_RANK) in ran
    ]
    began = now - ago if ago < _DAY_S / 2 else now
    return max(state.launched_at, min([began, *(at for at in ends if at is not None)]))


# Who stops a deployment that was launched then (epoch s), in the words of the lease; "" nobody.
WhoStops = Callable[[float], Awaitable[str]]
Told = Callable[[str, Mapping[str, Containers]], None]


def stops(holder: str, launched_at: float) -> bool:
    """Whether this holder of the controls ends a deployment that was launched at `launched_at` (epoch s): a stop does,
    and a restart ends what was there before it, not what it starts itself."""
    found = _DOING.search(holder)
    if found is None:
        return False
    if found[1] == "stopping":
        return True
    began = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])
    return (launched_at - began) % _DAY_S > _DAY_S / 2


class OthersStop:
    """Keeps what nodes say of containers for the moment in which it asks who stops them."""

    def __init__(self, ask: WhoStops, clock: Clock, owner: Owner) -> None:
        self._ask = ask
        self._clock = clock
        self._owner = owner
        self._kept: dict[str, Containers] | None = None
        self._asked_at = -ASK_AGAIN_S

    def keeps(self, node: str, answer: Containers, launched_at: float, *, ends: bool, told: Told) -> bool:
        """Whether this answer waits. ends: a rank that ran does not any more. told: who stops, and the last answer of
        each node that spoke meanwhile."""
        if self._kept is not None:
            self._kept[node] = answer
            return True
        if not ends or self._clock.monotonic() - self._asked_at < ASK_AGAIN_S:
            return False
        self._kept = {node: answer}
        self._owner.spawn("who stops", self._find_out(launched_at, told))
        return True

    async def _find_out(self, launched_at: float, told: Told) -> None:
        who = ""
        try:
            # Where nobody says so, it is an end like any other.
            with contextlib.suppress(TimeoutError, NightdeckError):
                async with asyncio.timeout(ASK_LIMIT_S):
                    who = await self._ask(launched_at)
        finally:
            self._asked_at = self._clock.monotonic()
            kept, self._kept = self._kept or {}, None
        told(who, kept)
