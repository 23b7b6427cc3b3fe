"""The kernel's own text of /proc, read line by line."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import Final

from console.base.absent import Absent
from console.telemetry.pick import amount, count, text, whole
from console.telemetry.sample import Float, Int, Pressure

_HUGE_PAGE: Final = 2 << 20
# Columns of /proc/net/dev: bytes in and out, errors in and out, drops in and out.
_NET: Final = itemgetter(0, 8, 2, 10, 3, 11)
_AVERAGE: Final = re.compile(r"\bavg(10|60)=(\d{1,3}(?:\.\d{1,4})?)(?!\S)")


def meminfo(content: str) -> dict[str, int]:
    """`Name: N kB` lines as bytes by name; lines of another shape are left out."""
    out: dict[str, int] = {}
    for line in content.split("\n")[:200]:
        name, mark, rest = line.partition(":")
        words = rest.split()
        size = whole(words[0]) if words else None
        if mark and size is not None and size >= 0 and words[1:] == ["kB"]:
            out[name.strip()] = size * 1024
    return out


def counters(content: str) -> dict[str, int]:
    """`name N` lines (vmstat, parts of stat)."""
    out: dict[str, int] = {}
    for line in content.split("\n")[:500]:
        words = line.split()
        if len(words) == 2 and (value := count(words[1])) is not None:
            out[words[0]] = value
    return out


def cpu_ticks(content: str) -> tuple[int, ...] | None:
    """user, nice, system, idle, iowait, irq, softirq, steal of all cores together; guest time is inside user."""
    for line in content.split("\n")[:4]:
        words = line.split()
        if words[:1] == ["cpu"]:
            values = [whole(w) for w in words[1:9]]
            ticks = tuple(v for v in values if v is not None and v >= 0)
            return ticks if len(ticks) == len(values) >= 4 else None
    return None


def cpu_percent(before: tuple[int, ...] | None, now: tuple[int, ...] | None) -> tuple[Float, Float, Float]:
    """Busy, iowait and steal in percent between two readings of `cpu_ticks`."""
    if now is None:
        gone = Absent("/proc/stat cannot be read")
        return gone, gone, gone
    if before is None or len(before) != len(now):
        first = Absent("a rate needs two samples")
        return first, first, first
    spent = [b - a for a, b in zip(before, now, strict=True)]
    total = sum(spent)
    # iowait alone may go back on a healthy kernel; a negative part of it counts as none.
    if total <= 0 or any(s < 0 for i, s in enumerate(spent) if i != 4):
        back = Absent("the counter went back" if total < 0 else "no time passed between two samples")
        return back, back, back
    iowait = max(0, spent[4]) if len(spent) > 4 else 0
    steal = spent[7] if len(spent) > 7 else 0
    busy = min(total, max(0, total - spent[3] - iowait))
    return 100.0 * busy / total, 100.0 * iowait / total, 100.0 * steal / total


def pressure(content: str) -> Pressure | Absent:
    """A file of /proc/pressure. cpu has no `full` line on older kernels."""
    found: dict[str, Float] = {}
    for line in content.split("\n")[:4]:
        kind = line.split(" ", 1)[0]
        if kind in ("some", "full"):
            for window, value in _AVERAGE.findall(line):
                if float(value) <= 100.0:
                    found[kind + window] = float(value)
    if not found:
        return Absent("not in the form of /proc/pressure")
    gone = Absent("the kernel does not say")
    return Pressure(*(found.get(k, gone) for k in ("some10", "some60", "full10", "full60")))


def high_orders(content: str, page: int) -> tuple[Int, Int]:
    """/proc/buddyinfo: the largest order with a free block, and free bytes in blocks of 2 MiB and more."""
    largest, size, seen = -1, 0, False
    for line in content.split("\n")[:64]:
        _, mark, rest = line.partition("zone")
        counts = [count(w) for w in rest.split()[1:]] if mark else []
        for order, blocks in enumerate(counts[:24]):
            if blocks is None:
                continue
            seen = True
            if blocks:
                largest = max(largest, order)
                size += blocks * (page << order) if page << order >= _HUGE_PAGE else 0
    if not seen or page <= 0:
        gone = Absent("/proc/buddyinfo cannot be read")
        return gone, gone
    return largest, size


def net_counters(content: str) -> dict[str, tuple[int, int, int, int]]:
    """/proc/net/dev: bytes in, bytes out, errors, drops by interface."""
    out: dict[str, tuple[int, int, int, int]] = {}
    for line in content.split("\n")[:128]:
        name, mark, rest = line.partition(":")
        words = rest.split()
        if not mark or len(words) < 16:
            continue
        # Most of a frame's words are these: plain digits are read without a second look.
        good = [int(w) if w.isdecimal() and w.isascii() and len(w) < 20 else count(w) for w in _NET(words)]
        if (label := text(name, limit=32).strip()) and None not in good:
            received, sent, in_errors, out_errors, in_drops, out_drops = (v or 0 for v in good)
            out[label] = (received, sent, in_errors + out_errors, in_drops + out_drops)
    return out


def disk_counters(content: str) -> dict[str, tuple[int, int, int]]:
    """/proc/diskstats: bytes read, bytes written (512-byte sectors), milliseconds busy by device."""
    out: dict[str, tuple[int, int, int]] = {}
    for line in content.split("\n")[:128]:
        words = line.split()
        if len(words) < 14:
            continue
        read, written, busy = count(words[5]), count(words[9]), count(words[12])
        name = text(words[2], limit=32)
        if name and read is not None and written is not None and busy is not None:
            out[name] = (read * 512, written * 512, busy)
    return out


def loads(content: str) -> list[float | None]:
    """The three averages of /proc/loadavg."""
    words = content.split()[:3]
    return [amount(w) for w in words] + [None] * (3 - len(words))
