"""What a rank's log says of its configuration, before any stage of the boot is passed."""

from __future__ import annotations

import re
from typing import Any, Final

from console.enginelog import phrases as say
from console.enginelog.numbers import Numbers
from console.enginelog.passage import Passage
from console.enginelog.records import Record
from console.enginelog.stages_model import Stage

# How many processes or ranks of one container are kept apart: far above any node's, so that a hostile log stays small.
MOST_WRITERS: Final = 512


class Listener(Passage):
    """Keeps the numbers; each handler answers one phrase of `phrases`, and may find nothing more than the phrase."""

    def __init__(self, is_head: bool, world_size: int | None) -> None:
        super().__init__(is_head)
        self._known: dict[str, Any] = {} if world_size is None else {"world_size": world_size}
        self._numbers: Numbers | None = None
        self._architectures: dict[int | None, int] = {}

    @property
    def passes_expected(self) -> int:
        """Loading passes to come in all: one per architecture that the log resolved. Inferred: the draft of speculative
        decoding is resolved and loaded after the main model; 1 where the log has not said."""
        return max(1, max(self._architectures.values(), default=1))

    def numbers(self) -> Numbers:
        if self._numbers is None:
            self._numbers = Numbers(**self._known)
        return self._numbers

    def _know(self, name: str, value: Any, *, once: bool = False) -> None:
        if once and name in self._known:
            return
        self._known[name] = value
        self._numbers = None

    def _first(self, name: str, pattern: re.Pattern[str], text: str) -> None:
        """What a pattern finds first is kept under a name."""
        if name not in self._known and (found := pattern.search(text)):
            self._know(name, found[1])

    def _take(self, name: str, pattern: re.Pattern[str], text: str, *, once: bool = True) -> float | None:
        """The number that a pattern finds, kept under a name."""
        found = pattern.search(text)
        if found is None:
            return None
        value = say.number(found[1])
        self._know(name, value, once=once)
        return value

    def _on_banner(self, text: str, record: Record) -> None:
        if found := say.VERSION.search(text):
            self._know("version", found[1])

    def _on_arguments(self, text: str, record: Record) -> None:
        if found := say.ARGUMENTS.search(text):
            self._know("arguments", found[1], once=True)
            if "'enforce_eager': True" in found[1]:
                self._on_eager(text, record)

    def _on_architecture(self, text: str, record: Record) -> None:
        if record.pid in self._architectures or len(self._architectures) < MOST_WRITERS:
            self._architectures[record.pid] = self._architectures.get(record.pid, 0) + 1
        self._first("architecture", say.ARCHITECTURE, text)

    def _on_max_len(self, text: str, record: Record) -> None:
        if "max_model_len" not in self._known and (found := say.MAX_LEN.search(text)):
            self._know("max_model_len", int(found[1]))

    def _on_cast(self, text: str, record: Record) -> None:
        self._first("dtype", say.CAST, text)

    def _on_node_rank(self, text: str, record: Record) -> None:
        if "node_rank" not in self._known and (found := say.NODE_RANK.search(text)):
            self._know("node_rank", int(found[1]))

    def _on_engram_config(self, text: str, record: Record) -> None:
        # Inferred until the tables themselves say where they went: the config chooses between GPU and pinned host.
        if "engram_mode" not in self._known and (found := say.OFFLOAD.search(text)):
            self._know("engram_mode", "pinned host" if found[1] == "True" else "gpu")

    def _on_eager(self, text: str, record: Record) -> None:
        self._know("eager", True)
        self._skipped |= {Stage.GRAPHS, Stage.WARMUP}

    def _on_engine(self, text: str, record: Record) -> None:
        if "version" not in self._known and (found := say.ENGINE_VERSION.search(text)):
            self._know("version", found[1] or found[2])
        self._first("dtype", say.ENGINE_DTYPE, text)
        self._first("master", say.HEAD_ADDRESS, text)

    def _on_leader(self, text: str, record: Record) -> None:
        if "world_size" not in self._known and (found := say.LEADER_WORLD.search(text)):
            self._know("world_size", int(found[1]))

    def _on_attention(self, text: str, record: Record) -> None:
        if "vit" in text or "MMEncoder" in text:
            return
        self._first("attention_backend", say.ATTENTION, text)

    def _on_moe(self, text: str, record: Record) -> None:
        self._first("moe_backend", say.MOE, text)
