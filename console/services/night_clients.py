"""Whether anybody uses the model: the engine's own figures, without what this console asks itself."""

from __future__ import annotations

from typing import Final

from console.boot.events import Event, SmokeDone, StatsSeen

# The engine tells its figures every ten seconds, of the ten seconds before (vLLM's logger interval).
WINDOW_S: Final = 12.0
_RATES: Final = ("prompt_tps", "generation_tps")


class Clients:
    """When the model was last used by somebody else. since: nothing before it is known, so the quiet counts from there.

    This console asks one short request a minute: figures that it can explain alone are no client's."""

    def __init__(self, since: float) -> None:
        self._busy_at = since
        self._asked_at = -1e18
        self._doubtful: list[float] = []

    def heard(self, event: Event) -> None:
        if isinstance(event, SmokeDone):
            self._asked_at = event.at
            # Told by the engine while our own request still ran, or just after it.
            self._doubtful = [at for at in self._doubtful if event.at - at > WINDOW_S]
        elif isinstance(event, StatsSeen):
            requests = event.values.get("running", 0.0) + event.values.get("waiting", 0.0)
            moved = any(event.values.get(name, 0.0) > 0.0 for name in _RATES)
            if requests > 1:
                self._busy_at = max(self._busy_at, event.at)
            elif (requests or moved) and event.at - self._asked_at > WINDOW_S:
                self._doubtful.append(event.at)

    def quiet_s(self, now: float) -> float:
        """Seconds since somebody else used it. A figure that our own request may yet explain counts until then."""
        settled = [at for at in self._doubtful if now - at > WINDOW_S]
        self._busy_at = max([self._busy_at, *settled])
        self._doubtful = [at for at in self._doubtful if now - at <= WINDOW_S]
        return now - max([self._busy_at, *self._doubtful])
