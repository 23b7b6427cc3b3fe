"""How a rank's run is left: by an exit code, or because another rank is gone."""

from __future__ import annotations


class Exit(Exception):
    """The rank's process ends with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class PeerLeft(Exception):
    """Another rank is gone while this one still needs it."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.rank = rank
