"""What the engine says of its service: /metrics of the head, asked from the head every few seconds once it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from console.base.absent import Absent
from console.base.clock import Clock
from console.base.text import clean_line
from console.boot.events import Event, StatsSeen
from console.boot.state import BootState, Phase
from console.enginelog.metrics import parse_metrics, rates
from console.enginelog.stats import EngineStats
from console.services.http import HttpError, fetch
from console.services.smoke import api_address
from console.transport.base import Link, TransportError

BEAT_S: Final = 5.0
TIMEOUT_S: Final = 4.0
LARGE_BYTES: Final = 256 << 10
_COUNTERS: Final = ("_total", "_sum_s", "_count")


class EngineFigures:
    """One deployment. `why`: what keeps the figures from coming, "" while they come; stale ones tell their `at`."""

    def __init__(
        self,
        state: Callable[[], BootState],
        apply: Callable[[Event], None],
        link: Link,
        api_host: str,
        clock: Clock,
    ) -> None:
        self._state = state
        self._apply = apply
        self._link = link
        self._host = api_address(api_host)
        self._clock = clock
        self._before: EngineStats | None = None
        self.why = "the engine does not serve yet"

    async def run(self) -> None:
        """Until cancelled, or until the deployment is over."""
        while not self._state().phase.over:
            if self._state().ready_at is not None and self._state().phase is not Phase.STOPPING:
                await self.look()
            await asyncio.sleep(BEAT_S)

    async def look(self) -> None:
        """Ask once. Never raises for the network."""
        try:
            answer = await fetch(self._link, self._state().port, "/metrics", host=self._host, timeout=TIMEOUT_S)
        except (TransportError, HttpError) as error:
            return self._none(clean_line(str(error), limit=200))
        if answer.status != 200:
            return self._none(f"/metrics says {answer.status}")
        now = await self._parsed(answer.body)
        values = figures(self._before, now)
        self._before = now
        if not values:
            return self._none("/metrics holds no figures of this engine")
        self.why = ""
        self._apply(StatsSeen(self._clock.wall(), {**values, "at": self._clock.wall()}))
        return None

    def _none(self, why: str) -> None:
        if why != self.why:
            self.why = why
            self._apply(StatsSeen(self._clock.wall(), {}, why))

    async def _parsed(self, body: bytes) -> EngineStats:
        """A real engine's page takes a millisecond; what is far larger must not hold the screen up."""
        at = self._clock.wall()
        if len(body) <= LARGE_BYTES:
            return parse_metrics(body, at=at)
        return await asyncio.to_thread(parse_metrics, body, at=at)


def figures(before: EngineStats | None, now: EngineStats) -> dict[str, float]:
    """Figures by name: rates per second and shares since the reading before where there is one, else since the start.

    acceptance_length counts only drafts since the reading before: an average over a night hides that it fell to 1."""
    stats = rates(before, now) if before is not None else now
    if before is not None:
        stats = replace(stats, **_recent(before, now))
    out = {
        name: value for name, value in stats.as_mapping().items() if not name.endswith(_COUNTERS) and name != "engine"
    }
    first = _ratio(before, now, "ttft_sum_s", "ttft_count")
    if first is not None:
        out["ttft_s"] = first
    elif before is None and not isinstance(now.ttft_s, Absent):
        out["ttft_s"] = now.ttft_s
    return out


def _recent(before: EngineStats, now: EngineStats) -> dict[str, Any]:
    out: dict[str, Any] = {}
    hits = _ratio(before, now, "prefix_hits_total", "prefix_queries_total")
    if hits is not None:
        out["prefix_hit"] = min(1.0, hits)
    accepted = _ratio(before, now, "accepted_tokens_total", "drafts_total")
    if accepted is not None:
        out["acceptance_length"] = 1.0 + accepted
    share = _ratio(before, now, "accepted_tokens_total", "draft_tokens_total")
    if share is not None:
        out["draft_acceptance"] = min(1.0, share)
    return out


def _ratio(before: EngineStats | None, now: EngineStats, top: str, bottom: str) -> float | None:
    """Growth of one counter by growth of another; None where either is not told, went back or stood still."""
    if before is None:
        return None
    grown = []
    for name in (top, bottom):
        old, new = getattr(before, name), getattr(now, name)
        if isinstance(old, Absent) or isinstance(new, Absent) or new < old:
            return None
        grown.append(new - old)
    return grown[0] / grown[1] if grown[1] > 0 else None
