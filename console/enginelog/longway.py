"""Reading a line whatever its shape: the long way, which plans (`skeleton`) make short for shapes that come again."""

from __future__ import annotations

from typing import Final

from console.base.text import clean_line
from console.enginelog import lineformat as shape
from console.enginelog.conceal import conceal_arguments
from console.enginelog.pieces import SEARCH_LIMIT, Piece, clean, headless, is_compose
from console.enginelog.record import EARLIER_LIMIT, TEXT_LIMIT, Record

# Docker cuts a line into entries of 16 KiB and stamps each; in characters of four bytes that is 4096.
_MID_STAMP_FROM: Final = 4096
_MAX_OPEN: Final = 256
_AFTER_CR: Final = 1
_IN_TRACEBACK: Final = 2
_CHAINED: Final = ("During handling of the above", "The above exception was the direct cause")


class LongWay:
    """One stream's lines, each by itself but for what `continues` remembers of the writers before it. stamps: strip
    docker's stamps where they stand."""

    def __init__(self, rank: int | None, stamps: bool) -> None:
        self.rank = rank
        # By writer: what its next line goes on with.
        self.open: dict[tuple[str | None, int | None, bool], int] = {}
        self._stamps = stamps
        self._writers: dict[str, tuple[str, int]] = {}
        self._log_text = ""
        self._log_at: float | None = None

    def line(self, line: str, index: int, out: list[Record]) -> None:
        """Any line, whatever its shape."""
        line = conceal_arguments(line)
        found = (shape.STAMPED_LINE if self._stamps else shape.LINE).match(line)
        assert found is not None  # every part of the shape may be missing
        level: str | None
        source: str | None
        second, _, paren, level, stamp, source, said = found.groups("")
        cr, at = False, None
        if not said.isprintable():
            if not level and said[:1] == "\r" and said.replace("\r", "").isprintable():
                steps = [step for step in said.split("\r") if step and not step.isspace()]
                if steps and shape.BAR.search(steps[-1][-SEARCH_LIMIT:]) and not shape.LEVELS.search(said):
                    at = shape.stamp_seconds(line) if second else None
                    self._bar(steps, index, at, paren, said.endswith("\r"), out)
                    return
            cr = said.endswith("\r")
            body = said.rstrip("\r")
            if not cr or not body.isprintable():
                self._broken(line, index, out)
                return
            said = body
        if second:
            at = shape.stamp_seconds(line)
            if at is None:
                self._odd(line.rstrip("\r"), index, None, False, None, None, cr, out)
                return
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
        if cr or self.open or said[:1] in " T":
            more = self.continues((process, pid, kind == "engine"), said, cr) or odd
        out.append(Record(self.rank, index, at, log_at, level, process, pid, source, said, more, kind))

    def _bar(self, steps: list[str], index: int, at: float | None, paren: str, cr: bool, out: list[Record]) -> None:
        """What `_broken` makes of a progress bar alone on its line, shorter: there are dozens to a load."""
        process, pid = self._writer(paren) if paren else (None, None)
        text = steps[-1] if len(steps[-1]) <= TEXT_LIMIT else clean_line(steps[-1], limit=TEXT_LIMIT)
        more = self.continues((process, pid, False), text, cr)
        earlier = "\r".join(steps[:-1])[-EARLIER_LIMIT:]
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
        return found.end(), at - int(second[17:]) + float(f"{second[17:]}.{fraction or 0}")

    def continues(self, key: tuple[str | None, int | None, bool], text: str, cr: bool) -> bool:
        """Whether a line goes on with the message before it from the same writer; remembers what the next needs."""
        state = self.open.pop(key, 0)
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
            if len(self.open) >= _MAX_OPEN:
                self.open.clear()
            self.open[key] = state
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
            earlier = "\r".join(shown[:-1])[-EARLIER_LIMIT:]
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
            more = self.continues((owner, owner_pid, kind == "engine"), said, cr and last)
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
