"""The night as values: what is to run, what came of it, and what to do next. Time is an argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

# How often a condition is looked at again.
LOOK_S: Final = 15.0
# A run that a dead controller cut short is tried again this often in all.
ATTEMPTS: Final = 2


class Phase(StrEnum):
    """restoring: nothing new begins, the baseline comes back. done: the night is over."""

    WAITING = "waiting"
    RUNNING = "running"
    RESTORING = "restoring"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Run:
    """One launch of the night. recipe: a name or a recipe.toml. ready_by: epoch seconds of its decision time;
    otherwise: the recipe to launch if it is not ready by then, or fails."""

    number: int
    recipe: str
    label: str
    role: str = "trial"  # trial, baseline, otherwise
    measure: bool = True
    ready_by: float | None = None
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """Times are epoch seconds. hard_end: no trial goes on after it. quiet_s: nobody asked the model for so long.
    give_up_after: failures in a row ("two deaths: stop and regroup", night-trials 6.1)."""

    hard_end: float
    start_after: float | None = None
    max_gpu_temp_c: float = 60.0
    quiet_s: float = 900.0
    give_up_after: int = 2
    baseline: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the nodes say. hottest: (node, °C), None where no temperature is known. unknown: nodes without a sample.
    quiet_s: how long nobody asked the model, None where nothing serves."""

    hottest: tuple[str, float] | None = None
    unknown: tuple[str, ...] = ()
    quiet_s: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """outcome: `served`, `bad_text`, `failed`, `not_ready`, `cut` (the hard end, or the operator), `interrupted` (the
    controller died)."""

    run: int
    recipe: str
    label: str
    role: str
    outcome: str
    why: str = ""
    deployment: str = ""
    boot: int | None = None
    started_at: float = 0.0
    ended_at: float = 0.0
    ready_s: float | None = None
    text: str = ""
    measure: Mapping[str, Any] | None = None
    measure_why: str = ""


@dataclass(frozen=True, slots=True)
class Night:
    """next: index of the next run. began: some run has begun, so the conditions of the start are past. pending: a run
    that a decision put before the rest. running: the run under way, with its deployment. left_serving: the recipe
    that is left running at the end."""

    id: str
    phase: Phase = Phase.WAITING
    next: int = 0
    began: bool = False
    failures: int = 0
    pending: Run | None = None
    running: Run | None = None
    deployment: str = ""
    results: tuple[Result, ...] = ()
    stop_asked: bool = False
    why: str = ""
    left_serving: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Start:
    run: Run


@dataclass(frozen=True, slots=True)
class Restore:
    why: str


@dataclass(frozen=True, slots=True)
class Finish:
    why: str


Action = Wait | Start | Restore | Finish


def next_action(night: Night, rules: Rules, runs: Sequence[Run], now: float, seen: Seen) -> Action:
    """What to do now. Asked again after each wait and each run."""
    if night.phase is Phase.DONE:
        return Finish(night.why)
    over = _over(night, rules, runs, now)
    if over:
        return Restore(over)
    run = night.pending if night.pending is not None else runs[night.next]
    if run.role == "otherwise":
        return Start(run)  # a decision time has passed: nothing is waited for
    wait = _wait(night, rules, now, seen)
    return wait if wait is not None else Start(run)


def _over(night: Night, rules: Rules, runs: Sequence[Run], now: float) -> str:
    if night.phase is Phase.RESTORING:
        return night.why
    if night.stop_asked:
        return "the operator stopped the night"
    if now >= rules.hard_end:
        return "the hard end has come"
    if night.failures >= rules.give_up_after:
        return f"{night.failures} failures in a row"
    if night.pending is None and night.next >= len(runs):
        return "everything has run"
    return ""


def _wait(night: Night, rules: Rules, now: float, seen: Seen) -> Wait | None:
    if not night.began and rules.start_after is not None and now < rules.start_after:
        return Wait(min(rules.start_after - now, 60.0), "the start time has not come")
    if not night.began and seen.quiet_s is not None and seen.quiet_s < rules.quiet_s:
        left = rules.quiet_s - seen.quiet_s
        return Wait(min(left, LOOK_S), f"a client used the model {seen.quiet_s / 60:.0f} min ago")
    if seen.unknown:
        return Wait(LOOK_S, f"no word from {', '.join(seen.unknown[:4])}")
    if seen.hottest is not None and seen.hottest[1] > rules.max_gpu_temp_c:
        node, degrees = seen.hottest
        return Wait(LOOK_S, f"the GPU of {node} has {degrees:.0f} °C; {rules.max_gpu_temp_c:.0f} are allowed")
    return None


def until(run: Run, rules: Rules, boot_deadline: float | None) -> tuple[float, str]:
    """How long a run is waited for, and what ends it: its decision time, the boot's own deadline, or the hard end."""
    limits = [(rules.hard_end, "cut")]
    if run.ready_by is not None:
        limits.append((run.ready_by, "not_ready"))
    if boot_deadline is not None:
        limits.append((boot_deadline, "not_ready"))
    return min(limits)


def began(night: Night, run: Run) -> Night:
    return replace(night, phase=Phase.RUNNING, began=True, running=run, deployment="", why="", left_serving="")


def ended(night: Night, run: Run, result: Result) -> Night:
    """A run is over. One that fails, or is not ready in time, may have said what to run instead."""
    out = replace(night, running=None, deployment="", results=(*night.results, result))
    attempts = sum(1 for r in out.results if r.run == run.number and r.role == run.role)
    if result.outcome == "interrupted" and attempts < ATTEMPTS:
        return out  # the controller died, not the boot: the same run comes once more
    out = replace(out, pending=None) if night.pending is not None else replace(out, next=night.next + 1)
    if result.outcome in ("served", "cut"):
        failures = 0 if result.outcome == "served" else night.failures
    else:
        failures = night.failures + 1
    out = replace(out, failures=failures)
    if run.otherwise and result.outcome in ("failed", "not_ready", "bad_text", "interrupted"):
        instead = Run(run.number, run.otherwise, f"instead of {run.label}", "otherwise", measure=False)
        # A decision is the operator's own answer to this failure, so it does not end the night before it is made.
        out = replace(out, pending=instead, failures=min(failures, max(0, night.failures)))
    return out


def restoring(night: Night, why: str) -> Night:
    return replace(night, phase=Phase.RESTORING, why=why, running=None)


def finished(night: Night, left_serving: str, why: str = "") -> Night:
    return replace(night, phase=Phase.DONE, left_serving=left_serving, why=why or night.why)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the queue as it is written. aba: the baseline is measured before and after it."""

    recipe: str
    label: str
    repeats: int = 1
    aba: bool = False
    measure: bool = True
    ready_by: float | None = None
    otherwise: str = ""
    flags: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)


def expand(steps: Sequence[Step], recipes: Sequence[str], baseline: str) -> tuple[Run, ...]:
    """The steps as single runs, in order. recipes: what each step launches (a name, or the file that its overrides were
    written to). A baseline that was just measured is not measured again."""
    out: list[Run] = []

    def add(recipe: str, label: str, role: str, step: Step) -> None:
        if role == "baseline" and out and out[-1].role == "baseline":
            return
        trial = role == "trial"
        out.append(
            Run(
                len(out) + 1,
                recipe,
                label,
                role,
                step.measure,
                step.ready_by if trial else None,
                step.otherwise if trial else "",
            )
        )

    for step, recipe in zip(steps, recipes, strict=True):
        for n in range(step.repeats):
            if step.aba:
                add(baseline, "baseline", "baseline", step)
            label = step.label if step.repeats == 1 else f"{step.label} {n + 1}/{step.repeats}"
            add(recipe, label, "trial", step)
        if step.aba:
            add(baseline, "baseline", "baseline", step)
    return tuple(out)
