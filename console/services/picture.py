"""One picture of what the hub knows for every face, drawn anew when something changed; and what else faces read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from console.base.clock import Clock
from console.base.secrets import mask_text
from console.base.text import clean_line
from console.base.theme import ThemeColours
from console.boot.compare import Comparison
from console.boot.events import Event
from console.boot.to_json import stamp
from console.cluster.model import Cluster
from console.services.compare import compared
from console.services.follower import Follower
from console.services.hub import BootSummary, ControlsView, LogBatch, Notice, Snapshot
from console.services.ledger import Ledger
from console.services.log_store import LogStore
from console.services.node_watch import NodeWatch
from console.services.replay import BY_LENGTH, ReplayHub
from console.services.replay_rows import Source
from console.services.replay_rows import boot as boot_source
from console.services.series import SeriesBook
from console.services.shelf import Shelf
from console.services.vigil import Vigil

NOTICES = 200
FIGURES_S = 0.5
BOOTS_KEEP_S = 1.0

NO_BOOT: Final = "no boot of it is kept, so there is nothing to compare with"


class Picture:
    """The part of `HubApi` that only reads. Who extends it watches nodes and follows deployments, and says when to draw
    anew. Of one event loop; nothing in it blocks."""

    vigil: Vigil
    _watches: Mapping[str, NodeWatch]

    def __init__(
        self,
        *,
        cluster: Cluster,
        shelf: Shelf,
        ledger: Ledger,
        clock: Clock,
        read_only: bool,
        by: str,
        log_lines: int,
    ) -> None:
        self._cluster = cluster
        self._shelf = shelf
        self._ledger = ledger
        self._clock = clock
        self._read_only = read_only
        self._by = by
        self._version = 0
        self._snapshot: Snapshot | None = None
        self._touching: asyncio.TimerHandle | None = None
        self._touched_at = 0.0
        self._boots: tuple[float, Sequence[BootSummary]] | None = None
        self._subscribers: set[Callable[[], None]] = set()
        self._listeners: set[Callable[[str, Event], None]] = set()
        self._notices: deque[Notice] = deque(maxlen=NOTICES)
        self._notice_seq = 0
        self._job = ""
        self._controls_view = ControlsView()
        self._followers: dict[str, Follower] = {}
        self._show: str | None = None
        self._log = LogStore(log_lines)
        self._series = SeriesBook()
        self._looked = False
        self._looking: tuple[int, int] | None = None
        self._recipes, self._problems = shelf.load()

    @property
    def read_only(self) -> bool:
        """By the operator's word, or while another has taken the controls."""
        return self._read_only or self._controls_view.state == "taken"

    @property
    def by(self) -> str:
        return self._by

    def now(self) -> float:
        return self._clock.wall()

    def snapshot(self) -> Snapshot:
        if self._snapshot is None or self._snapshot.version != self._version:
            self._snapshot = self._draw()
        return self._snapshot

    def _draw(self) -> Snapshot:
        shown = self._followers.get(self._show) if self._show is not None else None
        ranks = {r.node: r.rank for r in shown.state.ranks} if shown is not None else {}
        now = self._clock.monotonic()
        nodes = tuple(w.view(now, ranks.get(name)) for name, w in self._watches.items())
        return Snapshot(
            version=self._version,
            at=self._clock.wall(),
            cluster=self._cluster,
            nodes=nodes,
            boot=shown.state if shown is not None else None,
            boots=tuple(f.state for f in self._followers.values()),
            recipes=tuple(self._recipes),
            problems=tuple(self._problems),
            notices=tuple(self._notices),
            job=self._job,
            read_only=self.read_only,
            alarms=self.vigil.alarms.all,
            lowest=self.vigil.lowest(nodes),
            controls=self._controls_view,
            looked=self._looked,
            looking=self._looking,
        )

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._subscribers.add(changed)
        return lambda: self._subscribers.discard(changed)

    def listen(self, heard: Callable[[str, Event], None]) -> Callable[[], None]:
        self._listeners.add(heard)
        return lambda: self._listeners.discard(heard)

    def log(self, since_seq: int, *, limit: int = 5000) -> LogBatch:
        return self._log.read(since_seq, limit)

    def series(self, node: str, metric: str, *, seconds: float, points: int) -> Sequence[float | None]:
        return self._series.read(node, metric, seconds=seconds, points=points, now=self._clock.monotonic())

    def themes(self) -> Sequence[ThemeColours]:
        return self._shelf.themes()

    def acknowledge_alarms(self, ident: int | None = None) -> int:
        return self.vigil.alarms.acknowledge(ident, self._by)

    def mute_alarms(self, seconds: float, *, code: str = "", node: str = "") -> None:
        self.vigil.alarms.mute(seconds, code=code, node=node)

    async def test_alarms(self, way: str | None = None) -> Mapping[str, str]:
        return await self.vigil.alarms.test(way)

    def use_terminal(self, write: Callable[[str], None]) -> None:
        self.vigil.use_terminal(write)

    def boots(self) -> Sequence[BootSummary]:
        """Faces ask with every picture, and each look lists a folder: between two acts or events once a second."""
        now = self._clock.monotonic()
        if self._boots is None or now - self._boots[0] >= BOOTS_KEEP_S:
            self._boots = (now, self._ledger.boots())
        return self._boots[1]

    async def open_replay(self, boot: str) -> ReplayHub:
        def opened() -> Source:
            return boot_source(self._ledger.index.find(boot).entry.path)

        return ReplayHub(await asyncio.to_thread(opened), self._clock, themes=self.themes(), speed=BY_LENGTH)

    async def compare_boots(self, *names: str) -> Comparison:
        return await asyncio.to_thread(compared, self._ledger.index, self._recipes, names)

    def save_log(self, rank: int | None) -> str:
        lines = self._log.held(rank)
        text = "".join(f"r{entry.rank} {entry.node} {stamp(entry.at)} {entry.text}\n" for entry in lines)
        which = "all" if rank is None else f"rank{rank}"
        return self._shelf.write_log(f"{self._show or 'log'}-{which}-{int(self._clock.wall())}.log", text)

    def reload_recipes(self) -> None:
        self._recipes, self._problems = self._shelf.load()
        self._touch()

    def changes_since_last(self, recipe: str) -> Sequence[str]:
        now = next((r for r in self._recipes if r.slug == recipe), None)
        if now is None:
            return ()
        return self._ledger.changes(now) or (() if self._ledger.has_run(recipe) else (NO_BOOT,))

    # -- when it is drawn ---------------------------------------------------------------------------------------------

    def _touch_soon(self) -> None:
        """Figures are for the eye, and many nodes speak at any moment: one picture for all that came meanwhile."""
        if self._touching is None:
            loop = asyncio.get_running_loop()
            self._touching = loop.call_at(max(loop.time(), self._touched_at + FIGURES_S), self._draw_anew)

    def _touch(self) -> None:
        """Something was done or happened."""
        self._boots = None
        self._draw_anew()

    def _draw_anew(self) -> None:
        if self._touching is not None:
            self._touching.cancel()
            self._touching = None
            self._touched_at = asyncio.get_running_loop().time()
        self._version += 1
        for changed in tuple(self._subscribers):
            changed()

    def _tell(self, severity: str, text: str) -> None:
        self._notice_seq += 1
        self._notices.append(Notice(self._notice_seq, self._clock.wall(), severity, clean_line(mask_text(text))))
        self._touch()

    def tell_of(self, text: str) -> None:
        """Something beside the cluster that whoever opens a console should see once."""
        self._tell("warn", text)

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._tell("error", f"{name} ended with an error of the console's own: {type(error).__name__}: {error}")
