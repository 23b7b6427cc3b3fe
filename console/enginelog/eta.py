"""When a boot will be ready: from earlier boots' durations, from the progress bar, or honestly not known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from console.base.absent import Absent
from console.enginelog.progress import Bar
from console.enginelog.stages_model import Stage

# A single earlier boot says nothing of how boots differ: a third either way. Inferred from published boots of one
# recipe, whose loads lie within 268..355 s on one night.
_LONE_SPREAD: Final = 1 / 3
# A bar's own estimate moves by about a tenth while shards differ in size (inferred).
_BAR_SPREAD: Final = 0.1
# The draft's pass over the same shards took 8..30 % of the main model's in the logs at hand.
_SECOND_PASS: Final = (0.08, 0.30)
_FIRST: Final = Stage.ARGUMENTS
_LAST: Final = Stage.HTTP


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds from now until the API answers. seconds: the middle; low, high: the band. Each is Absent, with the
    reason, when nothing bears an estimate out. stage_s: seconds left in the present stage alone. basis: where the
    figures come from, for the operator. meets_deadline: True or False only when the whole band lies on one side of the
    deadline."""

    seconds: float | Absent
    low: float | Absent
    high: float | Absent
    stage_s: float | Absent
    basis: str
    meets_deadline: bool | None = None


def estimate(
    stage: Stage | None,
    in_stage_s: float,
    *,
    earlier: Sequence[Mapping[Stage, float]] = (),
    bar: Bar | Absent = Absent("no progress bar"),  # noqa: B008 (frozen)
    weights_pass: int | Absent = Absent("not loading"),  # noqa: B008 (frozen)
    passes: int = 1,
    deadline_s: float | None = None,
) -> Eta:
    """The remaining time of a boot.

    stage: the stage that the slowest rank is in; None before the first line. in_stage_s: seconds since it came there.
    earlier: seconds by stage of earlier boots of the same recipe that came to be ready (`BoardTracker.durations`); a
    stage that one lacks counts as zero. bar: the present progress bar, used for WEIGHTS alone. weights_pass, passes:
    which loading pass it is, and of how many. deadline_s: seconds from now to the deadline.
    """
    now = stage if stage is not None and stage >= _FIRST else _FIRST
    if now > _LAST:
        return Eta(0.0, 0.0, 0.0, 0.0, "the boot is through", None if deadline_s is None else deadline_s >= 0)
    spent = max(0.0, in_stage_s) if stage is not None and math.isfinite(in_stage_s) else 0.0
    from_bar = _by_bar(now, bar, weights_pass, passes)
    boots = [boot for boot in (_usable(boot) for boot in earlier) if boot]
    if not boots:
        reason = Absent("no earlier boot of this recipe to go by")
        alone = from_bar[0] if from_bar else reason
        basis = "progress bar, this stage only" if from_bar else "nothing to go by"
        # What is left of one stage is a floor for the whole: it can miss a deadline, not meet it.
        missed = deadline_s is not None and (deadline_s < 0 or (from_bar is not None and from_bar[1] > deadline_s))
        return Eta(reason, reason, reason, alone, basis, False if missed else None)
    later = [sum(s for at, s in boot.items() if at > now) for boot in boots]
    here = [boot.get(now, 0.0) for boot in boots]
    late = spent > max(here)
    left = [max(0.0, seconds - spent) for seconds in here]
    if from_bar is not None:
        middle, low_here, high_here = from_bar
        basis = f"progress bar and {_boots(len(boots))}"
    else:
        middle, low_here, high_here = median(left), min(left), max(left)
        basis = _boots(len(boots))
        if late:
            # It is past every earlier boot: the rest of this stage cannot be known, only that it is not yet over.
            basis += f"; longer in {now.word} than any"
    low, seconds, high = low_here + min(later), middle + median(later), high_here + max(later)
    if len(boots) == 1:
        low, high = (
            low_here * (1 - _LONE_SPREAD) + later[0] * (1 - _LONE_SPREAD),
            (high_here + later[0]) * (1 + _LONE_SPREAD),
        )
    low, high = min(low, seconds), max(high, seconds)
    if late and from_bar is None:
        unknown = Absent(f"{now.word} takes longer than in any earlier boot")
        verdict = False if deadline_s is not None and low > deadline_s else None
        return Eta(seconds, low, unknown, unknown, basis, verdict)
    return Eta(seconds, low, high, middle, basis, _verdict(low, high, deadline_s))


def _usable(boot: Mapping[Stage, float]) -> dict[Stage, float]:
    return {stage: s for stage, s in boot.items() if _FIRST <= stage <= _LAST and math.isfinite(s) and s >= 0}


def _by_bar(
    stage: Stage, bar: Bar | Absent, weights_pass: int | Absent, passes: int
) -> tuple[float, float, float] | None:
    """(middle, low, high) seconds left of WEIGHTS by its bar, with the draft's pass still to come if there is one."""
    if (
        stage is not Stage.WEIGHTS
        or isinstance(bar, Absent)
        or not bar.is_shards
        or isinstance(bar.remaining_s, Absent)
    ):
        return None
    left = bar.remaining_s
    low, high = left * (1 - _BAR_SPREAD), left * (1 + _BAR_SPREAD)
    if passes > 1 and weights_pass == 1:
        whole = bar.elapsed_s + left
        low += whole * _SECOND_PASS[0]
        high += whole * _SECOND_PASS[1]
        left += whole * sum(_SECOND_PASS) / 2
    return left, low, high


def _boots(count: int) -> str:
    return "one earlier boot" if count == 1 else f"{count} earlier boots"


def _verdict(low: float, high: float, deadline_s: float | None) -> bool | None:
    if deadline_s is None:
        return None
    return True if high <= deadline_s else False if low > deadline_s else None
