"""Nodes that are folders of this machine: every command really runs, with a /tmp of the node's own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from console.cluster.model import Node
from console.transport.base import Completed, Stream
from console.transport.local import LocalLink


class MachineLink(LocalLink):
    """A link whose commands see TMPDIR in the node's folder. Several consoles can have links to one node."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(Node(name=name, host=name))
        self._folder = folder

    def _argv(self, argv: Sequence[str]) -> list[str]:
        return ["env", f"TMPDIR={self._folder}", *argv]

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20) -> Completed:
        return await super().run(self._argv(argv), timeout=timeout, stdin=stdin, limit=limit)

    def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AbstractAsyncContextManager[Stream]:
        return super().stream(self._argv(argv), stdin=stdin, interactive=interactive, open_timeout=open_timeout)


class Machines:
    """A fleet on the folders of `root`; two of them on one root are two consoles on the same nodes."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        for name in names:
            (root / name).mkdir(parents=True, exist_ok=True)
        self._links = {name: MachineLink(name, root / name) for name in names}

    def link(self, node: str) -> MachineLink:
        return self._links[node]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._links)

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
