"""The progress of ranks as lines: ranks that reach the same within a moment share one, and nothing goes back unsaid."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from console.boot.events import RankProgress
from console.enginelog.causes_model import runs
from console.enginelog.stages_model import Stage

# Ranks of one boot pass a stage within a second or two of each other; a person reads no faster.
MOMENT_S: Final = 0.7
_PASS: Final = {2: "second pass", 3: "third pass"}


class Progress:
    """say: prints a line (epoch seconds, text)."""

    def __init__(self, say: Callable[[float, str], None]) -> None:
        self._say = say
        self._last: dict[int, tuple[Stage, float | None]] = {}
        self._passes: dict[tuple[int, Stage], int] = {}
        self._told: dict[int, str] = {}
        self._held: dict[str, list[int]] = {}
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def heard(self, event: RankProgress) -> None:
        text = self._words(event)
        if not text or self._told.get(event.rank) == text:
            return
        self._told[event.rank] = text
        if self._held and event.at - self._since > MOMENT_S:
            self.flush()
        if not self._held:
            self._since = event.at
            self._later()
        self._held.setdefault(text, []).append(event.rank)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, {}
        for text, ranks in held.items():
            self._say(self._since, f"rank{'s' if len(set(ranks)) > 1 else ''} {runs(ranks)}: {text}")

    def _later(self) -> None:
        with contextlib.suppress(RuntimeError):  # no loop: whoever tells without one flushes at the end
            self._timer = asyncio.get_running_loop().call_later(MOMENT_S, self._flush_by_itself)

    def _flush_by_itself(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # whoever follows hears of it by writing
            self.flush()

    def _words(self, event: RankProgress) -> str:
        stage = event.stage
        if stage is None:
            return ""
        step = None if event.progress is None else int(event.progress * 10)
        before = self._last.get(event.rank)
        again = ""
        if before is not None:
            was, share = before
            if stage < was:
                again = ", again"
            elif stage is was and step is not None and share is not None and step < share:
                self._passes[(event.rank, stage)] = self._passes.get((event.rank, stage), 1) + 1
        self._last[event.rank] = (
            stage,
            step if step is not None else before[1] if before and before[0] is stage else None,
        )
        number = self._passes.get((event.rank, stage), 1)
        if number > 1:
            again = f", {_PASS.get(number, f'pass {number}')}"
        return f"{stage.word}{'' if step is None else f' {10 * step} %'}{again}"
