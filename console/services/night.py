"""The night without you: the queue's runs one after another, and the baseline back at the end whatever happened."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from console.base.absent import Absent
from console.base.clock import Clock
from console.base.errors import NightdeckError
from console.base.text import clean_line
from console.boot.events import Event
from console.boot.figures import ready_seconds
from console.boot.night_model import (
    LOOK_S,
    Finish,
    Night,
    Phase,
    Restore,
    Result,
    Rules,
    Run,
    Seen,
    Start,
    Wait,
    began,
    ended,
    finished,
    next_action,
    restoring,
    until,
)
from console.boot.state import BootState
from console.boot.state import Phase as BootPhase
from console.files.atomic import DiskError
from console.services.hub import ControlsView, HubApi
from console.services.lease import LeaseHeld, LeaseImpossible, LeaseTaken
from console.services.night_clients import Clients
from console.services.night_plan import Plan, not_ready, plan_json, shown_recipe

BEAT_S: Final = 1.0
STOP_GRACE_S: Final = 30.0
EXPLAIN_S: Final = 20.0
# The first cause is found over all ranks, and may be found again as their last lines come.
CAUSE_BEATS: Final = 3
# Two tries at what everybody expects to find in the morning.
RESTORE_TRIES: Final = 2
# Lines of the log that wait for room on the disk.
UNSAID: Final = 500
# How long the end of a night waits for room, and how often it tries.
ROOM_S: Final = 900.0
ROOM_BEAT_S: Final = 10.0


class Store(Protocol):
    """Where a night is kept: `console.files.night_store.NightStore`."""

    def write(self, night: Night, extra: Mapping[str, Any]) -> None: ...

    def log(self, night: str, text: str, at: float) -> None: ...


class NightRunner:
    """Drives a hub. notify: the ways out of the alarms, for what somebody should hear of while asleep. rebooted: the
    controller that began this night ended with its machine. pause: sleeping,
    which a test replaces by time of its own."""

    def __init__(
        self,
        hub: HubApi,
        plan: Plan,
        night: Night,
        store: Store,
        clock: Clock,
        *,
        notify: Callable[[str], None] = lambda _text: None,
        rebooted: bool = False,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._hub = hub
        self._plan = plan
        self.night = night
        self._store = store
        self._clock = clock
        self._notify = notify
        self._rebooted = rebooted
        self._pause = pause
        self._waiting = ""
        self._clients = Clients(clock.wall())  # who asked before we looked is not known
        self._stop_asked = False
        self._unlocked = ""
        self._asked_by: tuple[str, ...] = ()
        self.saved = True  # False: what is on disk is not the night as it is
        self._refused = False
        self._unsaid: deque[tuple[str, float]] = deque(maxlen=UNSAID)

    def ask_stop(self) -> None:
        """End the night in good order: stop the trial, restore the baseline. Returns at once; without effect while the
        baseline is coming back already."""
        if self.night.phase is Phase.RESTORING:
            return
        self._stop_asked = True
        self.night = replace(self.night, stop_asked=True)

    async def run(self) -> Night:
        """Until the night is over. Cancelling leaves the state as it is, for `resume`; nothing is stopped. A disk that
        refuses ends no night: see `saved`."""
        quiet = self._hub.listen(self._heard)
        try:
            await self._interrupted()
            while True:
                if self._taken_by():
                    self._end("", f"{self._taken_by()} took the controls: what runs is theirs, and was left as it is")
                match self._next():
                    case Wait(seconds=seconds, why=why):
                        self._wait_for(why)
                        await self._pause(max(BEAT_S, seconds))
                    case Start(run=run):
                        if await self._held():
                            await self._trial(run)
                    case Restore(why=why):
                        if await self._held():
                            await self._restore(why)
                    case Finish():
                        await self._wait_for_room()
                        return self.night
        finally:
            quiet()

    def _next(self) -> Wait | Start | Restore | Finish:
        return next_action(self.night, self._plan.rules, self._plan.runs, self._clock.wall(), self._seen())

    # -- what is seen -------------------------------------------------------------------------------------------

    def _heard(self, deployment: str, event: Event) -> None:
        self._clients.heard(event)

    def _seen(self) -> Seen:
        snap = self._hub.snapshot()
        temps: list[tuple[float, str]] = []
        unknown: list[str] = []
        for view in snap.nodes:
            if isinstance(view.sample, Absent) or view.state == "lost":
                unknown.append(view.node.name)
                continue
            gpus = view.sample.gpus
            temps += [
                (g.temp_c, view.node.name)
                for g in (gpus if not isinstance(gpus, Absent) else ())
                if not isinstance(g.temp_c, Absent)
            ]
        hottest = max(temps, default=None)
        serving = any(not b.phase.over for b in snap.boots)
        return Seen(
            hottest=None if hottest is None else (hottest[1], hottest[0]),
            unknown=tuple(unknown),
            quiet_s=self._clients.quiet_s(self._clock.wall()) if serving else None,
        )

    # -- the controls -------------------------------------------------------------------------------------------

    async def _held(self) -> bool:
        """The controls of all nodes from the first trial to the end, so that nobody launches in between unknowingly.
        Where somebody else has them, that is waited for; where no node can hold them, the night goes on without."""
        if self._unlocked or (self._controls().state == "mine" and self._controls().lasting):
            return True
        try:
            await self._hub.hold_controls(doing=f"running the night {clean_line(self._plan.name, limit=60)}")
        except LeaseHeld as held:
            self._wait_for(f"{held.holder or 'somebody'} has the controls")
            await self._pause(LOOK_S)
            return False
        except LeaseImpossible as error:
            self._unlocked = error.what
            self._say(f"{error.what}: the night goes on without")
        except LeaseTaken:
            return False
        return True

    def _controls(self) -> ControlsView:
        view = self._hub.snapshot().controls
        fresh = [who for who in view.asked_by if who not in self._asked_by]
        self._asked_by = view.asked_by
        for who in fresh:
            self._say(f"{who} asks for the controls; `nightdeck night stop` ends the night in good order")
            self._notify(f"{who} asks for the controls while the night runs")
        return view

    def _taken_by(self) -> str:
        view = self._controls()
        return (view.holder or "somebody") if view.state == "taken" and self.night.phase is not Phase.DONE else ""

    # -- one run ------------------------------------------------------------------------------------------------

    async def _interrupted(self) -> None:
        """A controller that died in the middle of a run: what it left is told, and the run is not held against it."""
        run = self.night.running
        if run is None:
            return
        now = self._clock.wall()
        why = (
            "the controller was rebooted in the middle of it"
            if self._rebooted
            else "the controller ended in the middle of it"
        )
        result = Result(
            run.number, run.recipe, run.label, run.role, "interrupted", why, self.night.deployment, ended_at=now
        )
        self._set(ended(self.night, run, result), f"run {run.number} {run.label}: {why}")

    async def _trial(self, run: Run) -> None:
        self._waiting = ""
        self._set(began(self.night, run), f"run {run.number}: {run.label} ({shown_recipe(run.recipe)})")
        started = self._clock.wall()
        result = await self._outcome(run, started, self._plan.rules)
        if self._taken_by():  # nothing is stopped any more: it may be another's by now
            result = replace(result, ended_at=self._clock.wall())
            self._set(ended(self.night, run, result), f"run {run.number} {run.label}: {result.why}")
            return
        keep = run.role == "otherwise" and result.outcome == "served" and not self._plan.rules.baseline
        if not keep:
            why = await self._clear()
            if why:
                result = replace(result, why="; ".join(w for w in (result.why, f"not cleared away: {why}") if w))
        result = replace(result, ended_at=self._clock.wall())
        text = (
            f"run {run.number} {run.label}: {result.outcome.replace('_', ' ')}{': ' + result.why if result.why else ''}"
        )
        self._set(ended(self.night, run, result), text)
        if result.outcome not in ("served", "cut"):
            self._notify(text)
        if keep:
            self._end(run.recipe, f"{run.recipe} serves, as decided")

    async def _outcome(self, run: Run, started: float, rules: Rules) -> Result:
        """Launch, ready, a request, the measurement. Whatever goes wrong is a result."""
        base = Result(run.number, run.recipe, run.label, run.role, "failed", started_at=started)
        why = await self._clear()
        if why:
            return replace(base, why=f"what ran before could not be stopped: {why}")
        try:
            state = await self._hub.launch(run.recipe, override=self._plan.override)
        except NightdeckError as error:
            return replace(base, why=clean_line(str(error), limit=500))
        base = replace(base, deployment=state.deployment, boot=state.number)
        self._set(replace(self.night, deployment=state.deployment), f"boot {state.number} was launched")
        limit, word = until(run, rules, state.deadline_at)
        state = await self._to_the_end(state, limit)
        base = replace(
            base,
            ready_s=ready_seconds(state),
            text=state.smoke_text,
        )
        if taken := self._taken_by():
            return replace(base, outcome="cut", why=f"{taken} took the controls")
        if state.phase not in (BootPhase.READY, BootPhase.DEGRADED):
            state = await self._explained(state)
            return not_ready(base, state, word, stopped=self._stop_asked)
        if run.measure and not self._stop_asked and self._clock.wall() < self._plan.rules.hard_end:
            base = await self._measured(base)
        return replace(base, outcome="served")

    async def _to_the_end(self, state: BootState, limit: float) -> BootState:
        """Until it is ready, or over, or not worth waiting for."""
        while True:
            state = self._find(state)
            if state.phase in (BootPhase.READY, BootPhase.DEGRADED) or state.phase.over:
                return state
            if self._clock.wall() >= limit or self._stop_asked or self._taken_by():
                return state
            await self._pause(BEAT_S)

    async def _explained(self, state: BootState) -> BootState:
        """A failed boot with its cause: every rank's end is waited for before the first is named, and stopping it now
        would leave the reason as `exit code 1`."""
        limit = self._clock.wall() + EXPLAIN_S
        stood = 0
        while state.phase is BootPhase.FAILED and stood < CAUSE_BEATS and self._clock.wall() < limit:
            await self._pause(BEAT_S)
            before, state = state.cause, self._find(state)
            stood = stood + 1 if state.cause is not None and state.cause == before else 0
        return state

    def _find(self, state: BootState) -> BootState:
        snap = self._hub.snapshot()
        rows = [*snap.boots, *([snap.boot] if snap.boot is not None else [])]
        return next((b for b in rows if b.deployment == state.deployment), state)

    async def _measured(self, base: Result) -> Result:
        """The measurement ends with the hard end at the latest; a boot that cannot be measured has served all the
        same."""
        work = asyncio.ensure_future(self._hub.measure(self._plan.measure, self._say))
        try:
            while not work.done():
                beat = asyncio.ensure_future(self._pause(BEAT_S))
                await asyncio.wait({work, beat}, return_when=asyncio.FIRST_COMPLETED)
                beat.cancel()
                if not work.done() and (self._clock.wall() >= self._plan.rules.hard_end or self._stop_asked):
                    return replace(
                        base, measure_why="cut short: " + ("stopped" if self._stop_asked else "the hard end")
                    )
            return replace(base, measure=dict(work.result()))
        except NightdeckError as error:
            return replace(base, measure_why=clean_line(str(error), limit=300))
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _clear(self) -> str:
        """Stop everything of ours, on every node. Empty when nothing is left, else what is."""
        try:
            results = await self._hub.stop("*", grace_s=STOP_GRACE_S)
        except NightdeckError as error:
            return clean_line(str(error), limit=300)
        bad = {n: r for n, r in results.items() if r[0] not in ("stopped", "nothing")}
        return "; ".join(f"{node}: {state.replace('_', ' ')} {why}".strip() for node, (state, why) in bad.items())

    # -- the end ------------------------------------------------------------------------------------------------

    async def _restore(self, why: str) -> None:
        """The baseline back, also when all else went wrong."""
        self._stop_asked = False  # the operator's stop ends the trials, not the restoring
        self._set(restoring(self.night, why), f"the trials are over: {why}")
        baseline = self._plan.rules.baseline
        if not baseline:
            left = await self._clear()
            self._end("", why + (f"; not cleared away: {left}" if left else "; nothing runs, as no baseline is named"))
            return
        for number in range(RESTORE_TRIES):
            run = Run(0, baseline, "baseline", "baseline", measure=False)
            endless = replace(self._plan.rules, hard_end=float("inf"))
            result = await self._outcome(run, self._clock.wall(), endless)
            if result.outcome == "served":
                self._end(baseline, f"{why}; {baseline} serves again")
                return
            if self._taken_by():
                return
            self._say(f"the baseline, try {number + 1} of {RESTORE_TRIES}: {result.why}")
            self._notify(f"the baseline {baseline} did not come back: {result.why}")
        self._end("", f"{why}; THE BASELINE {baseline} DOES NOT SERVE: {result.why}")

    def _end(self, left: str, why: str) -> None:
        self._set(finished(self.night, left, why), f"the night is over: {why}")
        done = sum(1 for r in self.night.results if r.outcome == "served")
        self._notify(f"the night is over: {done} of {len(self.night.results)} runs served; {why}")

    # -- keeping ------------------------------------------------------------------------------------------------

    def _set(self, night: Night, text: str) -> None:
        self.night = replace(night, stop_asked=night.stop_asked or self._stop_asked)
        self.save()
        self._say(text)

    def _wait_for(self, why: str) -> None:
        if why != self._waiting:
            self._waiting = why
            self.save()
            self._say(f"waiting: {why}")

    def _say(self, text: str) -> None:
        self._unsaid.append((text, self._clock.wall()))
        self._pour()

    def _pour(self) -> None:
        """What was said, in order, also what the disk had no room for earlier."""
        while self._unsaid and self._kept(lambda: self._store.log(self.night.id, *self._unsaid[0])):
            self._unsaid.popleft()

    def save(self) -> None:
        extra = {"at": self._clock.wall(), "waiting": self._waiting, **plan_json(self._plan)}
        self.saved = self._kept(lambda: self._store.write(self.night, extra))

    def _kept(self, write: Callable[[], None]) -> bool:
        """The baseline must come back whatever the disk says: what it refuses is told, once a night."""
        try:
            write()
        except DiskError as error:
            if not self._refused:
                self._refused = True
                self._unsaid.append((f"not kept on disk for a while: {error}", self._clock.wall()))
                self._notify(f"the night goes on, but is not kept on disk: {error}")
            return False
        return True

    async def _wait_for_room(self) -> None:
        """The end is tried for longer: a night that is over, and is not known to be, is begun again."""
        limit = self._clock.wall() + ROOM_S
        while not self.saved and self._clock.wall() < limit:
            await self._pause(ROOM_BEAT_S)
            self.save()
        self._pour()


__all__ = ["NightRunner", "Plan", "plan_json"]
