"""What carried a log here, taken off its lines: compose, journald, syslog, kubectl, CRI, docker's JSON, launchers."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_ANSI: Final = rb"(?:\x1b\[[0-9;]{0,8}m)?"
# A date is no host: what begins so is the line itself.
_HOST: Final = rb"(?!\d{4}-\d\d-\d\d )(?P<host>[\w.\-]{1,255})"
_UNIT: Final = rb"(?P<name>[^\s:\[\]]{1,120})(?:\[\d{1,10}\])?: ?"
_ISO: Final = rb"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+\-]\d\d:?\d\d))"
_JSON: Final = b"{"
# Docker's own file, journald's export, and what log collectors make of either.
_SAID: Final = ("log", "MESSAGE", "message", "msg", "textPayload", "line")
_TIMED: Final = ("time", "timestamp", "ts", "@timestamp")


@dataclass(frozen=True, slots=True)
class Wrapping:
    """pattern: what stands before each line; its groups `name` (who writes) and `at` (when, RFC 3339) where it has
    them, and `host` where a log may be of several nodes. sure: unlike anything an engine writes, so that one line
    tells; else many must bear it, all with one name."""

    pattern: re.Pattern[bytes]
    sure: bool = True


COMPOSE: Final = Wrapping(
    re.compile(_ANSI + rb"(?P<name>[A-Za-z0-9][\w.\-]{0,63}) {0,40}\|" + _ANSI + rb" ?" + _ANSI), sure=False
)
# pdsh, clush, `pssh -P`.
HOSTS: Final = Wrapping(re.compile(rb"(?P<name>[a-z][a-z0-9.\-]{1,120}): "), sure=False)
WRAPPINGS: Final = (
    Wrapping(re.compile(rb"\[pod/(?P<name>[^\]/]{1,253})/[^\]]{1,253}\] ")),
    Wrapping(re.compile(_ISO + rb" std(?:out|err) [FP] ")),
    Wrapping(re.compile(rb"(?:<\d{1,3}>(?:\d )?)?" + _ISO + rb" " + _HOST + rb" " + _UNIT)),
    Wrapping(re.compile(rb"(?:<\d{1,3}>)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})? " + _HOST + rb" " + _UNIT)),
    Wrapping(re.compile(_ANSI + rb"(?P<name>[A-Za-z0-9][\w.\-]{0,200}@[\w.\-]{1,100}) {1,40}\| " + _ANSI)),
    Wrapping(re.compile(rb"\[\d{1,6},(?P<name>\d{1,6})\]<std(?:out|err)>: ?")),
    Wrapping(re.compile(rb"\[(?:default|rank)(?P<name>\d{1,4})\]: ?"), sure=False),
    Wrapping(re.compile(rb"\[(?P<name>[A-Za-z][\w.\-]{0,80}:\d{1,4})\]:? ?"), sure=False),
    COMPOSE,
    Wrapping(re.compile(rb" {0,6}(?P<name>\d{1,6}): "), sure=False),
    Wrapping(re.compile(rb"\d{1,9}:(?!\d\d:)"), sure=False),
    HOSTS,
    Wrapping(
        re.compile(
            rb"(?P<name>[a-z0-9][a-z0-9.\-]{0,200}-(?:\d{1,4}|[bcdfghjklmnpqrstvwxz2456789]{5})) [a-z0-9\-]{1,63} "
        ),
        sure=False,
    ),
)
_LEAST: Final = 8
_LOOKED_AT: Final = 200
_DOCKER: Final = re.compile(
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+\-]\d\d:\d\d) (?!std(?:out|err) [FP] )(?=\S)"
)
_STAMPED: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def wrapping_of(data: bytes) -> Wrapping | None:
    """What carried the lines of which these are the first; None where they are as the engine wrote them."""
    lines = [line for line in data.split(b"\n")[:_LOOKED_AT] if line.strip()]
    for wrapping in WRAPPINGS:
        found = [m for line in lines if (m := wrapping.pattern.match(line))]
        if not found or len(found) * 10 < len(lines) * 9:
            continue
        if wrapping.sure:
            return wrapping
        names = {m["name"] for m in found} if "name" in wrapping.pattern.groupindex else {b""}
        every = wrapping is COMPOSE and 2 <= len(found) == len(lines)
        if (len(found) >= _LEAST or every) and len(names) == 1:
            return wrapping
    return None


def host_of(data: bytes, wrapping: Wrapping) -> str:
    """The one node that sent these lines; "" where their wrapping tells none."""
    if "host" not in wrapping.pattern.groupindex:
        return ""
    found = wrapping.pattern.match(data.lstrip(b"\n"))
    return found["host"].decode("ascii", "replace") if found else ""


def unwrapped(line: bytes, wrapping: Wrapping) -> bytes:
    """The line as the engine wrote it, with its time in front as docker puts it, where the wrapping told one."""
    found = wrapping.pattern.match(line)
    if found is None:
        return line
    rest = line[found.end() :]
    if "at" not in wrapping.pattern.groupindex or _STAMPED.match(rest):
        return rest
    return _stamp(found["at"]) + b" " + rest


def _stamp(at: bytes) -> bytes:
    """RFC 3339 as docker writes it where the zone is UTC; journald leaves out the colon of a zone."""
    at = at.replace(b",", b".")
    if at[-5:-4] in (b"+", b"-"):
        at = at[:-2] + b":" + at[-2:]
    if at.endswith((b"Z", b"+00:00", b"-00:00")):
        second, _, fraction = at[: -1 if at.endswith(b"Z") else -6].partition(b".")
        return second + b"." + fraction.ljust(9, b"0") + b"Z"
    return at


def of_json(line: bytes) -> bytes:
    """A line of docker's own json-file, or of another log of one JSON object a line, as `docker logs --timestamps`
    prints it; any other line stays."""
    entry = _entry(line)
    log: str | None = (
        None if entry is None else next((entry[key] for key in _SAID if isinstance(entry.get(key), str)), None)
    )
    if entry is None or log is None:
        return line
    text = log.removesuffix("\n").replace("\n", " ").encode("utf-8", "replace")
    at = next((entry[key] for key in _TIMED if isinstance(entry.get(key), str)), "")
    stamp = at.encode("ascii", "replace")
    return _stamp(stamp) + b" " + text if _STAMPED.match(stamp) and stamp[19:] else text


def has_stamp(line: bytes) -> bool:
    return _STAMPED.match(line) is not None


def stamp_and_rest(line: bytes) -> tuple[bytes, bytes]:
    """The time that docker, or `unwrapped`, put before a line, with the space after it; and the line."""
    found = _DOCKER.match(line)
    return (b"", line) if found is None else (found[0], line[found.end() :])


def inside(line: bytes, unwrap: Callable[[bytes], bytes]) -> bytes:
    """What is unwrapped of a line behind its time, which stays where what is unwrapped tells none."""
    stamp, rest = stamp_and_rest(line)
    rest = unwrap(rest)
    return rest if not stamp or has_stamp(rest) else stamp + rest


def in_json(data: bytes) -> bool:
    """Whether the first lines are JSON objects that say something each."""
    lines = [line for line in data.split(b"\n")[:_LOOKED_AT] if line.strip()]
    # The last of them may be cut.
    told = [line for line in lines if of_json(line) is not line]
    return bool(told) and len(told) * 10 >= (len(lines) - 1) * 9


def _entry(line: bytes) -> dict[str, Any] | None:
    if not line.startswith(_JSON):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


class Plain:
    """A stream's bytes as UTF-8, without the mark that some editors begin a file with."""

    def __init__(self) -> None:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begun = False
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if not self._begun:
            self._held += data
            if len(self._held) < 3:
                return b""
            data, self._held, self._begun = self._held, b"", True
            if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                self._decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
            data = data.removeprefix(codecs.BOM_UTF8)
        return data if self._decoder is None else self._decoder.decode(data).encode("utf-8", "replace")

    def finish(self) -> bytes:
        return self._held
