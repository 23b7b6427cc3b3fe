"""Progress bars of tqdm: percent, count, elapsed, remaining, rate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from console.base.absent import Absent
from console.base.text import clean_line
from console.enginelog.records import Record

_BAR: Final = re.compile(
    r"(\d{1,3})%(?: Completed)? ?\|(?:[^|\[]{0,200}\|)? ?(\d{1,9})/(\d{1,9}) "
    r"\[([\d:]{1,12})<([\d:?]{1,12}), {0,9}([\d.]{1,12}|\?)(s/[A-Za-z]{1,12}|[A-Za-z]{1,12}/s)"
)
_NO_RATE: Final = Absent("the bar has no rate yet")
# A bar that says more than a month says nothing: its rate is near 0, or its line was damaged.
_MOST_S: Final = 31 * 86400.0
_SHARDS: Final = "checkpoint shards"
_GIB: Final = 1 << 30
_SEARCH_LIMIT: Final = 1024


@dataclass(frozen=True, slots=True)
class Bar:
    """One state of a bar. label: the words before it. fraction: done/total, 0..1. elapsed_s, remaining_s: seconds by
    the bar's own count. per_s: items per second, from `it/s` or turned round from `s/it`."""

    label: str
    done: int
    total: int
    elapsed_s: float
    remaining_s: float | Absent
    per_s: float | Absent

    @property
    def fraction(self) -> float:
        return min(1.0, self.done / self.total) if self.total else 0.0

    @property
    def is_shards(self) -> bool:
        return _SHARDS in self.label

    @property
    def is_graphs(self) -> bool:
        return "Capturing" in self.label


def parse_bar(text: str) -> Bar | None:
    """The last bar in a text, or None."""
    if "%" not in text:
        return None
    window = text[-_SEARCH_LIMIT:]
    found = None
    for found in _BAR.finditer(window):  # noqa: B007 (the last one is wanted)
        pass
    if found is None:
        return None
    _, done, total, elapsed, remaining, rate, unit = found.groups()
    per_s: float | Absent = _NO_RATE
    number = _number(rate)
    if number:
        per_s = 1.0 / number if unit.startswith("s/") else number
    left = _clock(remaining)
    return Bar(
        label=window[: found.start()].strip().rstrip(":").strip()[-120:],
        done=int(done),
        total=int(total),
        elapsed_s=_clock(elapsed) or 0.0,
        remaining_s=left if left is not None and left <= _MOST_S else _NO_RATE,
        per_s=per_s,
    )


def steps(record: Record) -> Iterator[Bar]:
    """Every state that a progress line went through, oldest first."""
    for segment in record.earlier.split("\r") if record.earlier else ():
        if bar := parse_bar(clean_line(segment)):
            yield bar
    if bar := parse_bar(record.text):
        yield bar


def bytes_per_s(bar: Bar, checkpoint_gib: float | Absent) -> float | Absent:
    """Bytes per second at which a checkpoint of that size is read, taking shards as equal in size."""
    if isinstance(checkpoint_gib, Absent):
        return Absent("the checkpoint's size is not known")
    if isinstance(bar.per_s, Absent):
        return bar.per_s
    if not bar.is_shards or not bar.total:
        return Absent("the bar does not count shards")
    return bar.per_s * checkpoint_gib * _GIB / bar.total


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _clock(text: str) -> float | None:
    """`1:02:03` or `02:03` as seconds."""
    total = 0.0
    for part in text.split(":"):
        if not part.isdecimal():
            return None
        total = total * 60 + int(part)
    return total
