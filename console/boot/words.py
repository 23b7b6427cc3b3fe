"""Sentences that several faces say the same way."""

from __future__ import annotations

from collections.abc import Iterable

from console.boot.events import Cause


def victims_in_words(cause: Cause, ranks: Iterable[int]) -> str:
    """ "ranks 0, 2-7 fell because of it", or nothing."""
    rows = sorted(set(cause.victims) & set(ranks))
    if not rows:
        return ""
    runs: list[list[int]] = []
    for rank in rows:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    text = ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)
    return f"rank{'s' if len(rows) > 1 else ''} {text} fell because of it"
