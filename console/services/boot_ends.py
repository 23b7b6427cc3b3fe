"""Which boots are over and dealt with, so that nothing of them is an alarm any more. Pure but for what it remembers."""

from __future__ import annotations

from collections.abc import Iterable

from console.boot.state import BootState, Phase


class BootEnds:
    """Knows of each boot whether what it left behind was seen, and when its fall was told last."""

    def __init__(self) -> None:
        self._stood: set[str] = set()  # deployments that were seen to have failed while containers of theirs stood
        self._absent: dict[str, int] = {}  # deployment -> ranks without a container when its fall was told
        self.over: frozenset[str] = frozenset()

    def look(self, states: Iterable[BootState]) -> list[BootState]:
        """Once a second, all that are known: those that have been dealt with by now and had not before."""
        rows = tuple(states)
        done: list[BootState] = []
        for state in rows:
            if state.phase is Phase.FAILED and any(r.status not in (None, "absent") for r in state.ranks):
                self._stood.add(state.deployment)
            if state.phase is Phase.STOPPED or (state.phase is Phase.FAILED and self._ended(state, rows)):
                done.append(state)
        fresh = [s for s in done if s.deployment not in self.over]
        self.over = frozenset(s.deployment for s in done)
        return fresh

    def _ended(self, state: BootState, rows: Iterable[BootState]) -> bool:
        """Its containers were taken away since it failed, or a newer boot took a node of it. A boot that failed because
        its containers went was dealt with by nobody yet."""
        if state.deployment in self._stood and all(r.status == "absent" and r.reachable for r in state.ranks):
            return True
        mine = {r.node for r in state.ranks} - {""}
        return any(
            other.launched_at > state.launched_at and mine & {r.node for r in other.ranks}
            for other in rows
            if other.deployment != state.deployment
        )

    def tells(self, state: BootState) -> bool:
        """Whether what is known of a fall is news of the fall itself: when containers are taken away after it, what is
        concluded from that is no cause of it."""
        if state.deployment in self.over:
            return False
        absent = sum(1 for r in state.ranks if r.status == "absent")
        return absent <= self._absent.setdefault(state.deployment, absent)


def subjects(state: BootState) -> list[str]:
    """What the alarms of a boot are about: itself and its ranks."""
    name = f"boot {state.number}"
    return [name, *(f"{name} rank {r.rank}" for r in state.ranks)]
