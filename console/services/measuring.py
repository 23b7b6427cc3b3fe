"""Measuring what serves: the part of the hub that asks the head for speed and keeps the answer with the boot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from console.base.errors import UsageError
from console.services.census import take_census
from console.services.measure import MeasureSpec, measure
from console.services.smoke import api_address, ask_health
from console.services.watching import Watching

LEAVE_S = 5.0


class Measuring(Watching):
    """`measure` of `HubApi`, and telling of a night."""

    _notified = 0

    async def measure(
        self, spec: MeasureSpec | None = None, told: Callable[[str], None] = lambda _text: None
    ) -> Mapping[str, Any]:
        if self._show is None:
            await self._adopt(await take_census(self._fleet, self._cluster))
        follower = self._followers.get(self._show or "")
        if follower is None:
            raise UsageError("nothing serves, so nothing can be measured")
        state = follower.state
        host = api_address(self._cluster.api_host)
        link = self._fleet.link(state.head_node)
        health = await ask_health(link, host, state.port, state.served_name)
        if health.state != "healthy":
            raise UsageError(f"the API is {health.state}: {health.detail}", where=state.head_node)
        result = await measure(
            link, host, state.port, state.served_name, spec or MeasureSpec(), now=self._clock.monotonic, told=told
        )
        now = self._clock.wall()
        keeper = self._ledger.keeper(state.deployment, state.number, state.recipe, now=now)
        keeper.document("measure.json", {**result, "at": now})
        return result

    def notify(self, text: str) -> None:
        """Something that a sleeping person should hear of, by the ways out of the alarms."""
        self._notified += 1
        self.vigil.alarms.happen("night", f"night {self._notified}", text)

    async def notified(self) -> None:
        """Give what was notified a moment to leave, before the hub is closed."""
        if self._notified and self.vigil.alarms.ways:
            await asyncio.sleep(LEAVE_S)
