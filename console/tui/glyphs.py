"""The signs of the console in two sets: a rich one, and one of plain ASCII."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of signs; each is one cell wide."""

    fresh: str = "●"
    late: str = "◐"
    lost: str = "✗"
    waiting: str = "○"
    done: str = "✓"
    active: str = "▶"
    pending: str = "·"
    failed: str = "✗"
    skipped: str = "–"
    unknown: str = "?"
    warn: str = "▲"
    info: str = "•"
    worst_low: str = "▾"
    worst_high: str = "▴"
    outlier: str = "◂"
    inferred: str = "~"
    cursor: str = "▌"
    mark: str = "▎"
    rule: str = "─"
    dot: str = "·"
    arrow: str = "→"
    follow: str = "▼"
    pause: str = "‖"
    unacked: str = "!"
    bar_full: str = "━"
    bar_parts: str = "╸"
    bar_empty: str = "─"
    stack: str = "█▓▒░"
    spark: str = "▁▂▃▄▅▆▇█"
    gap: str = " "
    border: str = "round"
    ellipsis: str = field(default="…")


UNICODE: Final = Glyphs()
ASCII: Final = Glyphs(
    fresh="*",
    late="~",
    lost="x",
    waiting="o",
    done="+",
    active=">",
    pending=".",
    failed="x",
    skipped="-",
    unknown="?",
    warn="!",
    info="-",
    worst_low="v",
    worst_high="^",
    outlier="<",
    inferred="~",
    cursor="|",
    mark="|",
    rule="-",
    dot="-",
    arrow=">",
    follow="v",
    pause="=",
    unacked="!",
    bar_full="#",
    bar_parts="",
    bar_empty=".",
    stack="#%+:",
    spark="_.-=+*%#",
    gap=" ",
    border="ascii",
    ellipsis="~",
)


def bar(glyphs: Glyphs, fraction: float, width: int) -> tuple[str, str]:
    """(filled, empty) parts of a bar of `width` cells; `fraction` outside 0..1 is clamped."""
    fraction = min(1.0, max(0.0, fraction))
    steps = len(glyphs.bar_parts) + 1
    eighths = round(fraction * width * steps)
    full, part = divmod(eighths, steps)
    text = glyphs.bar_full * full + (glyphs.bar_parts[part - 1] if part else "")
    return text, glyphs.bar_empty * (width - len(text))


def spark(glyphs: Glyphs, values: Sequence[float | None], low: float, high: float) -> str:
    """One cell per value on a fixed scale; a gap where there is no value, never a zero."""
    levels = glyphs.spark
    span = high - low
    out = []
    for value in values:
        if value is None or span <= 0:
            out.append(glyphs.gap)
            continue
        at = min(1.0, max(0.0, (value - low) / span))
        out.append(levels[min(len(levels) - 1, int(at * len(levels)))])
    return "".join(out)


def state_sign(state: str, glyphs: Glyphs) -> tuple[str, str]:
    """Sign and role of a boot of the ledger by its last word, as the legend tells them."""
    return {
        "starting": (glyphs.active, "active"),
        "booting": (glyphs.active, "active"),
        "ready": (glyphs.fresh, "ok"),
        "degraded": (glyphs.warn, "warn"),
        "stopping": (glyphs.warn, "warn"),
        "stalled": (glyphs.pause, "bad"),
        "serving_bad": (glyphs.failed, "bad"),
        "failed": (glyphs.failed, "bad"),
        "stopped": (glyphs.waiting, "dim"),
    }.get(state, (glyphs.unknown, "dim"))
