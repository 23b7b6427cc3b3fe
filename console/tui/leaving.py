"""Leaving the console: what keeps running is said before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.tui.boot_lines import phase_span
from console.tui.screens.confirm import Choice, ConfirmScreen
from console.tui.spans import Line, safe

if TYPE_CHECKING:
    from console.tui.screens.main import MainScreen


def farewell(screen: MainScreen) -> str:
    """The sentence left on the terminal."""
    boot = screen.live_boot
    if boot is None:
        return ""
    nodes = len({r.node for r in boot.ranks})
    return (
        f"boot {boot.number} ({safe(boot.recipe)}) keeps running on {nodes} nodes: "
        "`nightdeck` finds it again, `nightdeck stop` ends it"
    )


def leave(screen: MainScreen) -> None:
    """Quit at once when nothing runs; else say what goes on and ask, the same key again being yes."""
    boot = screen.live_boot
    launching = screen.jobs.running("launch")
    if boot is None and not launching:
        screen.app.exit(0)
        return
    lines: list[Line] = []
    if launching:
        lines += [
            ((" A launch is under way: leaving aborts it, and what it started is asked to end.", "warn bold"),),
            (),
        ]
    if boot is not None and not launching:
        nodes = len({r.node for r in boot.ranks})
        lines += [
            ((f" Boot {boot.number} {safe(boot.recipe)}  ", "strong"), phase_span(boot, screen.glyphs)),
            (),
            ((f" It keeps running on {nodes} nodes; only the console ends.", "ok"),),
            ((" The next console finds it by its labels and follows it.", "text"),),
        ]

    def answered(answer: str | None) -> None:
        if answer == "quit":
            screen.app.exit(0, message=farewell(screen) or None)

    screen.app.push_screen(
        ConfirmScreen("Leave the console", lambda _: lines, (Choice("quit", "Quit", "q", "primary"),), screen.paint),
        answered,
    )
