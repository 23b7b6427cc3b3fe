"""The figures of a boot that every face tells: each from which event to which, and written one way."""

from __future__ import annotations

from console.base.units import NA, duration, gib, took
from console.boot.state import BootState
from console.boot.windows import GAP_S
from console.enginelog.stages_model import Stage

UNSEEN_S = GAP_S
API = "api"


def ready_seconds(state: BootState) -> float | None:
    """Seconds from the launch to ready: the first sane answer to a request, as this console saw it. Of a deployment
    that was found serving that moment is not known: then to the head's own word that its API is up (`ready_by`), which
    comes some seconds earlier; None where not even that is known, or it is not ready."""
    if state.ready_at is None:
        return None
    if ready_by(state) != API:
        return round(state.ready_at - state.launched_at, 3)
    served = _served_at(state)
    return round(served - state.launched_at, 3) if served is not None and served >= state.launched_at else None


def ready_by(state: BootState) -> str:
    """`answer`, `api` where `ready_seconds` ends at the API's start, "" while it is not ready."""
    if state.ready_at is None:
        return ""
    if not state.adopted:
        return "answer"
    served = _served_at(state)
    seen = state.seen_from
    return "answer" if seen is not None and served is not None and served > seen else API


def _served_at(state: BootState) -> float | None:
    cells = (c for r in state.ranks if r.rank == 0 for c in r.cells)
    return next((c.at for c in cells if c.stage is Stage.HTTP and c.at is not None), None)


def ready_text(seconds: float | None, by: str = "") -> str:
    """`0:23`, or `0:17 (API)` where the moment of the first sane answer is not known."""
    if seconds is None:
        return NA
    return took(seconds) + (" (API)" if by == API else "")


def elapsed_seconds(state: BootState, now: float) -> float:
    """Seconds from the launch to the boot's end; until it has one, to the stop that was asked, else to now."""
    end = state.ended_at if state.ended_at is not None else state.stop_at if state.stop_at is not None else now
    return max(0.0, end - state.launched_at)


def elapsed_text(state: BootState, now: float) -> str:
    """Of a boot that is over to the nearest second; of one that goes on as a clock has it, cut."""
    seconds = elapsed_seconds(state, now)
    return took(seconds) if state.ended_at is not None else duration(seconds)


def speed_text(tokens_per_s: float | None) -> str:
    """Tokens a second of the one request whose sane answer made the boot ready: `41.3`; n/a where none did. What later
    requests, the engine's own load and `measure` come to are other figures, and none takes its place."""
    return NA if tokens_per_s is None else f"{tokens_per_s:.1f}"


def lowest_text(size: int | None) -> str:
    """Least memory available on any node while a console looked: `13.9 GiB`."""
    return NA if size is None else gib(size)


def unseen_text(started_at: float, seen_from: float | None, unseen_s: float, size: int | None) -> str:
    """What the lowest memory leaves out, "" where a console looked all the time. unseen_s: without the beginning."""
    if size is None:
        return "no sample was kept: no console looked"
    first = 0.0 if seen_from is None else seen_from - started_at
    parts = []
    if first >= UNSEEN_S:
        parts.append(f"its first {took(first)}")
    if unseen_s >= UNSEEN_S:
        parts.append(f"{took(unseen_s)} later on" if parts else f"{took(unseen_s)} of it")
    return f"nobody looked for {' and '.join(parts)}" if parts else ""
