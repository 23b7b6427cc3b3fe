"""What other consoles leave half done: a stop whose end is not heard here, a launch that ended before its head."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from console.base.clock import Clock
from console.base.errors import NightdeckError
from console.boot.events import BootFailed, CauseFound, Event, StopEnded
from console.boot.state import BootState, Phase
from console.enginelog.causes_model import Cause
from console.services.tasks import Owner

# Whoever stops or launches is asked for so often, and counts as gone after so many answers that name nobody.
ASK_EACH_S: Final = 10.0
NOBODY: Final = 2
# No stop takes longer, where nobody can say who has the controls.
STOP_LIMIT_S: Final = 180.0
# A launch starts its head within seconds of its workers; a busy engine may take a minute and more.
HEAD_AFTER_S: Final = 90.0
NEVER_STARTED: Final = "the launch ended before rank 0 was started"

# Which other console may be launching, in the words of the lease; "" none.
Who = Callable[[], Awaitable[str]]


class LeftHalf:
    """Of one deployment. who_stops: asked with its launch's date (epoch s). apply: what is concluded."""

    def __init__(
        self,
        who_stops: Callable[[float], Awaitable[str]] | None,
        who_launches: Who | None,
        state: Callable[[], BootState],
        apply: Callable[[Event], None],
        clock: Clock,
        owner: Owner,
    ) -> None:
        self._who_stops = who_stops
        self._who_launches = who_launches
        self._state = state
        self._apply = apply
        self._clock = clock
        self._owner = owner
        self._since: float | None = None  # since when this is so, monotonic
        self._asked_at = 0.0
        self._nobody = 0
        self._asking = False

    def look(self, say: Collection[str], *, others_stop: bool) -> None:
        """Once a second. say: nodes whose engines told what is there. others_stop: another console's stop goes on."""
        now, state = self._clock.monotonic(), self._state()
        half = half_launched(state) and state.head_node in say
        if not half and not (others_stop and half_stopped(state)):
            self._since, self._nobody = None, 0
            return
        if self._since is None:
            self._since = self._asked_at = now
        if half and now - self._since < HEAD_AFTER_S:
            return
        if not half and now - self._since > STOP_LIMIT_S:
            self._conclude(half=False)
        elif not self._asking and now - self._asked_at >= ASK_EACH_S:
            self._asking = True
            self._owner.spawn("who left it half done", self._ask(half=half))

    async def at_once(self, say: Collection[str]) -> None:
        """For whoever looks once, at a launch whose head is overdue by its own date."""
        state = self._state()
        overdue = self._clock.wall() - state.launched_at > HEAD_AFTER_S
        if overdue and half_launched(state) and state.head_node in say:
            self._nobody = NOBODY - 1
            await self._ask(half=True)

    async def _ask(self, *, half: bool) -> None:
        who = "nobody can say"
        try:
            if half and self._who_launches is not None:
                who = await self._who_launches()
            elif not half and self._who_stops is not None:
                who = await self._who_stops(self._state().launched_at)
        except NightdeckError:
            who = "nobody can say"
        finally:
            self._asked_at = self._clock.monotonic()
            self._asking = False
        self._nobody = 0 if who else self._nobody + 1
        still = half_launched(self._state()) if half else half_stopped(self._state())
        if still and self._nobody >= NOBODY:
            self._conclude(half=half)

    def _conclude(self, *, half: bool) -> None:
        self._since, self._nobody = None, 0
        at, head = self._clock.wall(), self._state().head_node
        if not half:
            self._apply(StopEnded(at, "partly"))
            return
        self._apply(BootFailed(at, NEVER_STARTED, 0, head))
        words = f"{NEVER_STARTED[0].upper()}{NEVER_STARTED[1:]}, and no other console has the controls."
        todo = "stop what it started (`nightdeck stop`), then launch again"
        self._apply(CauseFound(at, Cause("rank_missing", words, todo, 0, head or None, "container")))


def half_stopped(state: BootState) -> bool:
    return state.phase is Phase.STOPPING and state.stop_result is None


def half_launched(state: BootState) -> bool:
    """Workers run, and rank 0 has never been seen."""
    if state.phase not in (Phase.STARTING, Phase.BOOTING, Phase.STALLED):
        return False
    head = next((r for r in state.ranks if r.rank == 0), None)
    never = head is not None and head.started_at is None and head.status in (None, "absent") and not head.lines
    return never and any(r.status == "running" for r in state.ranks)
