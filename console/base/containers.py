"""The engines' words for a container whose process is over, as docker and podman have them."""

from __future__ import annotations

from typing import Final

# Any other word, also an unknown one, may be a living container.
ENDED: Final = frozenset({"exited", "dead", "stopped"})
