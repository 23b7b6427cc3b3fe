"""What a face may ask of a hub over a recording, beside what every hub has."""

from __future__ import annotations

from typing import Protocol

from console.services.hub import HubApi
from console.services.replay_marks import Mark, Replaying


class ReplayApi(HubApi, Protocol):
    """`HubApi` over a recording: every action is refused, and these play it. Times: seconds since its start."""

    @property
    def replaying(self) -> Replaying: ...

    def pause(self, paused: bool | None = None) -> None: ...

    def faster(self, steps: int = 1) -> None: ...

    async def seek(self, position: float) -> None:
        """Cancelling it leaves the replay where it came to."""
        ...

    async def go_to(self, step: int, *kinds: str) -> Mark | None:
        """To the next mark (-1: the one before, 0: the first) of these kinds: which, None for none."""
        ...


__all__ = ["Mark", "ReplayApi", "Replaying"]
