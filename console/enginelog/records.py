"""Engine log bytes, as they arrive, into records: one per line, two where two writers met in one line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from console.base.secrets import MASK
from console.base.text import clean_line
from console.enginelog import lineformat as shape
from console.enginelog.conceal import SECRET_HINTS, conceal_arguments
from console.enginelog.pieces import (
    LINE_HEAD,
    LINE_LIMIT,
    LINE_TAIL,
    SEARCH_LIMIT,
    Piece,
    bounded,
    clean,
    headless,
    is_compose,
)
from console.enginelog.skeleton import DIGITS, Hints, Plans

TEXT_LIMIT: Final = 8192
# Docker cuts a line into entries of 16 KiB and stamps each; in characters of four bytes that is 4096.
_MID_STAMP_FROM: Final = 4096
_MAX_OPEN: Final = 256
_EARLIER_LIMIT: Final = 16 * 1024
_AFTER_CR: Final = 1
_IN_TRACEBACK: Final = 2
_CHAINED: Final = ("During handling of the above", "The above exception was the direct cause")


@dataclass(frozen=True, slots=True)
class Record:
    """One message of one rank.

    index: 0-based physical line in that rank's stream; two records split from one line share it.
    docker_at: epoch seconds of the `docker logs -t` stamp. log_at: the engine's own time, which has neither year nor
    zone: seconds from the start of an unnamed leap year, to be compared by `lineformat.elapsed`.
    level: DEBUG INFO WARNING ERROR CRITICAL, or None where the line says none.
    process: "APIServer", "EngineCore", "Worker_TP3", "MainProcess"; the innermost where launchers stack prefixes;
    "name ip=address" where Ray says on which node it runs.
    source: "file.py:123"; it changes with every build, so nothing may match on it.
    text: the message: no escapes, no control codes, secrets masked, at most TEXT_LIMIT characters.
    continuation: a further line of the message before it (traceback lines; header lines after a `\\r\\n`).
    kind: engine, nccl, torch, uvicorn, progress, raw.
    earlier: what a progress line overwrote by `\\r`, raw, for `progress.steps`; empty elsewhere.
    hints: what the text can say, where its shape is known; None: nobody has looked.
    """

    rank: int | None
    index: int
    docker_at: float | None
    log_at: float | None
    level: str | None
    process: str | None
    pid: int | None
    source: str | None
    text: str
    continuation: bool
    kind: str
    earlier: str = ""
    hints: Hints | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class _Draft:
    """Record's mutable twin, with the same slots in the same order: it becomes a Record by changing its class, which is
    four times as fast as a frozen dataclass's own constructor."""

    rank: int | None
    index: int
    docker_at: float | None
    log_at: float | None
    level: str | None
    process: str | None
    pid: int | None
    source: str | None
    text: str
    continuation: bool
    kind: str
    earlier: str = ""
    hints: Hints | None = None


_PLANS: Final = Plans()


def docker_lag(record: Record) -> float | None:
    """Seconds by which the docker stamp is later than the line's own time, taking the container's clock for UTC (engine
    images set no zone); minutes of it mean a node that thrashes. None where either time is missing."""
    if record.docker_at is None or record.log_at is None:
        return None
    day, seconds = divmod(record.docker_at, shape.DAY)
    begins = shape.day_of_year(day)
    return None if begins is None else shape.elapsed(record.log_at, begins + seconds)


class Decoder:
    """Turns one rank's stream into records; never raises, whatever the bytes, and gives the same records however the
    stream is cut. docker_timestamps: True and None strip stamps where they stand; False leaves them in the text.
    secrets: values to mask wherever they are echoed."""

    def __init__(
        self, rank: int | None = None, docker_timestamps: bool | None = None, secrets: Iterable[str] = ()
    ) -> None:
        self.rank = rank
        self.lines = 0
        self._stamps = docker_timestamps is not False
        self._secrets = tuple({part for s in secrets for part in s.splitlines() if len(part) >= 4})
        self._held = bytearray()
        self._dropped = False
        self._open: dict[tuple[str | None, int | None, bool], int] = {}
        self._writers: dict[str, tuple[str, int]] = {}
        self._second = ""
        self._second_at: float | None = None
        self._log_text = ""
        self._log_at: float | None = None

    def feed(self, data: bytes) -> list[Record]:
        """Records of the lines that `data` completes; the rest is held for the next call."""
        end = data.rfind(b"\n")
        if end < 0:
            self._hold(data)
            return []
        first = data.find(b"\n")
        self._hold(data[:first])
        line, dropped = bytes(self._held), self._dropped
        self._held, self._dropped = bytearray(), False
        whole = bounded(line, dropped)
        if end > first:
            rest = data[first + 1 : end]
            if len(rest) > LINE_LIMIT:
                rest = b"\n".join([bounded(part, False) for part in rest.split(b"\n")])
            whole += b"\n" + rest
        self._hold(data[end + 1 :])
        return self._lines(whole)

    def finish(self) -> list[Record]:
        """The stream has ended: what is held is a line too."""
        if not self._held:
            return []
        line, dropped = bytes(self._held), self._dropped
        self._held, self._dropped = bytearray(), False
        return self._lines(bounded(line, dropped))

    @property
    def partial(self) -> str:
        """The last `\\r` segment of the line that has not ended yet, clean, for a progress bar that is still moving."""
        text = bytes(self._held[-LINE_TAIL:]).decode("utf-8", errors="replace")
        for segment in reversed(text.split("\r")):
            if segment.strip():
                return self._conceal(clean_line(segment, limit=TEXT_LIMIT))
        return ""

    def _conceal(self, text: str) -> str:
        if any(hint in text for hint in SECRET_HINTS):
            text = "\n".join([conceal_arguments(line) for line in text.split("\n")])
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def _hold(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > 2 * LINE_LIMIT:
            self._held = self._held[:LINE_HEAD] + self._held[-LINE_TAIL:]
            self._dropped = True

    def _lines(self, data: bytes) -> list[Record]:
        text = data.decode("utf-8", errors="replace")
        if self._secrets and any(secret in text for secret in self._secrets):
            text = self._conceal(text)
            data = text.encode()
        lines = text.split("\n")
        out: list[Record] = []
        if self._stamps:
            self._planned(lines, data.translate(DIGITS).split(b"\n"), out)
        else:
            for index, line in enumerate(lines, self.lines):
                self._line(line, index, out)
        self.lines += len(lines)
        return out

    def _planned(self, lines: list[str], skeletons: list[bytes], out: list[Record]) -> None:
        """Lines of known shapes by their plans, the others the long way. Dense, because all that comes goes through."""
        known, new, rank, writers, opened = _PLANS.known, object.__new__, self.rank, self._writers, self._open
        last, last_at, clock, clock_at = "", 0.0, "", self._log_at
        for index, (line, skeleton) in enumerate(zip(lines, skeletons, strict=True), self.lines):
            plan = known.get(skeleton)
            if plan is None:
                self._line(line, index, out)
                _PLANS.meet(skeleton)
                continue
            stamped, paren, paren_end, stamp, source, source_end, pid, pid_end, start, end, level, kind, flags = plan
            cr, turns, hints = flags
            draft = new(_Draft)
            if stamped:
                minute = line[:17]
                if minute != last or line[17] > "5":
                    found = shape.epoch_seconds(minute + "00", "Z")
                    if found is None or line[17] > "5":
                        self._line(line, index, out)
                        continue
                    last, last_at = minute, found
                draft.docker_at = last_at + int(line[17:19]) + int(line[20:29]) / 1e9
            else:
                draft.docker_at = None
            if paren >= 0:
                who = line[paren:paren_end]
                draft.process, draft.pid = writers.get(who) or self._writer(who)
            else:
                draft.process = draft.pid = None
            if pid >= 0:
                draft.pid = int(line[pid:pid_end])
            if stamp >= 0:
                if line[stamp : stamp + 14] != clock:
                    clock = line[stamp : stamp + 14]
                    clock_at = shape.log_seconds(clock)
                draft.log_at = clock_at
            else:
                draft.log_at = None
            draft.rank = rank
            draft.index = index
            draft.level = level
            draft.source = line[source:source_end] if source >= 0 else None
            draft.text = said = line[start:end]
            draft.kind = kind
            draft.earlier = ""
            draft.hints = hints
            if cr or turns or opened:
                draft.continuation = self._continues((draft.process, draft.pid, kind == "engine"), said, cr)
            else:
                draft.continuation = False
            draft.__class__ = Record  # type: ignore[assignment]
            out.append(draft)  # type: ignore[arg-type]

    def _line(self, line: str, index: int, out: list[Record]) -> None:
        """Any line, whatever its shape."""
        line = conceal_arguments(line)
        found = (shape.STAMPED_LINE if self._stamps else shape.LINE).match(line)
        assert found is not None  # every part of the shape may be missing
        level: str | None
        source: str | None
        second, nanos, paren, level, stamp, source, said = found.groups("")
        cr = False
        if not said.isprintable():
            if not level and said[:1] == "\r" and said.replace("\r", "").isprintable():
                steps = [step for step in said.split("\r") if step and not step.isspace()]
                if steps and shape.BAR.search(steps[-1][-SEARCH_LIMIT:]) and not shape.LEVELS.search(said):
                    self._bar(steps, index, second, nanos, paren, said.endswith("\r"), out)
                    return
            cr = said.endswith("\r")
            body = said.rstrip("\r")
            if not cr or not body.isprintable():
                self._broken(line, index, out)
                return
            said = body
        at: float | None = None
        if second:
            if second != self._second:
                self._second, self._second_at = second, shape.epoch_seconds(second, "Z")
            if self._second_at is None:
                self._odd(line.rstrip("\r"), index, None, False, None, None, cr, out)
                return
            at = self._second_at + int(nanos) / 1e9
        if len(said) > _MID_STAMP_FROM or (level and ".py:" in said and shape.HEAD.search(said)):
            self._odd(line.rstrip("\r"), index, None, False, None, None, cr, out)
            return
        process, pid = self._writer(paren) if paren else (None, None)
        log_at: float | None = None
        if level:
            if stamp != self._log_text:
                self._log_text, self._log_at = stamp, shape.log_seconds(stamp)
            log_at, kind, odd = self._log_at, "engine", False
        elif said[:1] == "(" or ".py:" in said or " | " in said or (second == "" and said[10:11] == "T"):
            self._odd(line.rstrip("\r"), index, None, False, None, None, cr, out)
            return
        else:
            said, log_at, level, process, pid, source, kind = headless(said, process, pid)
            odd = kind == "torch" and source is None
        more = odd
        if cr or self._open or said[:1] in " T":
            more = self._continues((process, pid, kind == "engine"), said, cr) or odd
        out.append(Record(self.rank, index, at, log_at, level, process, pid, source, said, more, kind))

    def _bar(
        self, steps: list[str], index: int, second: str, nanos: str, paren: str, cr: bool, out: list[Record]
    ) -> None:
        """What `_broken` makes of a progress bar alone on its line, shorter: there are dozens to a load."""
        at = shape.epoch_seconds(second, "Z") if second else None
        process, pid = self._writer(paren) if paren else (None, None)
        text = steps[-1] if len(steps[-1]) <= TEXT_LIMIT else clean_line(steps[-1], limit=TEXT_LIMIT)
        more = self._continues((process, pid, False), text, cr)
        at = at + int(nanos) / 1e9 if at is not None else None
        earlier = "\r".join(steps[:-1])[-_EARLIER_LIMIT:]
        out.append(Record(self.rank, index, at, None, None, process, pid, None, text, more, "progress", earlier))

    def _writer(self, paren: str) -> tuple[str | None, int | None]:
        """`(Worker_TP3 pid=324)` as its two parts, remembered: a stream has few writers."""
        known = self._writers.get(paren)
        if known is None:
            name, _, pid = paren[1:-1].rpartition(" pid=")
            if len(self._writers) >= _MAX_OPEN:
                self._writers.clear()
            known = self._writers[paren] = (name, int(pid))
        return known

    def _stamp(self, line: str) -> tuple[int, float | None]:
        found = shape.STAMP.match(line)
        if found is None:
            return 0, None
        second, fraction, zone = found.groups()
        at = shape.epoch_seconds(second, zone)
        if at is None:
            return 0, None
        return found.end(), at + (int(fraction) / 10 ** len(fraction) if fraction else 0.0)

    def _continues(self, key: tuple[str | None, int | None, bool], text: str, cr: bool) -> bool:
        """Whether a line goes on with the message before it from the same writer; remembers what the next needs."""
        state = self._open.pop(key, 0)
        more = bool(state & _AFTER_CR)
        trace = state & _IN_TRACEBACK
        if text.startswith("Traceback (most recent call last)"):
            more = more or bool(trace)
            trace = _IN_TRACEBACK
        elif text[:1] in (" ", "\t"):
            more = True
        elif trace:
            more = True
            if text.strip() and not text.startswith(_CHAINED):
                trace = 0
        state = trace | (_AFTER_CR if cr else 0)
        if state:
            if len(self._open) >= _MAX_OPEN:
                self._open.clear()
            self._open[key] = state
        return more

    def _broken(self, line: str, index: int, out: list[Record]) -> None:
        """A line with `\\r` inside, with escapes or with control codes: each segment that has a head is a record of its
        own; of the others, which overwrote each other on a terminal, the last one counts."""
        cr = line.endswith("\r")
        first, *others = line.split("\r")
        segment, at, process, pid, stamped = self._prefixes(clean(first), None, None, None)
        shown: list[str] = [segment] if segment.strip() else []
        headed = False
        for raw in others:
            if not raw or raw.isspace():
                continue
            if not headed and len(shown) == 1 and shown[0] is segment and shape.HEAD.search(segment):
                headed = True
                self._odd(shown.pop(), index, at, stamped, process, pid, cr, out)
            if shape.LEVELS.search(raw) and shape.HEAD.search(cleaned := clean(raw)):
                headed = True
                self._odd(cleaned, index, at, stamped, process, pid, cr, out)
            else:
                shown.append(raw)
        if shown or not headed:
            last = ""
            while shown and not (last := clean(shown[-1])).strip():
                shown.pop()
            earlier = "\r".join(shown[:-1])[-_EARLIER_LIMIT:]
            self._odd(last, index, at, stamped, process, pid, cr, out, earlier)

    def _prefixes(
        self, text: str, at: float | None, process: str | None, pid: int | None
    ) -> tuple[str, float | None, str | None, int | None, bool]:
        """Text without stamp, compose prefix and process prefixes, in whatever order they are stacked."""
        stamped = False
        for _ in range(6):
            if self._stamps and at is None and text[10:11] == "T":
                start, found_at = self._stamp(text)
                if start:
                    text, at, stamped = text[start:], found_at, True
                    continue
            if found := shape.PROCESS.match(text):
                process, pid = f"{found[1]} ip={found[3]}" if found[3] else found[1], int(found[2])
                text = text[found.end() :]
                continue
            if (found := shape.COMPOSE.match(text)) and is_compose(text, found.end()):
                text = text[found.end() :]
                continue
            break
        return text, at, process, pid, stamped

    def _odd(
        self,
        text: str,
        index: int,
        at: float | None,
        stamped: bool,
        process: str | None,
        pid: int | None,
        cr: bool,
        out: list[Record],
        earlier: str = "",
    ) -> None:
        """A clean line that is not just head and message: further prefixes, a second head inside, or no head at all."""
        text, at, process, pid, again = self._prefixes(text, at, process, pid)
        if (stamped or again) and len(text) > _MID_STAMP_FROM:
            text = shape.MID_STAMP.sub("", text)
        pending: list[Piece] = []
        while True:
            head = shape.HEAD.search(text)
            before = text if head is None else text[: head.start()]
            if head is None or before.strip():
                pending.append(headless(before, process, pid))
            if head is None:
                break
            owner, number, level, stamp, source = head.groups()
            if owner is not None:
                process, pid = owner, int(number)
            text = text[head.end() :]
            following = shape.HEAD.search(text)
            said = text if following is None else text[: following.start()]
            pending.append((said, shape.log_seconds(stamp), level, process, pid, source, "engine"))
            if following is None:
                break
            text = text[following.start() :]
        for number_, (said, log_at, level, owner, owner_pid, source, kind) in enumerate(pending):
            said = said if len(said) <= TEXT_LIMIT else clean_line(said, limit=TEXT_LIMIT)
            last = number_ == len(pending) - 1
            more = self._continues((owner, owner_pid, kind == "engine"), said, cr and last)
            if kind == "torch" and source is None:
                more = True
            out.append(
                Record(
                    self.rank,
                    index,
                    at,
                    log_at,
                    level,
                    owner,
                    owner_pid,
                    source,
                    said,
                    more,
                    kind,
                    earlier if last else "",
                )
            )
