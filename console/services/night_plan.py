"""What is to run in a night, as it is written down, and what a boot that did not serve is called."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from console.boot.night_model import Result, Rules, Run
from console.boot.state import BootState
from console.boot.state import Phase as BootPhase
from console.services.measure import MeasureSpec


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to run, read and settled. override: codes of findings that do not keep a launch from being made."""

    name: str
    rules: Rules
    runs: tuple[Run, ...]
    override: tuple[str, ...] = ()
    measure: MeasureSpec = field(default_factory=MeasureSpec)


def plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "rules": asdict(plan.rules),
        "runs": [asdict(r) for r in plan.runs],
        "override": list(plan.override),
        "measure": asdict(plan.measure),
    }


def shown_recipe(recipe: str) -> str:
    """A recipe's name; one that a step's changes made is a file of the night's own."""
    path = Path(recipe)
    return f"{path.parent.name}, changed" if path.name == "recipe.toml" else recipe


def _cause(state: BootState) -> str:
    cause = state.cause
    if cause is None:
        return ""
    named = cause.rank is None or f"rank {cause.rank}" in cause.sentence.lower()
    rank = "" if named else f"{cause.who}: "
    return f"{rank}{cause.sentence}"


def not_ready(base: Result, state: BootState, word: str, *, stopped: bool) -> Result:
    if state.phase.over:
        why = _cause(state) or state.failed_why or "it was stopped by somebody else"
        return replace(base, outcome="failed", why=why)
    if stopped:
        return replace(base, outcome="cut", why="the operator stopped the night")
    if state.phase is BootPhase.SERVING_BAD:
        return replace(base, outcome="bad_text", why=state.smoke_why or "its answers are no sense")
    slowest = min((r for r in state.ranks if r.stage is not None), key=lambda r: int(r.stage or 0), default=None)
    where = f"; rank {slowest.rank} was in {slowest.stage.word}" if slowest is not None and slowest.stage else ""
    return replace(base, outcome=word, why=("the hard end came" if word == "cut" else "not ready in time") + where)
