"""What a line must hold to matter to the search for causes: one look tells most lines from those that may."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from console.enginelog.digits import any_digits

# What launchers, service managers and older engines put before a line, and the record leaves in its text.
BEFORE: Final = re.compile(
    "(?:"
    + "|".join(
        (
            r"\[[Rr]ank ?\d{1,6}\]:? ?(?!\[)",
            r"\[\d{4}-\d\d-\d\dT[\d:.]{8,20}Z\] ?",
            r"[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \S{1,60} [^\s:]{1,60}: ?",
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{1,6} \[\w{1,10}\] (?:\(\w{1,20}\) )?",
            r"\[[IWEF] [\w./\-]{1,80}:\d{1,7}\] ?",
            r"\(\w{1,40} rank=\d{1,6} pid=\d{1,10}\) ?",
            r"\(\w[\w.]{0,60} pid=\d{1,10}[^)]{0,80}\) ?",
            r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./\\-]{1,120}:\d{1,7}\] ?",
            r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]{1,100}:",
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{1,6} - [\w.]{1,100} - (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - ",
            r"[IWEF]\d{4} \d\d:\d\d:\d\d(?:\.\d{1,9})? {1,7}\d{1,10} [\w./\-]{1,120}:\d{1,7}\] ?",
            r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] ?",
            r"\[(?:TRT-LLM|TensorRT-LLM)\] ?(?:\[RANK \d{1,6}\] ?)?\[[A-Z]{1,8}\] ?",
            r"\(raylet(?:, ip=[\w.:]{1,64})?\) ?",
            r"\[\d{4}-\d\d-\d\d [\d:,]{8,20} [IWEF] \d{1,10} \d{1,10}\] (?:\(\w{1,40}\) )?[\w.]{1,80}:\d{1,7}: ?",
        )
    )
    + ")+"
)
MAYBE_BEFORE: Final = frozenset("[(0123456789DIWECAFJMNOS")
_RANK: Final = re.compile(r"\[[Rr](?:ank|ANK) ?(\d{1,6})\]|\((\w{1,40}) rank=(\d{1,6}) pid=")
_LEVEL: Final = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\[([IWEF])[ \]]|(?:^|[ \]])([IWEF])(?=\d{4} | \d)")
_LETTERS: Final = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
CHAINED: Final = ("During handling of the above", "The above exception was the direct cause")
FIRED_UP: Final = "The server is fired up and ready"
TRACEBACK: Final = "Traceback (most recent call last)"
# The last line of a traceback whose beginning is not at hand.
ORPHAN: Final = re.compile(r"(?:[A-Za-z_][\w.]{0,100})?(?:Error|Exception|Interrupt): ")


@cache
def _loose() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """`BEFORE` and `ORPHAN` for texts with collapsed digits. What the first shuts out may come."""
    return re.compile(any_digits(BEFORE.pattern.replace(r"(?!\[)", ""))), re.compile(any_digits(ORPHAN.pattern))


def said_before(before: str) -> tuple[str | None, str | None]:
    """(level, process) that a prefix of `BEFORE` tells, each None where it tells none: `[rank3]: ` is the process
    "rank3", `(VllmWorker rank=1 pid=9)` is "VllmWorker rank=1"."""
    level, owner = _LEVEL.search(before), _RANK.search(before)
    # What relays another program's lines gives them a level of its own.
    said = None if level is None or " - INFO - " in before else level[1] or _LETTERS[level[2] or level[3]]
    return said, None if owner is None else f"{owner[2]} rank={owner[3]}" if owner[2] else f"rank{owner[1]}"


def touches(text: str) -> bool:
    """Whether a text with collapsed digits can matter to the causes, apart from signatures and from what came before
    it. False is certain for every text that differs from it in its digits alone, and in how many there are together."""
    before, orphan = _loose()
    return (
        before.match(text) is not None
        or TRACEBACK in text
        or text.startswith(CHAINED)
        or FIRED_UP in text
        or orphan.match(text) is not None
    )
