"""Which rank a line of a log is of: what the line and its writer say, never a guess."""

from __future__ import annotations

import re
from typing import Final

from console.base.absent import Absent
from console.enginelog.evidence import RankEvidence

# Writers that name a rank of the whole. What counts within a pipeline stage or a data-parallel engine alone names none.
_WRITER: Final = re.compile(
    r"rank(\d{1,5})|VllmWorker(?:-| rank=)(\d{1,5})|(?:Worker_TP|TP)(\d{1,5})(?:_(?:EP|DCP|PCP|ATTN)\d{1,5})*"
)
# Of the workers of one container, its own number there does.
_IN_CONTAINER: Final = re.compile(r"Worker_PP0_TP(\d{1,5})")
_WORDS: Final = re.compile(
    r"\[(?:PG [^\]\n]{0,80} )?[Rr]ank (\d{1,6})\]|^[Rr]ank (\d{1,6}) successfully"
    r"|^Failed to initialize executor on rank (\d{1,6}):|invoked on rank (\d{1,6})\b"
    r"|mpirun noticed that process rank (\d{1,6})|\bVllmWorker-(\d{1,6}) died"
    r"|^[Rr]ank (\d{1,6}) scheduler |^rank +: (\d{1,6}) \(local_rank"
)
_ADDRESS: Final = re.compile(r" ip=([\w.:]{1,64})$")
_LOOKED_AT: Final = 300


def told(process: str | None, *texts: str) -> int | None:
    """The rank that a line or its writer names; None where neither does, or both name different ones."""
    ranks = set()
    found = _WRITER.fullmatch(process) if process is not None else None
    for match in (found, *(_WORDS.search(text[:_LOOKED_AT]) for text in texts)):
        if match is not None:
            ranks.add(int(next(g for g in match.groups() if g is not None)))
    return ranks.pop() if len(ranks) == 1 else None


def node_of(where: RankEvidence, process: str | None, said: str = "") -> str:
    """The node that a line is of: the one that it says itself, that of its log, or the address that Ray puts beside a
    worker's name."""
    if where.node or said:
        return where.node or said
    found = None if process is None else _ADDRESS.search(process)
    return "" if found is None else found[1]


def rank_of(where: RankEvidence, process: str | None, *texts: str) -> int | None:
    """The rank that a line of a rank's log is of: in a container of several workers the worker's own, and what the line
    names where the log's own rank is not known, or is only that of a log with a head's lines in it."""
    named = told(process, *texts)
    if where.rank is None or where.guessed:
        return where.rank if named is None else named
    joined = where.numbers.joined if where.numbers is not None else ()
    if isinstance(joined, Absent) or len(joined) < 2 or process is None:
        return where.rank
    if inside := _IN_CONTAINER.fullmatch(process):
        return int(inside[1])
    found = _WRITER.fullmatch(process)
    return int(next(g for g in found.groups() if g is not None)) if found else where.rank
