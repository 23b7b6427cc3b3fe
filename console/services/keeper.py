"""One boot's writer: what happens goes to its folder in order, off the loop, and never ends a launch."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from console.base.absent import Absent
from console.base.errors import NightdeckError
from console.base.secrets import secret_values
from console.boot.events import Event, RankProgress, StatsSeen
from console.boot.state import BootState
from console.boot.summary import merged, summary_of
from console.boot.windows import Windows
from console.cluster.facts import NodeFacts
from console.files.archive import log_files
from console.files.atomic import Appender, write_whole
from console.files.boot_folder import TELEMETRY, BootFolder, holder_of
from console.files.event_codec import encode_event
from console.files.journal import is_held, parse_boot_id, read_summary
from console.files.stop_mark import read_stop_mark, write_stop_mark
from console.plan.model import Plan
from console.recipe.mask import masked_source
from console.recipe.model import Recipe
from console.services.disk_queue import Backlog, DiskQueue, Pulse
from console.services.kept import log_end, newest_in
from console.services.series import METRICS
from console.services.tail import Resume, stamp_of
from console.telemetry.sample import Sample

# How long another console of this machine may take to write what a log's end holds, and how often that is looked at.
OTHERS_S = 10.0
OTHERS_BEAT_S: Final = 0.2
ROOM_BEAT_S: Final = 0.02
# What is heard of a boot while another console writes it, for when that one ends: its last moments matter then.
_UNWRITTEN: Final = 2000
_WEIGHTY: Final = frozenset(
    {"BootOpened", "BootFailed", "StopStarted", "StopEnded", "SmokeDone", "CauseFound", "Acted", "DeadlineMoved"}
)
# Engine figures come with each line of the engine's own; one in ten seconds tells a night.
STATS_EVERY_S: Final = 10.0


class Keeper:
    """Nothing here raises for the disk; a failure is told, and what could not be written is tried again.

    before: the summary that an earlier console of this machine left of this boot. cluster: its name, for the row.
    pulse: of `thread`, where it writes other boots too."""

    def __init__(
        self,
        folder: BootFolder | Path | None,
        thread: ThreadPoolExecutor,
        failed: Callable[[BaseException], None],
        *,
        before: Mapping[str, Any] | None = None,
        cluster: str = "",
        told: Callable[[str], None] = lambda _text: None,
        pulse: Pulse | None = None,
    ) -> None:
        self._folder = folder if isinstance(folder, BootFolder) else None
        self._path = folder.path if isinstance(folder, BootFolder) else folder
        self._backlog = Backlog(pulse or Pulse())
        self._queue = DiskQueue(self._folder, told, self._backlog) if self._folder is not None else None
        self._told = told
        self._taken: BootFolder | None = None
        self._unwritten: deque[Event] = deque(maxlen=_UNWRITTEN)
        self._secrets: frozenset[str] = frozenset()
        self._behind: dict[int, list[bytes] | None] = {}  # by rank: what came while its log is caught up
        self._thread = thread
        self._failed = failed
        self._before = before or {}
        self._cluster = cluster
        self._broken = False
        self._closed = False
        self._summary: Mapping[str, Any] = {}
        self._progress: dict[int, tuple[Any, ...]] = {}
        self._newest: dict[int, bytes] = {}  # where another writes: the stamp of the newest line, by rank
        self._stats_at = -1e18
        self._windows = Windows()
        self._telemetry: Appender | None = None
        lowest = self._before.get("min_available_bytes")
        self.lowest: int | None = lowest if isinstance(lowest, int) else None

    @property
    def path(self) -> Path | None:
        return self._path

    @property
    def writes(self) -> bool:
        """False where another console of this machine writes this boot, or the disk refused."""
        return self._queue is not None and not self._broken and not self._queue.stuck

    @property
    def owns(self) -> bool:
        """False where another console of this machine writes this boot, or nobody does."""
        return self._folder is not None

    def mark_stop(self, by: str, at: float, ended: float | None, result: str) -> None:
        """For this machine's other consoles, whoever of them writes the boot. at, ended: epoch s."""

        def work() -> None:
            try:
                if self._path is not None:
                    write_stop_mark(self._path, by, at, ended=ended, result=result)
            except NightdeckError as error:
                self._failed(error)

        self._thread.submit(work)

    def stopped_by(self, now: float) -> str:
        """Who stops this boot now, or did a moment ago, as a console of this machine told. In a thread."""
        mark = read_stop_mark(self._path, now) if self._path is not None else None
        return mark.by if mark is not None else ""

    # -- where another console of this machine wrote this boot --------------------------------------------------

    @property
    def left_to_another(self) -> bool:
        """There is a folder, and this console does not write it."""
        return self._folder is None and self._path is not None and not self._closed

    @property
    def behind(self) -> tuple[int, ...]:
        """Ranks of whose logs the folder lacks what came while nobody wrote it."""
        return tuple(self._behind)

    def take(self) -> bool:
        """Take the folder, where whoever wrote it has ended; `own` then begins to write. Blocks for milliseconds."""
        named = parse_boot_id(self._path.name) if self._path is not None else None
        if named is None or self._path is None or self._taken is not None:
            return self._taken is not None
        try:
            self._taken = BootFolder(self._path, named[0], secrets=self._secrets)
        except NightdeckError:  # another writes on, or the folder is no more
            return False
        return True

    def own(self, lacking: Callable[[Path, Sequence[Event]], list[Event]], ranks: Iterable[int]) -> None:
        """Write what was taken from now on. lacking: those of the events that the folder has not. ranks: whose logs are
        read already, and must be caught up."""
        folder, self._taken = self._taken, None
        if folder is None:
            return
        self._before = read_summary(folder.path)[0]
        self._folder, self._queue = folder, DiskQueue(folder, self._told, self._backlog)
        self._behind = dict.fromkeys(ranks)
        self._summary = {}
        events, late = tuple(self._unwritten), list[Event]()
        self._unwritten.clear()
        self._do(lambda held: late.extend(lacking(held.path, events)), must=True)

        def write(held: BootFolder) -> None:
            while late:  # a disk that refuses is asked again
                held.append_event(encode_event(late[0]), flush=True)
                late.pop(0)

        self._do(write, must=True)

    def catching(self, rank: int) -> None:
        """A rank's log is read from its node: what comes of it meanwhile waits."""
        self._behind[rank] = []

    def caught(self, rank: int, resume: Resume | None) -> None:
        """Its reading is over. resume: knows the lines that the folder has by now; None: not all were read."""
        if resume is None:
            self._behind[rank] = None
            return
        aside = self._behind.pop(rank, None) or []
        resume.since()
        if lines := [line for line in aside if resume.fresh(line)]:
            self.log(rank, lines)

    async def room(self) -> None:
        """Until more can be held. Whoever reads a log asks before it reads on: the node keeps the rest meanwhile. A
        disk that hangs is not waited for."""
        while self._held_back():  # noqa: ASYNC110  what it waits for is another thread's
            await asyncio.sleep(ROOM_BEAT_S)

    def _held_back(self) -> bool:
        return self._queue is not None and not (self._broken or self._closed) and self._backlog.pressed

    def _do(
        self, work: Callable[[BootFolder], None], size: int = 500, *, log: bool = False, must: bool = False
    ) -> None:
        queue = self._queue
        if queue is None or self._broken or self._closed:
            return
        if not self._backlog.enter(size, must=must):
            queue.lost(log=log)
            return

        def guarded() -> None:
            if self._broken:
                return
            try:
                queue.do(work, size, log=log, must=must)
            except Exception as error:  # noqa: BLE001 - nobody waits for this: what is not told here is told nowhere
                self._broken = True
                self._failed(error)

        self._thread.submit(guarded)

    def event(self, event: Event) -> None:
        """Progress is kept where it is news: another stage, or ten percent more; engine figures every ten seconds."""
        if isinstance(event, StatsSeen):
            if event.at - self._stats_at < STATS_EVERY_S:
                return
            self._stats_at = event.at
        if isinstance(event, RankProgress):
            step = None if event.progress is None else int(event.progress * 10)
            news = (event.stage, step)
            if self._progress.get(event.rank) == news:
                return
            self._progress[event.rank] = news
        if self._queue is None:
            self._unwritten.append(event)
            return
        row = encode_event(event)
        self._do(lambda folder: folder.append_event(row, flush=row["type"] in _WEIGHTY))

    def add_secrets(self, values: Iterable[str]) -> None:
        """Values to mask in all that is written from now on."""
        if secrets := frozenset(values):
            self._secrets |= secrets
            self._do(lambda folder: folder.add_secrets(secrets))

    def plan(self, recipe: Recipe, plan: Plan, facts: Mapping[str, NodeFacts | object]) -> None:
        source = masked_source(recipe)
        secrets = secret_values(recipe.env, recipe.args) | plan.secrets

        def work(folder: BootFolder) -> None:
            folder.add_secrets(secrets)
            folder.write_recipe(source)
            folder.write_plan(plan)
            folder.write_facts(facts)

        self._do(work)

    def log(self, rank: int, lines: Sequence[bytes], *, caught: bool = False) -> None:
        """caught: read from the node once more, for a log that this console took over."""
        if rank in self._behind and not caught:
            if (aside := self._behind[rank]) is not None:
                aside.extend(lines)
            return
        data = b"\n".join(lines) + b"\n"
        if self._folder is None and lines:
            self._newest[rank] = stamp_of(lines[-1])
        self._do(lambda folder: folder.append_log(rank, data), len(data), log=True)

    def guard(self, rank: int, text: str) -> None:
        self._do(lambda folder: folder.append_guard(rank, text))

    def sample(self, sample: Sample) -> None:
        """A node's figures, into the lowest and highest of ten seconds of the console's time; one that does not say
        when it was heard belongs to none of them."""
        values: dict[str, float] = {}
        for name, pick in METRICS.items():
            value = pick(sample)
            if not isinstance(value, Absent):
                values[name] = float(value)
        if isinstance(sample.heard_at, Absent):
            return
        line = self._windows.add(sample.node, sample.heard_at, values)
        lows = [*self._windows.lowest.values(), *([self.lowest] if self.lowest is not None else [])]
        self.lowest = min(lows, default=None)
        if line is not None:
            self._telemetry_line(line)

    def _telemetry_line(self, line: Mapping[str, Any]) -> None:
        def work(folder: BootFolder) -> None:
            if self._telemetry is None:
                self._telemetry = Appender(folder.path / TELEMETRY, lines=True)
            self._telemetry.append(_json_line(line))

        self._do(work)

    def document(self, name: str, value: Mapping[str, Any]) -> None:
        """A JSON document of its own in the folder (`measure.json`), secrets masked."""
        self._do(lambda folder: folder.write_document(name, value))

    def held_lines(self, rank: int) -> list[bytes]:
        """Whole lines that an earlier console of this machine kept of this rank's log, packed ones too."""
        if self._path is None:
            return []
        try:
            file = log_files(self._path).get(rank)
            if file is None:
                return []
            data = log_end(file)
        except (NightdeckError, OSError) as error:
            self._failed(error)
            return []
        lines = data.split(b"\n")
        lines.pop()  # what a crash left without a newline comes again whole
        return [line for line in lines if line]

    def all_lines(self, rank: int) -> list[bytes] | None:
        """`held_lines` after all that was given to this keeper; None where the disk does not take it. Blocks."""
        try:
            self.flush()
        except TimeoutError:
            return None
        return self.held_lines(rank)

    def states(self, states: Mapping[str, Any]) -> None:
        self._do(lambda folder: folder.write_states(states))

    def summary(self, state: BootState) -> None:
        """The ledger's row, when it says something new."""
        row = merged(self._before, summary_of(state, self.lowest, self._windows, self._cluster))
        if row != self._summary:
            self._summary = row
            self._do(lambda folder: folder.write_summary(row))

    def flush(self) -> None:
        """Wait until all that was asked is on the disk itself. Blocks; TimeoutError after 30 s, or where the disk
        refuses."""
        if self._closed:
            raise TimeoutError
        self._do(lambda folder: folder.sync(), 0, must=True)
        self._thread.submit(lambda: None).result(timeout=30)
        if self._broken or (self._queue is not None and self._queue.stuck):
            raise TimeoutError

    def unsaved(self) -> str:
        """Why the logs that were given here are not on the disk itself; empty where they are. Blocks for seconds."""
        if self._folder is None:
            return self._unseen() if self._path is not None else "this boot has no folder on this machine"
        try:
            self.flush()
        except TimeoutError:
            return self._disk_says()
        if self._behind:
            rows = ", ".join(str(r) for r in sorted(self._behind))
            return f"whoever wrote this boot has ended, and its log of rank {rows} is not caught up yet"
        return self._disk_says() if self._broken else self._gap()

    def _gap(self) -> str:
        return self._queue.gap if self._queue is not None else ""

    def _disk_says(self) -> str:
        """In the disk's own words, as far as it still refuses."""
        assert self._path is not None
        room = self._path / ".room"
        try:
            write_whole(room, bytes(65_536))
        except NightdeckError as error:
            return f"{self._path}: {error.what}"
        with contextlib.suppress(OSError):
            room.unlink(missing_ok=True)
        return "this machine's disk refused them, or is too slow"

    def _unseen(self) -> str:
        """Another console writes this boot: its files must come to hold what was read here."""
        assert self._path is not None
        limit = time.monotonic() + OTHERS_S
        while missing := [r for r, stamp in self._newest.items() if newest_in(self._path, r) < stamp]:
            rows = ", ".join(str(r) for r in sorted(missing))
            if not is_held(self._path):
                return f"nobody writes this boot, and its log of rank {rows} is not whole"
            if time.monotonic() > limit:
                return f"{holder_of(self._path)} writes this boot, and its log of rank {rows} is not whole"
            time.sleep(OTHERS_BEAT_S)
        return ""

    def close(self) -> None:
        for line in self._windows.rest():
            self._telemetry_line(line)
        self._closed = True
        self._thread.submit(self._end)

    def _end(self) -> None:
        """In the ledger's thread: what waits for the disk once more, and the folder's lock given up in any case."""
        try:
            if self._queue is not None:
                self._queue.last()
        finally:
            try:
                if self._taken is not None:
                    self._taken.close()
                if self._folder is not None:
                    self._folder.close()
            except NightdeckError as error:
                self._failed(error)
            finally:
                if self._telemetry is not None:
                    self._telemetry.close()


def _json_line(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"
