"""The shapes that the head of an engine's log line takes, over versions and launchers."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

# vllm/logger.py: `[(proc pid=N) ]LEVEL MM-DD HH:MM:SS [file.py:line] message`; Ray adds `, ip=...` to the parenthesis,
# vLLM 0.8 to 0.9 ` rank=N` to a worker's name.
_PROC: Final = r"\(([A-Za-z_][\w.\-]{0,63}(?: rank=\d{1,6})?) pid=(\d{1,10})(?:, ip=[^)\s]{1,64})?\) ?"
_LEVEL: Final = r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)"
_ENGINE: Final = _LEVEL + r" (\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d{1,9})? \[([\w./\\<>\-]{1,200}:\d{1,7})\] ?"
HEAD: Final = re.compile(rf"(?:{_PROC})?{_ENGINE}")
# A whole line: (second, nanoseconds, parenthesis, level, time, source, rest).
_REST: Final = rf"(?:(\([A-Za-z_][\w.\-]{{0,63}} pid=\d{{1,10}}\)) ?)?(?:{_ENGINE})?(.*)$"
LINE: Final = re.compile(rf"()(){_REST}", re.DOTALL)
STAMPED_LINE: Final = re.compile(rf"(?:(\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d)\.([0-9]{{9}})Z )?{_REST}", re.DOTALL)
STAMPED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.[0-9]{9}Z ")
PROCESS: Final = re.compile(_PROC.replace(r"(?:, ip=[^)\s]{1,64})?", r"(?:, ip=([^)\s]{1,64}))?"))
# Docker writes nine digits and Z; podman and nerdctl may write fewer, and the node's own offset.
STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)(?: |$)")
MID_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d) ")
COMPOSE: Final = re.compile(r"[A-Za-z0-9][\w.\-]{0,63} +\| ")
COMPOSE_NUMBERED: Final = re.compile(r"[A-Za-z0-9][\w.\-]{0,60}[-_]\d{1,4} +\| ")
SGLANG: Final = re.compile(
    r"\[(?:\d{4}-)?(\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d{1,9})?((?: (?:DP|PP|TP|EP|ATTN)\d{1,4}){0,5})\] "
)
UVICORN: Final = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):\s{1,10}")
NCCL: Final = re.compile(
    r"(?:\[(?:\d{4}-)?(\d\d-\d\d \d\d:\d\d:\d\d)\] )?[\w.\-]{1,255}:(\d{1,10}):\d{1,10} \[\d{1,3}\] "
    r"(?:([\w./\-]{1,200}:\d{1,7}) (?:\([^)]{0,200}\) )?)?(?=NCCL (INFO|WARN|ERROR|TRACE|VERSION|ABORT))"
)
# c10 logging: letter, month and day, time, thread-less file:line, then the message.
TORCH: Final = re.compile(
    r"(?:\[(?:rank|Gloo)\d{0,6}\]:?\s?)?\[([IWEF])(\d\d?)(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))? (?:\d{1,12} )?"
    r"([\w./\-]{1,200}:\d{1,7})\] "
)
PYTHON_WARNING: Final = re.compile(r":\d{1,7}: \w{0,60}Warning: ")
BAR: Final = re.compile(r"\d{1,3}%(?: Completed)? ?\|.{0,200}?\d{1,9}/\d{1,9} \[")
LEVELS: Final = re.compile("DEBUG|INFO|WARNING|ERROR|CRITICAL")

LEVEL_OF: Final = {
    "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL",
    "WARN": "WARNING", "TRACE": "DEBUG", "VERSION": "INFO", "ABORT": "CRITICAL", "INFO": "INFO", "ERROR": "ERROR",
}  # fmt: skip

DAY: Final = 86400.0
# Days before each month in a leap year, so that 02-29 has a place: the log names no year.
_BEFORE: Final = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
LEAP_YEAR: Final = 366 * DAY


def log_seconds(stamp: str) -> float | None:
    """`MM-DD HH:MM:SS` as seconds from the start of an unnamed leap year in an unnamed zone; None if it is no date."""
    base = _minutes.get(stamp[:11])
    if base is None:
        base = _remembered(_minutes, stamp[:11], _minute_of_year(stamp))
    try:
        second = int(stamp[12:14])
    except ValueError:
        return None
    # What is no minute is none in any second of it.
    return base + second if base >= 0 and second <= 60 else None


def _minute_of_year(stamp: str) -> float:
    """Seconds at the beginning of the minute; negative where there is no such minute."""
    try:
        month, day, hour, minute = int(stamp[:2]), int(stamp[3:5]), int(stamp[6:8]), int(stamp[9:11])
    except ValueError:
        return -1.0
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60):
        return -1.0
    return (_BEFORE[month - 1] + day - 1) * DAY + hour * 3600.0 + minute * 60.0


def elapsed(earlier: float, later: float) -> float:
    """Seconds from one log time to another, over New Year too: the shorter way round the year, or negative."""
    return (later - earlier + LEAP_YEAR / 2) % LEAP_YEAR - LEAP_YEAR / 2


def epoch_seconds(second: str, zone: str) -> float | None:
    """`YYYY-MM-DDTHH:MM:SS` and its zone as epoch seconds; None if there is no such moment."""
    if zone != "Z" or not second[17:].isdecimal() or int(second[17:]) > 59:
        return _epoch(second, zone)
    base = _epoch_minutes.get(second[:17])
    if base is None:
        at = _epoch(second[:17] + "00", "Z")
        base = _remembered(_epoch_minutes, second[:17], -1e18 if at is None else at)
    return base + int(second[17:]) if base > -1e17 else None


def stamp_seconds(line: str) -> float | None:
    """Epoch seconds of the stamp with nine digits and Z that begins a line; None if there is no such moment."""
    second = epoch_seconds(line[:17] + "00", "Z")
    return None if second is None or line[17] > "5" else second + float(line[17:29])


def _epoch(second: str, zone: str) -> float | None:
    try:
        return datetime.fromisoformat(second + ("+00:00" if zone == "Z" else zone)).timestamp()
    except (ValueError, OverflowError):
        return None


# Lines come in the order of time, many to a minute: its beginning is worked out once. Bounded.
_minutes: dict[str, float] = {}
_epoch_minutes: dict[str, float] = {}
_MOST_MINUTES: Final = 4096


@lru_cache(64)
def day_of_year(day: float) -> float | None:
    """The seconds of `log_seconds` at which a day begins; day: days since the epoch. None for one without a date."""
    try:
        moment = datetime.fromtimestamp(day * DAY, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return (_BEFORE[moment.month - 1] + moment.day - 1) * DAY


def _remembered(table: dict[str, float], key: str, value: float) -> float:
    if len(table) >= _MOST_MINUTES:
        table.clear()
    table[key] = value
    return value
