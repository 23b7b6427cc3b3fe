"""A boot told as it happens, for `launch`, `restart` and scripts that watch."""

from __future__ import annotations

import asyncio
import contextlib

from console.base.errors import ExitCode
from console.boot.awaited import awaited
from console.boot.events import (
    ApiSeen,
    BootFailed,
    BootOpened,
    CauseFound,
    ContainerSeen,
    DeadlinePassed,
    EtaChanged,
    Event,
    NodeBack,
    NodeLost,
    RankProgress,
    SmokeDone,
    Stalled,
    StatsSeen,
    StepChanged,
    StopEnded,
    StopSeen,
)
from console.boot.figures import elapsed_text, ready_by, ready_seconds, ready_text, speed_text
from console.boot.state import GONE, BootState, Phase
from console.boot.to_json import awaited_json, deployment_json, event_json, stamp
from console.boot.words import expected, victims_in_words
from console.cli.out import Out
from console.cli.progress import Progress
from console.cli.times import clock, minute
from console.services.hub import HubApi

# A rank's last lines come a moment after its container's end, and the other ranks' words a moment later still.
CAUSE_LIMIT_S = 4.0
CAUSE_QUIET_S = 1.0
ETA_MOVES_S = 120.0


def clock_text(seconds: float) -> str:
    """Seconds as m:ss, or h:mm:ss from an hour on."""
    s = max(0, int(seconds))
    return f"{s // 3600}:{s % 3600 // 60:02}:{s % 60:02}" if s >= 3600 else f"{s // 60}:{s % 60:02}"


class Teller:
    """Prints events as they come: JSON lines, or a line for people where something worth a line happened."""

    def __init__(self, out: Out) -> None:
        self._out = out
        out.go_beside()
        self._progress = Progress(self._line)
        self._failed: set[tuple[str, str]] = set()
        self._mine: set[str] = set()
        self._told = ""
        self._eta: tuple[float | None, bool | None] = (None, None)

    def heard(self, deployment: str, event: Event) -> None:
        """Events of what this command launches; a deployment that was there before is not its story.

        Called in the midst of a launch or a stop, which goes on where nobody reads any more: whoever follows hears of
        the pipe's end by writing into it."""
        try:
            self._tell(deployment, event)
        except BrokenPipeError:
            self._told = ""

    def _tell(self, deployment: str, event: Event) -> None:
        if isinstance(event, BootOpened) and not event.adopted:
            self._mine.add(deployment)
        if deployment not in self._mine and not isinstance(event, (StepChanged, StopSeen, StopEnded)):
            return
        if self._out.as_json:
            if not isinstance(event, StatsSeen):
                self._out.data(event_json(event), line=True)
            return
        if isinstance(event, RankProgress):
            self._progress.heard(event)
            return
        text = self._words(event)
        if text:
            self._progress.flush()
            self._line(event.at, text)

    def _line(self, at: float, text: str) -> None:
        self._out.line(f"{clock(at)} {text}")
        self._out.flush()

    def flush(self) -> None:
        """Say what is held back for a moment, before something else is said."""
        with contextlib.suppress(BrokenPipeError):
            self._progress.flush()

    def _words(self, event: Event) -> str:
        match event:
            case StepChanged():
                return self._step(event)
            case ContainerSeen(status="exited" | "dead"):
                return f"rank {event.rank}: container {event.status} with exit code {event.exit_code}"
            case ContainerSeen(status="absent"):
                return f"rank {event.rank}: its container is gone"
            case NodeLost():
                return f"{event.node}: no answer ({event.trouble}): {event.detail}"
            case NodeBack():
                return f"{event.node}: answers again{', it was rebooted' if event.rebooted else ''}"
            case EtaChanged():
                return self._expected(event)
            case ApiSeen(state="healthy" | "wrong_model" | "error"):
                return f"API {event.state}{': ' + event.detail if event.detail else ''}"
            case SmokeDone(canary=False):
                return _answered(event)
            case DeadlinePassed():
                return "the deadline has passed; the deployment is kept"
            case Stalled():
                return f"stalled: {'; '.join(event.signs)}" if event.signs else "it moves again"
            case CauseFound():
                return self._cause(event)
            case BootFailed():
                return f"failed: {event.why}"
            case _:
                return ""

    def _expected(self, event: EtaChanged) -> str:
        """Said where it is first known, where it moves by minutes, and where the deadline comes in or out of reach."""
        new = (event.eta_at, event.in_time)
        (at, verdict), self._eta = self._eta, new
        news = event.in_time != verdict or (event.eta_at is None) != (at is None)
        if not news and abs((event.eta_at or 0.0) - (at or 0.0)) < ETA_MOVES_S:
            self._eta = (at, verdict)
            return ""
        return expected(event, minute) if event.eta_at is not None or event.in_time is not None else ""

    def _cause(self, event: CauseFound) -> str:
        who = f" ({event.cause.who})" if event.cause.who else ""
        text = f"cause: {event.cause.sentence}{who}"
        if text == self._told:
            return ""
        self._told = text
        return text

    def _step(self, event: StepChanged) -> str:
        """What failed is not left to be read as over where it is tried again."""
        which = (event.step, event.node)
        if event.state in ("failed", "unknown"):
            self._failed.add(which)
            return f"{event.step}: {event.node} {event.state}: {event.detail}"
        again = which in self._failed
        if event.state == "running":
            self._failed.discard(which)
            return f"{event.step}: {event.node} is tried again" if again else ""
        if event.state != "done":
            return ""
        self._failed.discard(which)
        return f"{event.step}: {event.node} done{' after all' if again else ''}"


class WaitTeller:
    """Tells who the others wait for at the rendezvous: once it is late, and again when others are missing."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._told: tuple[tuple[int, str], ...] = ()

    def look(self, state: BootState, now: float) -> None:
        found = awaited(state, now)
        if found is None or not found.late:
            return
        # What is known of a rank may carry seconds that move; its number and its container's state do not.
        status = {r.rank: r.status or "" for r in state.ranks}
        mark = tuple((m.rank, status[m.rank]) for m in found.missing)
        if mark == self._told:
            return
        self._told = mark
        if self._out.as_json:
            self._out.data({"event": "awaited", "at": stamp(now), **(awaited_json(state, now) or {})}, line=True)
        else:
            self._out.line(f"{clock(now)} {found.sentence}")
            self._out.flush()


def tell_notices(hub: HubApi, out: Out) -> None:
    """What went wrong beside the work: a boot that is not kept on disk, a log that could not be saved."""
    for text in dict.fromkeys(f"{n.severity}: {n.text}" for n in hub.snapshot().notices if n.severity != "info"):
        out.say(text)


async def follow_to_ready(
    hub: HubApi, out: Out, deployment: str, teller: Teller | None = None, *, kept: bool = True
) -> int:
    """Until ready, failed, stopped or past the deadline; the exit code says which. Cancelling only stops watching.
    kept: a deployment that failed is left standing, and said to be."""
    changed = asyncio.Event()
    unsubscribe = hub.subscribe(changed.set)
    waiting = WaitTeller(out)
    try:
        while True:
            changed.clear()
            out.flush()  # the reader of a pipe went away: there is nobody to follow it for
            state = _find(hub, deployment)
            if state is not None:
                waiting.look(state, hub.now())
            code = None if state is None else verdict_code(state, hub.now())
            if state is not None and code is not None:
                if state.phase is Phase.FAILED:
                    state = await _explained(hub, deployment, changed) or state
                if teller is not None:
                    teller.flush()
                tell_end(state, hub, out, kept=kept)
                return code
            try:
                async with asyncio.timeout(1.0):
                    await changed.wait()
            except TimeoutError:
                continue  # the deadline passes without an event too
    finally:
        unsubscribe()


async def _explained(hub: HubApi, deployment: str, changed: asyncio.Event) -> BootState | None:
    """The state once the last lines of the logs have been read and have had their say, or after a limit."""
    loop = asyncio.get_running_loop()
    until = loop.time() + CAUSE_LIMIT_S
    quiet = loop.time() + CAUSE_QUIET_S
    told = None
    while (now := loop.time()) < until:
        state = _find(hub, deployment)
        cause = state.cause if state is not None else None
        if cause != told:
            told, quiet = cause, now + CAUSE_QUIET_S
        # The first end that is heard of may be a victim's, whose node only spoke before that of the rank that fell.
        ended = state is not None and all(r.status in GONE or not r.reachable for r in state.ranks)
        if cause is not None and ended and now >= quiet:
            break
        changed.clear()
        try:
            async with asyncio.timeout(0.2):
                await changed.wait()
        except TimeoutError:
            continue
    return _find(hub, deployment)


def _find(hub: HubApi, deployment: str) -> BootState | None:
    snap = hub.snapshot()
    rows = [*snap.boots, *([snap.boot] if snap.boot is not None else [])]
    return next((b for b in rows if b.deployment == deployment), None)


def verdict_code(state: BootState, now: float) -> int | None:
    """The exit code of a boot that came to an end, or to that of its deadline; None while it goes on."""
    if state.phase in (Phase.READY, Phase.DEGRADED):
        return ExitCode.DONE if state.phase is Phase.READY else ExitCode.FAILED
    if state.phase in (Phase.FAILED, Phase.STOPPED, Phase.STOPPING):
        return ExitCode.FAILED
    # A greedy request gets the same answer each time: one repetition is enough to believe it.
    if state.phase is Phase.SERVING_BAD and (state.smoke_bad >= 2 or now >= state.deadline_at):
        return ExitCode.FAILED
    return ExitCode.NOT_READY if now >= state.deadline_at else None


def tell_end(state: BootState, hub: HubApi, out: Out, *, kept: bool = True) -> None:
    now = hub.now()
    if out.as_json:
        out.data({"schema": 1, "deployments": [deployment_json(state, now)]}, line=True)
        return
    took = elapsed_text(state, now)
    if state.phase is Phase.READY:
        after = ready_text(ready_seconds(state), ready_by(state))
        out.line(f"ready after {after}: {state.served_name} on http://{state.head_node}:{state.port}")
    elif state.phase is Phase.FAILED:
        out.line(f"failed after {took}: {state.failed_why}")
        if state.cause is not None:
            who = state.cause.who
            fell = victims_in_words(state.cause, [r.rank for r in state.ranks])
            if who or fell:
                out.line(f"  who       {'; '.join(part for part in (who, fell) if part)}")
            out.line(f"  why       {state.cause.sentence}")
            for line in state.cause.evidence[:3]:
                out.line(f"  evidence  {line}")
            out.line(f"  what now  {state.cause.action}")
        if kept:
            out.line("  the containers are kept for their logs: `nightdeck logs`, then `nightdeck stop`")
    elif state.phase is Phase.SERVING_BAD:
        out.line(f"serving, but not sane after {took}: {state.smoke_why}")
        out.line(f"  the answer  {state.smoke_text}")
        if kept:
            out.line("  the deployment is kept: `nightdeck logs`, `nightdeck smoke`, `nightdeck stop`")
    elif now >= state.deadline_at:
        out.line(f"not ready after {clock_text(state.deadline_s)}; the deployment is kept: `nightdeck status`")
        if state.smoke_why:
            out.line(f"  last answer: {state.smoke_why}")
        if waiting := awaited(state, now):
            out.line(f"  waiting     {waiting.sentence}")
    else:
        out.line(f"{state.phase}: {state.recipe} boot {state.number}")


def _answered(event: SmokeDone) -> str:
    """The smoke test in one line."""
    if not event.ok:
        return f"a short request: {event.why}"
    first = "" if event.first_token_s is None else f", first token {event.first_token_s:.2f} s"
    speed = "" if event.tokens_per_s is None else f", {speed_text(event.tokens_per_s)} tokens/s"
    notes = "".join(f"; {note}" for note in event.notes)
    return f"a short request was answered: {event.text!r}{first}{speed}{notes}"
