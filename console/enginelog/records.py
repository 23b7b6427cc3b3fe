"""Engine log bytes, as they arrive, into records: one per line, two where two writers met in one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from console.base.secrets import MASK
from console.base.text import clean_line
from console.enginelog import lineformat as shape
from console.enginelog.conceal import SECRET_HINTS, conceal_arguments
from console.enginelog.longway import LongWay
from console.enginelog.pieces import LINE_HEAD, LINE_LIMIT, LINE_TAIL, bounded, clean
from console.enginelog.record import TEXT_LIMIT, Draft, Record, Spans, docker_lag, writer_of
from console.enginelog.skeleton import CR, DIGITS, INDENTED, Manifold, Plans

__all__ = ["TEXT_LIMIT", "Decoder", "Record", "docker_lag"]

_MOST_WRITERS: Final = 256
_FIVE: Final = ord("5")
_PLANS: Final = Plans()


class Decoder:
    """Turns one rank's stream into records; never raises, whatever the bytes, and gives the same records however the
    stream is cut. docker_timestamps: True and None strip stamps where they stand; False leaves them in the text.
    secrets: values to mask wherever they are echoed. lines, long: how many there were, and how many of them had no plan
    and were read the long way."""

    def __init__(
        self, rank: int | None = None, docker_timestamps: bool | None = None, secrets: Iterable[str] = ()
    ) -> None:
        self.lines = 0
        self._rank = rank
        self._stamps = docker_timestamps is not False
        self._secrets = tuple({part for s in secrets for part in s.splitlines() if len(part) >= 4})
        self._held = bytearray()
        self._dropped = False
        self._writers: dict[str | bytes, tuple[str | None, int | None]] = {}
        self._way = LongWay(rank, self._stamps)
        self.long = 0

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
        if self._secrets and self._echoes(data):
            data = self._conceal(data.decode("utf-8", errors="replace")).encode()
        lines = data.split(b"\n")
        out: list[Record] = []
        if self._stamps:
            self._planned(lines, data.translate(DIGITS).split(b"\n"), out)
        else:
            for index, line in enumerate(lines, self.lines):
                self._add(line, index, None, out)
        self.lines += len(lines)
        return out

    def _echoes(self, data: bytes) -> bool:
        """Whether a secret is in it: also one that was itself read from bytes that are no text."""
        if any("\ufffd" in secret for secret in self._secrets):
            text = data.decode("utf-8", errors="replace")
            return any(secret in text for secret in self._secrets)
        return any(secret.encode("utf-8", "replace") in data for secret in self._secrets)

    def _planned(self, lines: list[bytes], skeletons: list[bytes], out: list[Record]) -> None:
        """Lines of known shapes by their plans, the others the long way. Dense, because all that comes goes through."""
        known, meet, add = _PLANS.known, _PLANS.meet, self._add
        minute, minute_at = b"", 0.0
        new, rank = object.__new__, self._rank
        opened, continues = self._way.open, self._way.continues
        writers, writer = self._writers, self._writer
        for index, (line, row) in enumerate(zip(lines, map(known.get, skeletons), strict=True), self.lines):
            if row.__class__ is not tuple:
                if row is None:
                    row = meet(skeletons[index - self.lines])
                if row.__class__ is not tuple:
                    add(line, index, row, out)  # type: ignore[arg-type]
                    continue
            stamped, timed, who, who_end, start, end, level, kind, hints, flow, spans = row  # type: ignore[misc]
            draft = new(Draft)
            if stamped:
                if line[:17] != minute or line[17] > _FIVE:
                    found = shape.epoch_seconds(line[:19].decode(), "Z")
                    if found is None:
                        add(line, index, None, out)
                        continue
                    minute, minute_at = line[:17], found - int(line[17:19])
                draft.docker_at = minute_at + float(line[17:29])
            else:
                draft.docker_at = None
            if not timed:
                draft.log_at = None
            draft.rank = rank
            draft.index = index
            draft.level = level
            draft.text = said = line[start:end].decode()
            draft.kind = kind
            draft.hints = hints
            draft._line = line  # type: ignore[misc]  # its base has the slot
            draft._spans = spans  # type: ignore[misc]
            if who >= 0:
                draft.process, draft.pid = writers.get(line[who:who_end]) or writer(line, spans)
            if opened or flow > INDENTED:
                draft.process, draft.pid = process, pid = writer(line, spans)
                key = (process, pid, kind == "engine")
                draft.continuation = continues(key, said, flow >= CR) if flow or key in opened else False
            else:
                draft.continuation = flow == INDENTED
            draft.__class__ = Record  # type: ignore[assignment]
            out.append(draft)  # type: ignore[arg-type]

    def _add(self, raw: bytes, index: int, manifold: Manifold | None, out: list[Record]) -> None:
        """A line that has more to it than one text in its place, or no plan."""
        line = raw.decode("utf-8", "replace")
        if manifold is None:
            self.long += 1
            self._way.line(line, index, out)
            return
        plan, rows = manifold
        if plan.tabs:
            clear = line.rstrip("\r").replace("\t", "    ")
        else:
            clear = clean(line.rstrip("\r")) if plan.cleaned else line
        at = shape.stamp_seconds(clear) if plan.stamped else None
        if plan.stamped and at is None:
            self._add(raw, index, None, out)
            return
        for row, more in rows:
            _, timed, _, _, start, end, level, kind, hints, flow, spans = row
            draft = object.__new__(Draft)
            draft.rank, draft.index, draft.docker_at = self._rank, index, at
            draft.level, draft.text, draft.kind, draft.hints = level, clear[start:end], kind, hints
            draft._line, draft._spans = clear, spans  # type: ignore[misc]
            if not timed:
                draft.log_at = None
            draft.process, draft.pid = process, pid = self._writer(clear, spans)
            key = (process, pid, kind == "engine")
            draft.continuation = self._way.continues(key, draft.text, flow >= CR) or more
            draft.__class__ = Record  # type: ignore[assignment]
            out.append(draft)  # type: ignore[arg-type]

    def _writer(self, line: str | bytes, spans: Spans) -> tuple[str | None, int | None]:
        """Who wrote a line, remembered by the words that say so: a stream has few writers."""
        begin, end = spans.who
        name = line[begin:end]
        known = self._writers.get(name)
        if known is None:
            if len(self._writers) >= _MOST_WRITERS:
                self._writers.clear()
            known = self._writers[name] = writer_of(line, spans)
        return known
