"""Leaving the console: what keeps running is said before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.boot.state import GONE, BootState
from console.tui.boot_lines import phase_span
from console.tui.screens.confirm import Choice, ConfirmScreen
from console.tui.spans import Line, safe

if TYPE_CHECKING:
    from console.tui.screens.main import MainScreen


def _where(boot: BootState, verb: str) -> str:
    """On how many nodes, by what was last seen there, and where that is not known."""
    ends = {r.node for r in boot.ranks if r.status in GONE}
    dark = {r.node for r in boot.ranks if not r.reachable} - ends
    seen = {r.node for r in boot.ranks} - ends - dark
    words = f"{verb} on {len(seen)} node{'' if len(seen) == 1 else 's'}"
    return f"{words}, and perhaps on {safe(', '.join(sorted(dark)))}, which does not answer" if dark else words


def _rest(boot: BootState) -> str:
    """What goes on without the console: a deployment, or what a stop did not end."""
    if boot.half_stopped:
        return _where(boot, "What its stop did not end stays")
    return f"It {_where(boot, 'keeps running')}"


def farewell(screen: MainScreen) -> str:
    """The sentence left on the terminal."""
    boot = screen.live_boot
    if boot is None:
        return ""
    verb = "is left" if boot.half_stopped else "keeps running"
    return (
        f"boot {boot.number} ({safe(boot.recipe)}) {_where(boot, verb)}: "
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
        lines += [
            ((f" Boot {boot.number} {safe(boot.recipe)}  ", "strong"), phase_span(boot, screen.glyphs)),
            (),
            ((f" {_rest(boot)}; only the console ends.", "warn" if boot.half_stopped else "ok"),),
            ((" The next console finds it by its labels and follows it.", "text"),),
        ]

    def answered(answer: str | None) -> None:
        if answer == "quit":
            screen.app.exit(0, message=farewell(screen) or None)

    screen.app.push_screen(
        ConfirmScreen("Leave the console", lambda _: lines, (Choice("quit", "Quit", "q", "primary"),), screen.paint),
        answered,
    )
