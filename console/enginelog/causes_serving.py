"""After ready: an engine that is up and answers nothing, or answers no sense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from console.base.absent import Absent
from console.enginelog.causes_finding import Finding, Tier, state_finding
from console.enginelog.causes_world import differences
from console.enginelog.evidence import Evidence, RankEvidence
from console.enginelog.stages_model import CellState, Stage

# Nine statistics lines of ten seconds with requests running and no token (a public hang check's limit).
STILL_LINES: Final = 9


def unserved(evidence: Evidence, found: Sequence[Finding]) -> Finding | None:
    """What requests and statistics say, where no rank failed."""
    head = _head(evidence)
    if head is None:
        return None
    if evidence.garbage:
        words = f"The engine is up, and its answers are no sense: {evidence.garbage}."
        return state_finding(head, "garbage_output", words, evidence=(evidence.garbage,), stage="serving")
    trail = head.trail
    up = came_up(evidence) or (evidence.health is not None and evidence.health.ok is True)
    if trail is not None and trail.still >= STILL_LINES and trail.still_from is not None:
        words = f"Requests run, and for {trail.still * 10} s no token came."
        return Finding(
            "serving_hang", words, state_finding(head, "serving_hang").action, Tier.STATE, 60, head.rank, head.node,
            "serving", head.file, trail.still_from.index + head.line_offset, at=trail.still_from.docker_at,
            evidence=trail.tail[-1:],
        )  # fmt: skip
    request = evidence.request
    if up and request is not None and request.ok is False and (trail is None or trail.stop is None):
        how = request.error or (f"HTTP {request.status}" if request.status else "no answer")
        words = f"The engine says that it is up, and a request of one token was not answered: {how}."
        behind = _differing(evidence)
        return behind or state_finding(head, "serving_hang", words, evidence=(how,), stage="serving")
    if evidence.stall_signs and not up:
        who = _laggard(evidence) or head
        words = f"Nothing moves any more: {'; '.join(evidence.stall_signs)}."
        return state_finding(who, "collective_hang", words, evidence=evidence.stall_signs)
    if evidence.deadline_passed and not up:
        return state_finding(
            head, "ready_timeout", "The deadline passed before the engine was ready; no fault was seen.",
            action="give it more time if it still moves (a slow disk or NAS), else look at the rank that is behind",
        )  # fmt: skip
    return None


def came_up(evidence: Evidence) -> bool:
    """The head said that it serves; without a head's log: every worker at hand has done what a worker has to do.
    Inferred for workers, which have no line that says so."""
    heads = [r for r in evidence.ranks if r.trail is not None and r.trail.ready is not None]
    if heads or any(_answers(r) for r in evidence.ranks):
        return True
    if any(r.rank == 0 for r in evidence.ranks):
        return False
    logs = [r for r in evidence.ranks if r.trail is not None and r.trail.lines]
    return bool(logs) and all(_worker_done(r) for r in logs)


def _answers(where: RankEvidence) -> bool:
    """Requests are answered, whether or not the line is at hand that says that the server is up: some captures lack
    standard error."""
    if where.trail is None or not where.cells or where.cells[Stage.HTTP].line is None:
        return False
    return any(' HTTP/1.1" 200' in line or "Avg generation throughput: " in line for line in where.trail.tail)


def _worker_done(where: RankEvidence) -> bool:
    if where.numbers is None or not where.cells:
        return False
    graphs = where.cells[Stage.GRAPHS]
    if graphs.state is CellState.DONE:
        return True
    eager = not isinstance(where.numbers.eager, Absent) or graphs.state is CellState.SKIPPED
    # An engine on gloo is on CPUs, which capture no graphs.
    eager = eager or where.numbers.backend == "gloo"
    return eager and where.cells[Stage.KV_CACHE].line is not None and where.rank not in (0, None)


def _head(evidence: Evidence) -> RankEvidence | None:
    ranks = evidence.ranks
    return next((r for r in ranks if r.rank == 0), ranks[0] if ranks else None)


def _differing(evidence: Evidence) -> Finding | None:
    found = differences(evidence)
    return max(found, key=lambda f: f.weight) if found else None


def _laggard(evidence: Evidence) -> RankEvidence | None:
    """The rank whose log got least far; None where they stand alike."""
    reached = {
        r.rank: max((c.stage for c in r.cells if c.line is not None), default=Stage.IMAGE)
        for r in evidence.ranks
        if r.trail is not None
    }
    if len(set(reached.values())) < 2:
        return None
    worst = min(reached.values())
    behind = [r for r in evidence.ranks if r.rank in reached and reached[r.rank] == worst]
    return behind[0] if len(behind) == 1 else None
