"""Scroll bars without parts of a cell, for a console that draws with ASCII alone."""

from __future__ import annotations

from typing import ClassVar

from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender

from console.tui.paint import Paint


class WholeCells(ScrollBarRender):
    """The end of the bar falls on the edge of a cell."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


def fit_bars(view: ScrollView, paint: Paint) -> None:
    if paint.plain:
        view.vertical_scrollbar.renderer = WholeCells  # type: ignore[misc]
        view.horizontal_scrollbar.renderer = WholeCells  # type: ignore[misc]
