"""The ledger of boots on this machine: each boot's folder is written as things happen, off the loop, in order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from console.base.errors import NightdeckError, UsageError
from console.base.secrets import mask_text
from console.base.text import clean_line
from console.boot.events import Acted, BootOpened
from console.boot.figures import unseen_text
from console.boot.reduce import opened, reduce_all
from console.boot.state import BootState
from console.boot.summary import GONE_WHY, UNKNOWN, merged, summary_of
from console.enginelog.stages_model import Stage
from console.files.archive import export_boot, folder_bytes, pack_logs, read_json, write_marks
from console.files.boot_folder import BootFolder, BusyError
from console.files.boot_index import BootIndex, Listed
from console.files.event_codec import decode_event, encode_event
from console.files.journal import BootEntry, Journal, read_events
from console.recipe.diff import diff_recipes
from console.recipe.mask import masked_source
from console.recipe.model import Recipe
from console.services.disk_queue import Pulse
from console.services.hub import BootSummary
from console.services.retention import Limits, to_remove

# Loaded where a boot is written or a recipe compared: to list boots takes neither telemetry nor pydantic's models.
if TYPE_CHECKING:
    from console.plan.memory_model import MeasuredBoot
    from console.services.keeper import Keeper

# A boot in one of these is over for the ledger: nothing that is found later changes its verdict.
_END_OF_CALENDAR: Final = 253_402_300_799.0  # the year 9999
_OVER: Final = frozenset({"stopped", "failed", UNKNOWN})


class Ledger:
    """All boots that are kept. told: hears once when writing fails (a full disk must not end a launch).

    keep, keep_bytes: retention, applied when a boot is opened; 0 is no limit. cluster: the name of the cluster in use,
    kept in each boot's row."""

    def __init__(
        self,
        journal: Journal,
        told: Callable[[str], None] = lambda _text: None,
        *,
        keep: int = 0,
        keep_bytes: int = 0,
    ) -> None:
        self._journal = journal
        self.index = BootIndex(journal)
        self.told = told
        self.cluster = ""
        self._limits = Limits(keep, keep_bytes)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._pulse = Pulse()
        self._keepers: dict[str, Keeper] = {}
        self._unopened: dict[str, str] = {}  # deployments without a folder, and why

    # -- writing ------------------------------------------------------------------------------------------------

    def keeper(self, deployment: str, number: int, recipe: str, *, now: float, secrets: Iterable[str] = ()) -> Keeper:
        """The writer of a deployment's folder, made where there is none. Never raises: without a folder it keeps
        nothing, and says so. secrets: values that are masked in all that it writes from now on."""
        from console.services.keeper import Keeper

        held = self._keepers.get(deployment)
        if held is None or held.path is None:  # a disk that had no room for a folder may have it now
            folder, before = self._open(deployment, number, recipe, now)
            held = Keeper(
                folder,
                self._thread,
                self._fail,
                before=before,
                cluster=self.cluster,
                told=lambda text: self.told(text),
                pulse=self._pulse,
            )
            self._keepers[deployment] = held
        held.add_secrets(secrets)
        return held

    def _open(
        self, deployment: str, number: int, recipe: str, now: float
    ) -> tuple[BootFolder | Path | None, Mapping[str, Any]]:
        try:
            entry = self._find(deployment)
            if entry is not None:
                try:
                    return self._journal.reopen(entry.id), entry.summary
                except BusyError:
                    # another console of this machine writes it: read, and leave the writing to it
                    return entry.path, entry.summary
            try:
                folder = self._journal.open_boot(recipe, now=now, number=number)
            except UsageError:
                folder = self._journal.open_boot(recipe, now=now)  # the number is another boot's of this machine
            first = {"deployment": deployment, "recipe": recipe, "boot": number, "cluster": self.cluster}
            folder.write_summary({**first, "state": "starting"})
            self._submit(self._tidy)
            return folder, {}
        except NightdeckError as error:
            self._unopened[deployment] = _words(error)
            self._fail(error)
            return None, {}

    def flush(self, deployments: Collection[str]) -> None:
        """Wait until all that was kept of these is on the disk. Blocks; TimeoutError after 30 s."""
        for name in deployments:
            keeper = self._keepers.get(name)
            if keeper is not None:
                keeper.flush()

    def keeps(self, deployment: str) -> bool:
        """False where this boot has no folder: then nothing of it was kept."""
        keeper = self._keepers.get(deployment)
        return keeper is not None and keeper.path is not None

    def held(self, deployment: str) -> Keeper | None:
        """What `keeper` gave for a deployment before."""
        return self._keepers.get(deployment)

    def unsaved(self, deployments: Collection[str]) -> dict[str, str]:
        """Of these, those whose logs are not on the disk, and why. Blocks for seconds."""
        out: dict[str, str] = {}
        for name in deployments:
            keeper = self._keepers.get(name)
            why = keeper.unsaved() if keeper is not None else ""
            if why and not self.keeps(name):
                why = self._unopened.get(name, why)
            if why:
                out[name] = why
        return out

    def entry_of(self, deployment: str) -> BootEntry | None:
        """The boot of a deployment, where it is kept here. Raises DiskError."""
        return self._find(deployment) if deployment else None

    def last_of(self, recipe: str) -> BootEntry | None:
        """The newest boot of a recipe; of any where it has none. Raises DiskError."""
        boots = [r.entry for r in self.index.boots()]
        return next((e for e in boots if e.recipe == recipe), boots[0] if boots else None)

    def _find(self, deployment: str) -> BootEntry | None:
        return next((r.entry for r in self.index.boots() if r.entry.summary.get("deployment") == deployment), None)

    def _fail(self, error: BaseException) -> None:
        self.told(f"this boot is not kept on disk: {_words(error)}")

    def _submit(self, work: Callable[..., None], *args: Any) -> None:
        """Off the loop, in order. Nobody waits for it, so an error that it does not expect is told."""

        def ended(done: Future[None]) -> None:
            if (error := done.exception()) is not None:
                self.told(f"the ledger could not do its work: {_words(error)}")

        self._thread.submit(work, *args).add_done_callback(ended)

    def next_number(self, *, above: int = 0) -> int:
        try:
            return self._journal.next_number(above=above)
        except NightdeckError as error:
            self._fail(error)
            return above + 1

    # -- after a boot -------------------------------------------------------------------------------------------

    def settle(self, present: Collection[str], answered: Collection[str], *, whole: bool, now: float) -> None:
        """What a census says of boots that no console follows: one whose containers are gone from every node that it
        had gets its verdict. present: deployments found. answered: the nodes that could be asked; whole: those are all
        of the cluster, which is enough for a boot that ended before it said which nodes it has. Returns at once."""
        self._submit(self._settle, frozenset(present), frozenset(answered), whole, self.cluster, now)

    def _settle(self, present: frozenset[str], answered: frozenset[str], whole: bool, cluster: str, now: float) -> None:
        try:
            for row in self.index.boots():
                self._pulse.beat()
                state = str(row.entry.summary.get("state") or "")
                if row.entry.live or state in _OVER or row.entry.summary.get("cluster", "") != cluster:
                    continue
                if row.entry.summary.get("deployment") in present or row.entry.summary.get("deployment") is None:
                    continue
                nodes = nodes_of(row.entry)
                if nodes <= answered if nodes else whole:
                    with contextlib.suppress(BusyError):  # a console took it up meanwhile
                        self._finish(row.entry, now)
        except NightdeckError as error:
            self.told(f"boots of before could not be settled: {error}")

    def _finish(self, entry: BootEntry, now: float) -> None:
        """Write the verdict that the boot's own events give; where they give none, that nobody knows it."""
        state = replayed(entry.path)
        with self._journal.reopen(entry.id) as folder:
            row = dict(entry.summary) if state is None else merged(entry.summary, summary_of(state, None))
            if state is None or not (state.phase.over or state.failed_why):
                folder.append_event(encode_event(Acted(now, "recovered", GONE_WHY)), flush=True)
                row |= {"state": UNKNOWN, "failed_why": GONE_WHY}
            folder.write_summary({**row, "cluster": entry.summary.get("cluster", "")})

    def _tidy(self) -> None:
        """When a boot opens, the ones before it are packed, and the oldest go where there are too many."""
        try:
            rows = self.index.boots()
            for row in rows[1:8]:
                if not row.entry.live:
                    with contextlib.suppress(BusyError), self._journal.reopen(row.entry.id):
                        pack_logs(row.entry.path, self._pulse.beat)
            self._retain(rows, self._limits)
        except (NightdeckError, OSError) as error:
            self.told(f"older boots could not be tidied: {error}")

    def retain(self, limits: Limits) -> list[str]:
        """Remove what is beyond the limits; the ids. Raises DiskError."""
        return self._retain(self.index.boots(), limits)

    def beyond(self, limits: Limits) -> list[tuple[Listed, int]]:
        """What `retain` would remove, oldest first, with the bytes of each. Raises DiskError."""
        going = to_remove(self.index.boots(), limits, lambda r: folder_bytes(r.entry.path))
        return [(row, folder_bytes(row.entry.path)) for row in going]

    def _retain(self, rows: Sequence[Listed], limits: Limits) -> list[str]:
        gone: list[str] = []
        for row in to_remove(rows, limits, lambda r: folder_bytes(r.entry.path)):
            self._pulse.beat()
            with contextlib.suppress(BusyError):
                self._journal.remove(row.entry.id)
                gone.append(row.entry.id)
        return gone

    def remove(self, boot: str) -> str:
        """Remove one boot; its id. Raises UsageError where it runs (its console writes it)."""
        row = self.index.find(boot)
        if row.entry.live:
            raise UsageError(f"boot {row.entry.number} is being written by a console", remedy="stop the boot first")
        self._journal.remove(row.entry.id)
        return row.entry.id

    def note(self, boot: str, text: str) -> str:
        """Set the operator's note of a boot (empty: take it away), also while it runs; the boot's id."""
        row = self.index.find(boot)
        write_marks(row.entry.path, replace(row.marks, note=clean_line(mask_text(text), limit=2000)))
        return row.entry.id

    def star(self, boot: str, starred: bool) -> str:
        row = self.index.find(boot)
        write_marks(row.entry.path, replace(row.marks, starred=starred))
        return row.entry.id

    def export(self, boot: str, target: Path, *, secrets: Iterable[str] = ()) -> list[str]:
        """One file of all that is kept of a boot, secrets masked; the names within."""
        return export_boot(self.index.find(boot).entry.path, target, secrets=secrets)

    # -- reading ------------------------------------------------------------------------------------------------

    def boots(self) -> Sequence[BootSummary]:
        return [summary_row(r) for r in self.index.boots()]

    def stage_times(self, recipe: str) -> list[dict[Stage, float]]:
        """Seconds by stage of the newest boots of this recipe that came to ready, for the expected time."""
        words = {stage.word: stage for stage in Stage}
        done = [summary_row(r) for r in self._listed()]
        done = [b for b in done if b.recipe == recipe and b.ready_s is not None and b.stages][:5]
        return [{words[k]: v for k, v in b.stages.items() if k in words} for b in done]

    def measured(self, recipe: Recipe, world: int) -> MeasuredBoot | None:
        """What the newest boot of this recipe on `world` nodes that came to ready showed about memory. Reads files."""
        from console.services.model_check_measured import measured_boot

        try:
            return measured_boot(self._journal, recipe, world)
        except NightdeckError as error:
            self._fail(error)
            return None

    def _listed(self) -> Sequence[Listed]:
        """What is kept, for what a launch would like to know of it: no disk keeps a launch from its nodes."""
        try:
            return self.index.boots()
        except NightdeckError as error:
            self._fail(error)
            return ()

    def changes(self, recipe: Recipe) -> list[str]:
        """What changed in a recipe since it was last run, a line each; empty when nothing did, or it never was."""
        from console.recipe.parse import parse_recipe

        for row in self._listed():
            entry = row.entry
            file = entry.path / "recipe.toml"
            if entry.recipe != recipe.slug or not file.is_file():
                continue
            try:
                before = parse_recipe(file.read_text("utf-8", "replace"), slug=recipe.slug, file=str(file))
                mine = parse_recipe(masked_source(recipe), slug=recipe.slug, file=recipe.file)
            except NightdeckError as error:
                return [f"boot {entry.number}'s recipe cannot be compared: {error}"]
            return [change.line for change in diff_recipes(before, mine)]
        return []

    def has_run(self, slug: str) -> bool:
        """A boot of this recipe is kept, with the recipe as it was."""
        return any(r.entry.recipe == slug and (r.entry.path / "recipe.toml").is_file() for r in self._listed())

    def close(self) -> None:
        """Everything is written when this returns."""
        for keeper in self._keepers.values():
            keeper.close()
        self._thread.shutdown(wait=True)


def nodes_of(entry: BootEntry) -> frozenset[str]:
    """The nodes that a boot had: of its row, else of its plan; empty where nothing says."""
    nodes = entry.summary.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        plan = read_json(entry.path / "plan.json") or {}
        ranks = plan.get("ranks")
        nodes = [r.get("node") for r in ranks if isinstance(r, dict)] if isinstance(ranks, list) else []
    return frozenset(n for n in nodes if isinstance(n, str))


def replayed(path: Path) -> BootState | None:
    """The state that a boot's own events add up to; None where its opening is not among them."""
    events = [decode_event(line.event) for line in read_events(path) if line.event is not None]
    begin = next((n for n, e in enumerate(events) if isinstance(e, BootOpened)), None)
    if begin is None:
        return None
    first, *later = (e for e in events[begin:] if e is not None)
    assert isinstance(first, BootOpened)
    # A console that took the boot up again tells its opening once more: what was known before stays.
    return reduce_all(opened(first), (e for e in later if not isinstance(e, BootOpened)))


def summary_row(listed: Listed) -> BootSummary:
    """A boot as lists show it."""
    entry, row = listed.entry, listed.entry.summary
    cause = row.get("cause")
    sentence = cause.get("sentence") if isinstance(cause, dict) else row.get("failed_why")
    stages = row.get("stages")
    lows = row.get("min_available_by_node")
    return BootSummary(
        id=entry.id,
        number=entry.number,
        recipe=entry.recipe,
        started_at=moment(row.get("started_at")) or entry.opened_at,
        state=str(row.get("state") or UNKNOWN),
        changed=tuple(str(c) for c in changed) if isinstance(changed := row.get("changed"), list) else (),
        cause=str(sentence or entry.trouble or ""),
        ready_s=_number(row.get("ready_s")),
        stages={str(k): float(v) for k, v in stages.items() if _number(v) is not None}
        if isinstance(stages, dict)
        else {},
        min_available_bytes=lowest if isinstance(lowest := row.get("min_available_bytes"), int) else None,
        tokens_per_s=_number(row.get("tokens_per_s")),
        note="; ".join(n for n in (str(row.get("note") or ""), listed.marks.note) if n),
        cause_class=str(cause.get("class") or "") if isinstance(cause, dict) else "",
        starred=listed.marks.starred,
        smoke_text=str(row.get("smoke_text") or ""),
        min_available_by_node={str(k): v for k, v in lows.items() if isinstance(v, int)}
        if isinstance(lows, dict)
        else {},
        ready_by=str(row.get("ready_by") or ""),
        unseen=_unseen(row, lowest),
    )


def _unseen(row: Mapping[str, Any], lowest: Any) -> str:
    """What the lowest memory of a boot leaves out; nothing is said of boots from before that was kept."""
    size = lowest if isinstance(lowest, int) else None
    started = moment(row.get("started_at"))
    if size is not None and started is None:
        return ""
    return unseen_text(started or 0.0, moment(row.get("memory_from")), _number(row.get("memory_unseen_s")) or 0.0, size)


def _words(error: BaseException) -> str:
    """An error of the disk says what it is; any other is the console's own, and its kind helps to find it."""
    return str(error) if isinstance(error, NightdeckError) else f"{type(error).__name__}: {error}"


def moment(value: object) -> float | None:
    """Epoch seconds that a calendar has, or None for whatever else stands in a row."""
    number = _number(value)
    return number if number is not None and 0 < number < _END_OF_CALENDAR else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


__all__ = ["Ledger", "nodes_of", "replayed", "summary_row"]
