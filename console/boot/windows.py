"""Telemetry of one boot in little room: the lowest and the highest of each figure, ten seconds at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

WINDOW_S: Final = 10.0
GAP_S: Final = 60.0


class Windows:
    """Figures of the nodes of one boot. `add` gives back a line whenever a node's window is over."""

    def __init__(self, seconds: float = WINDOW_S) -> None:
        self._seconds = seconds
        self._open: dict[str, tuple[float, int, dict[str, tuple[float, float]]]] = {}
        self.lowest: dict[str, int] = {}
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.unseen_s = 0.0

    def add(self, node: str, at: float, values: Mapping[str, float]) -> dict[str, Any] | None:
        """at: epoch seconds of one clock for all nodes, the console's, as a node's own may be off by any amount.
        values: what is known now, by name. Returns the window that this sample ended, if any."""
        available = values.get("mem_available")
        if available is not None:
            self._seen(at)
        if available is not None and available < self.lowest.get(node, available + 1):
            self.lowest[node] = int(available)
        begun = at // self._seconds * self._seconds
        held = self._open.get(node)
        done = None
        if held is not None and held[0] != begun:
            done = self._line(node, held)
            held = None
        if held is None:
            held = (begun, 0, {})
        _, count, pairs = held
        for name, value in values.items():
            low, high = pairs.get(name, (value, value))
            pairs[name] = (min(low, value), max(high, value))
        self._open[node] = (begun, count + 1, pairs)
        return done

    def _seen(self, at: float) -> None:
        """Some node's memory was seen: when first, when last, and gaps between of a minute and more."""
        if self.last_at is not None and at - self.last_at >= GAP_S:
            self.unseen_s = round(self.unseen_s + at - self.last_at, 1)
        self.first_at = at if self.first_at is None else min(self.first_at, at)
        self.last_at = at if self.last_at is None else max(self.last_at, at)

    def rest(self) -> list[dict[str, Any]]:
        """The windows that are still open, at the end."""
        lines = [self._line(node, held) for node, held in self._open.items()]
        self._open.clear()
        return lines

    def _line(self, node: str, held: tuple[float, int, dict[str, tuple[float, float]]]) -> dict[str, Any]:
        begun, count, pairs = held
        figures = {name: [_short(low), _short(high)] for name, (low, high) in pairs.items()}
        return {"at": begun, "s": self._seconds, "node": node, "n": count, **figures}


def _short(value: float) -> float | int:
    """Bytes whole, small figures to two places."""
    return int(value) if abs(value) >= 1000 else round(value, 2)
