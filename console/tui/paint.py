"""Roles into styles: the one place where a span gets its colour, from the theme in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip

from console.tui.spans import Line

# role -> (theme variable, attributes)
ROLES: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("foreground", ""),
    "strong": ("foreground", "bold"),
    "dim": ("dim", ""),
    "head": ("dim", ""),
    "line": ("line", ""),
    "key": ("accent", "bold"),
    "title": ("primary", "bold"),
    "brand": ("accent", "bold"),
    "fresh": ("node-fresh", ""),
    "late": ("node-late", ""),
    "lost": ("node-lost", ""),
    "ok": ("node-ok", ""),
    "warn": ("node-warn", ""),
    "bad": ("node-bad", ""),
    "idle": ("node-idle", ""),
    "pending": ("stage-pending", ""),
    "active": ("stage-active", ""),
    "done": ("stage-done", ""),
    "failed": ("stage-failed", "bold"),
    "inferred": ("stage-inferred", ""),
    "laggard": ("stage-laggard", ""),
    "log-error": ("log-error", ""),
    "log-warning": ("log-warning", ""),
    "log-info": ("log-info", ""),
    "log-debug": ("log-debug", ""),
    "log-time": ("log-time", ""),
    "log-rank": ("log-rank", ""),
    "log-progress": ("log-progress", ""),
    "log-search": ("log-search", "reverse"),
    "memory": ("chart-memory", ""),
    "shmem": ("chart-shmem", ""),
    "gpu": ("chart-gpu", ""),
    "power": ("chart-power", ""),
    "network": ("chart-network", ""),
    "temperature": ("chart-temperature", ""),
    "grid": ("chart-grid", ""),
}
PLAIN_SIGNS: Final = str.maketrans({"…": "~", "→": ">", "±": "~", "°": " ", "·": "-", "“": '"', "”": '"', "▌": "|"})
# Ranks differ in hue so that a merged log can be told apart; the number stands beside it always.
RANK_HUES: Final = ("log-rank", "network", "gpu", "power", "shmem", "temperature", "memory", "active")


def rank_role(rank: int) -> str:
    return RANK_HUES[rank % len(RANK_HUES)]


class Paint:
    """Styles for roles under one theme and one background; made again when the theme changes."""

    def __init__(self, variables: Mapping[str, str], defaults: Mapping[str, str], *, plain: bool = False) -> None:
        self.plain = plain
        self._variables = variables
        self._defaults = defaults
        self._cache: dict[tuple[str, Style], Style] = {}

    def colour(self, variable: str) -> str | None:
        """A theme variable as a colour that rich reads, or None when the terminal's own is meant."""
        for source in (self._variables, self._defaults):
            value = source.get(variable)
            if value:
                parsed = Color.parse(value.split()[0])
                return None if parsed.ansi is not None and parsed.ansi < 0 else parsed.rich_color.name
        return None

    @staticmethod
    def variable(role: str) -> str:
        """The theme variable behind a role."""
        return ROLES.get(role, ("foreground", ""))[0]

    def style(self, role: str, base: Style) -> Style:
        """The style of `role` (with attributes) over `base`."""
        known = self._cache.get((role, base))
        if known is not None:
            return known
        name, *attributes = role.split()
        variable, own = ROLES.get(name, ("foreground", ""))
        if own:
            attributes.append(own)
        flags = {flag: True for flag in attributes if flag in ("bold", "dim", "reverse", "underline", "italic")}
        style = base + Style(color=self.colour(variable), **flags)  # type: ignore[arg-type]
        self._cache[(role, base)] = style
        return style

    def spell(self, text: str) -> str:
        """The text as this terminal can show it: our own signs outside ASCII are replaced where they must be."""
        return text.translate(PLAIN_SIGNS) if self.plain and not text.isascii() else text

    def strip(self, line: Line, width: int, base: Style) -> Strip:
        """A line of exactly `width` cells."""
        segments = [Segment(self.spell(text), self.style(role, base)) for text, role in line if text]
        return Strip(segments).adjust_cell_length(width, base)
