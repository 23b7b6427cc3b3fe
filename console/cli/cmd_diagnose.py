"""`diagnose`: which rank failed first and why, from saved logs; nothing is asked of a node."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable

from console.base.errors import ExitCode, UsageError
from console.base.times import utc_text
from console.cli.out import Out
from console.cli.world import World
from console.enginelog.causes_model import Cause, Diagnosis, Verdict
from console.enginelog.diagnose import cause_json, diagnose
from console.files.evidence_folder import LogFile, find_evidence, stream

_WORDS = {
    Verdict.FAILED: "FAILED",
    Verdict.HUNG: "HUNG: nothing ended, and nothing moves",
    Verdict.HEALTHY: "healthy: no sign of a failure",
    Verdict.SERVING_BAD: "UP, AND ITS ANSWERS ARE NO SENSE",
    Verdict.INCOMPLETE: "no sign of a failure, and none that the boot came to its end",
}


def run(args: argparse.Namespace, world: World, out: Out) -> int:
    found = find_evidence(list(args.files))
    cut: list[str] = []
    read = [0]
    logs = [(log.name, log.rank, _opener(log, cut.append, read)) for log in found.logs]
    diagnosis = diagnose(logs, found.states, found.kernel, found.guard)
    cut = list(dict.fromkeys(cut))
    for why in cut:
        out.say(f"warning: {why}")
    if not read[0] and not found.states and not found.kernel and not found.guard and not cut:
        names = ", ".join("standard input" if log.name == "-" else log.name for log in found.logs[:4])
        raise UsageError(f"{names or 'the input'}: holds no line, so nothing can be said of a boot")
    if out.as_json:
        out.data(
            {
                "schema": 1,
                "verdict": str(diagnosis.verdict),
                "cause": cause_json(diagnosis.cause),
                "others": [cause_json(c) for c in diagnosis.others],
                "cut": cut,
            }
        )
    else:
        _tell(diagnosis, out)
    return ExitCode.DONE if diagnosis.verdict.good else ExitCode.FAILED


def _opener(log: LogFile, cut: Callable[[str], None], read: list[int]) -> Callable[[], Iterable[bytes]]:
    """read: set to 1 in its first place as soon as anything but blanks comes."""

    def blocks() -> Iterable[bytes]:
        for block in stream(log, sys.stdin.buffer, cut):
            if not read[0] and block.strip(b" \t\r\n\0"):
                read[0] = 1
            yield block

    return blocks


def _tell(diagnosis: Diagnosis, out: Out) -> None:
    out.line(_WORDS[diagnosis.verdict])
    cause = diagnosis.cause
    if cause is None:
        if not diagnosis.verdict.good:
            out.line("  why       the log ends before it says why")
        for other in diagnosis.others:
            out.line(f"  note      {other.sentence} ({_where(other)})")
        return
    out.line(f"  who       {_where(cause)}")
    if cause.at is not None:
        out.line(f"  when      {utc_text(cause.at)}")
    if cause.stage:
        out.line(f"  stage     {cause.stage}")
    out.line(f"  why       {cause.sentence}  [{cause.cls}]")
    if cause.file:
        out.line(f"  where     {cause.file}:{cause.line}")
    for number, text in enumerate(cause.evidence):
        out.line(f"  {'evidence' if number == 0 else '':<9} {text[:400]}")
    out.line(f"  what now  {cause.action}")
    if cause.victims:
        out.line(f"  victims   {', '.join(f'rank {r}' for r in cause.victims)}")
    for other in diagnosis.others:
        out.line(f"  also      {_where(other)}: {other.sentence}  [{other.cls}]")


def _where(cause: Cause) -> str:
    if cause.rank is not None:
        return cause.who
    rank = "a rank that the log does not name"
    return f"{rank} on {cause.node}" if cause.node else rank
