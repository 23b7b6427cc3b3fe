"""What the command line needs of the rest of the house; the composition root provides it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

# Types alone: a command that lists boots loads neither pydantic's models nor the telemetry.
if TYPE_CHECKING:
    from console.base.findings import Finding
    from console.cluster.model import Cluster
    from console.files.settings import Settings
    from console.recipe.model import Recipe
    from console.services.hub import BootSummary, HubApi, RecipeProblem
    from console.services.ledger import Ledger
    from console.services.replay import ReplayHub


class World(Protocol):
    """Settings and files are read, a cluster is found, nodes are connected only when a hub is opened."""

    def recipes(self) -> tuple[Sequence[Recipe], Sequence[RecipeProblem]]: ...

    def recipe(self, name: str) -> Recipe:
        """By name or path, read now. Raises FileErrors, UsageError."""
        ...

    def boots(self) -> Sequence[BootSummary]: ...

    def ledger(self) -> Ledger:
        """The ledger of this machine, to read and to mark; no node is asked."""
        ...

    @property
    def state_folder(self) -> Path: ...

    def settings(self) -> Settings: ...

    def heed_settings(self) -> None:
        """Say on standard error what is wrong with the settings' file, where there is one."""
        ...

    def now(self) -> float:
        """Epoch seconds."""
        ...

    def replay(self, what: str) -> ReplayHub:
        """A replay of a recording (a path) or of a boot (its id or number). Raises UsageError where there is none."""
        ...

    def hub(
        self, *, watch: bool = True, follow: bool = True, record: Path | None = None
    ) -> AbstractAsyncContextManager[HubApi]:
        """A hub on the chosen cluster. watch: started, with telemetry and logs; follow: logs go on as they come.
        record: a new file that keeps the session.

        Raises FileError for a bad cluster file, UsageError where there is none."""
        ...

    async def discover(self, args: argparse.Namespace) -> tuple[Cluster, str, Sequence[Finding]]:
        """`cluster init`: a proposal, its TOML text, and what was found out on the way."""
        ...

    async def check(self) -> Sequence[Finding]: ...

    def write_cluster(self, text: str, output: str | None, *, force: bool) -> str:
        """Returns the path. Raises UsageError where a file stands already."""
        ...

    def console(self) -> int: ...

    def play(self, what: str) -> int:
        """The console on a replay."""
        ...

    def lab(self, args: argparse.Namespace) -> int: ...
