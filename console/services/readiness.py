"""From containers that run to an API that is worth the word ready; and the deadline, at which the console asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from console.base.clock import Clock
from console.boot.events import ApiSeen, DeadlinePassed, SmokeDone
from console.boot.state import Phase
from console.cluster.model import Cluster
from console.recipe.model import SmokePrompt
from console.services.follower import Follower
from console.services.smoke import SmokeResult, api_address, ask_health, ask_text
from console.services.smoke_run import run_smoke
from console.transport.base import Fleet

HEALTH_BEAT_S = 1.0
SERVING_BEAT_S = 5.0
CANARY_BEAT_S = 60.0
BAD_TEXT_RETRY_S = 10.0


class Readiness:
    """Asks the head of one deployment, from the head. checks: the recipe's own prompts, asked before the word ready."""

    def __init__(
        self,
        follower: Follower,
        fleet: Fleet,
        cluster: Cluster,
        clock: Clock,
        checks: Sequence[SmokePrompt] = (),
    ) -> None:
        self._follower = follower
        self._fleet = fleet
        self._host = api_address(cluster.api_host)
        self._clock = clock
        self._checks = tuple(checks)

    async def until_over(self) -> None:
        """Watch the API as long as the boot lives: to ready, and then with a request now and again."""
        next_canary = 0.0
        while True:
            state = self._follower.state
            if state.phase.over or state.phase is Phase.STOPPING:
                await self._follower.changed(HEALTH_BEAT_S)
                continue
            # Before the last rank runs there is nothing to ask; a node that cannot be seen does not hold the head up.
            if any(r.status != "running" for r in state.ranks if r.reachable):
                await self._follower.changed(HEALTH_BEAT_S)
                continue
            lost = any(not r.reachable for r in state.ranks)
            ask = state.ready_at is None or lost or self._clock.monotonic() >= next_canary
            await self.look(ask=ask)
            state = self._follower.state
            if state.ready_at is not None:
                if ask:
                    next_canary = self._clock.monotonic() + CANARY_BEAT_S
                await self._pause(SERVING_BEAT_S)
            else:
                await self._pause(BAD_TEXT_RETRY_S if state.api == "healthy" else HEALTH_BEAT_S)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def look(self, *, ask: bool = True) -> None:
        """One look at the API and, when it is well, one request."""
        state = self._follower.state
        if state.head_node not in self._fleet.names:
            return
        link = self._fleet.link(state.head_node)
        answer = await ask_health(link, self._host, state.port, state.served_name)
        state = self._follower.state
        if answer.state != "unknown" and (answer.state, answer.detail) != (state.api, state.api_detail):
            self._follower.apply(ApiSeen(self._clock.wall(), answer.state, answer.detail))
        if answer.state != "healthy" or not ask:
            return
        if state.ready_at is None:
            result = await self.whole()
        else:
            result = await ask_text(
                link, self._host, state.port, state.served_name, now=self._clock.monotonic, judge=state.judge
            )
        state = self._follower.state
        if state.phase in (Phase.STOPPING, Phase.STOPPED):
            return  # a request that a stop cut off says nothing of the model
        self._follower.apply(
            SmokeDone(
                self._clock.wall(),
                result.ok,
                result.text,
                result.why,
                result.first_token_s,
                result.tokens_per_s,
                canary=state.ready_at is not None,
                notes=result.notes,
            )
        )

    async def whole(self) -> SmokeResult:
        """The whole smoke test, as before the word ready."""
        state = self._follower.state
        return await run_smoke(
            self._fleet.link(state.head_node),
            self._host,
            state.port,
            state.served_name,
            now=self._clock.monotonic,
            judge=state.judge,
            checks=self._checks,
        )

    async def deadline(self) -> None:
        """Tell when the deadline passes, once for each value it has; nothing is ever ended for it."""
        told = -1.0
        while True:
            state = self._follower.state
            if state.phase.over or state.ready_at is not None:
                return
            left = state.deadline_at - self._clock.wall()
            if left <= 0 and told != state.deadline_s:
                told = state.deadline_s
                self._follower.apply(DeadlinePassed(self._clock.wall()))
                continue
            await self._follower.changed(left if left > 0 else 3600.0)
