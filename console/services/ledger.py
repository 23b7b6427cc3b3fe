"""The ledger of boots on this machine: each boot's folder is written as things happen, off the loop, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from console.base.errors import NightdeckError, UsageError
from console.base.secrets import secret_values
from console.boot.events import Event, RankProgress, StatsSeen
from console.boot.state import BootState
from console.boot.to_json import cause_json
from console.cluster.facts import NodeFacts
from console.enginelog.stages_model import Stage
from console.files.boot_folder import BootFolder, BusyError
from console.files.event_codec import decode_event, encode_event
from console.files.journal import BootEntry, Journal, read_events
from console.plan.model import Plan
from console.recipe.diff import diff_recipes
from console.recipe.mask import masked_source
from console.recipe.model import Recipe
from console.recipe.parse import parse_recipe
from console.services.hub import BootSummary

# The end of a log that is held already is what resuming needs; more than this is not read back into memory.
_READ_BACK: Final = 64 << 20
_WEIGHTY: Final = frozenset(
    {"BootOpened", "BootFailed", "StopStarted", "StopEnded", "SmokeDone", "CauseFound", "Acted"}
)


class Ledger:
    """All boots that are kept. told: hears once when writing fails (a full disk must not end a launch)."""

    def __init__(self, journal: Journal, told: Callable[[str], None] = lambda _text: None) -> None:
        self._journal = journal
        self.told = told
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._keepers: dict[str, Keeper] = {}

    def keeper(self, deployment: str, number: int, recipe: str, *, now: float) -> Keeper:
        """The writer of a deployment's folder, made where there is none. Never raises: without a folder it keeps
        nothing, and says so."""
        held = self._keepers.get(deployment)
        if held is None:
            held = Keeper(
                self._open(deployment, number, recipe, now), self._thread, self._fail, self._prior(deployment)
            )
            self._keepers[deployment] = held
        return held

    def _open(self, deployment: str, number: int, recipe: str, now: float) -> BootFolder | Path | None:
        try:
            entry = self._find(deployment)
            if entry is not None:
                try:
                    return self._journal.reopen(entry.id)
                except BusyError:
                    return entry.path  # another console of this machine writes it: read, and leave the writing to it
            try:
                folder = self._journal.open_boot(recipe, now=now, number=number)
            except UsageError:
                folder = self._journal.open_boot(recipe, now=now)  # the number is another boot's of this machine
            folder.write_summary({"deployment": deployment, "recipe": recipe, "boot": number})
            return folder
        except NightdeckError as error:
            self._fail(error)
            return None

    def _find(self, deployment: str) -> BootEntry | None:
        return next((e for e in self._journal.boots() if e.summary.get("deployment") == deployment), None)

    def _prior(self, deployment: str) -> Mapping[str, Any]:
        try:
            entry = self._find(deployment)
        except NightdeckError as error:
            self._fail(error)
            return {}
        return entry.summary if entry is not None else {}

    def _fail(self, error: BaseException) -> None:
        self.told(f"this boot is not kept on disk: {error}")

    def next_number(self, *, above: int = 0) -> int:
        try:
            return self._journal.next_number(above=above)
        except NightdeckError as error:
            self._fail(error)
            return above + 1

    def boots(self) -> Sequence[BootSummary]:
        return [_summary(e) for e in self._journal.boots()]

    def stage_times(self, recipe: str) -> list[dict[Stage, float]]:
        """Seconds by stage of the newest boots of this recipe that came to ready, for the expected time."""
        words = {stage.word: stage for stage in Stage}
        done = [b for b in self.boots() if b.recipe == recipe and b.ready_s is not None and b.stages][:5]
        return [{words[k]: v for k, v in b.stages.items() if k in words} for b in done]

    def changes(self, recipe: Recipe) -> list[str]:
        """What changed in a recipe since it was last run, a line each; empty when nothing did, or it never was."""
        for entry in self._journal.boots():
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

    def close(self) -> None:
        """Everything is written when this returns."""
        for keeper in self._keepers.values():
            keeper.close()
        self._thread.shutdown(wait=True)


class Keeper:
    """One boot's writer. Nothing here raises for the disk; the first failure is told, and the rest is dropped."""

    def __init__(
        self,
        folder: BootFolder | Path | None,
        thread: ThreadPoolExecutor,
        failed: Callable[[BaseException], None],
        prior: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = folder if isinstance(folder, BootFolder) else None
        self._path = folder.path if isinstance(folder, BootFolder) else folder
        self._thread = thread
        self._failed = failed
        self._broken = False
        self._summary: Mapping[str, Any] = {}
        self._progress: dict[int, tuple[Any, ...]] = {}
        self._prior = dict(prior or {})
        lowest = self._prior.get("min_available_bytes")
        self.lowest: int | None = lowest if isinstance(lowest, int) else None

    @property
    def path(self) -> Path | None:
        return self._path

    def _do(self, work: Callable[[BootFolder], None]) -> None:
        folder = self._folder
        if folder is None or self._broken:
            return

        def guarded() -> None:
            try:
                work(folder)
            except NightdeckError as error:
                if not self._broken:
                    self._broken = True
                    self._failed(error)

        self._thread.submit(guarded)

    def event(self, event: Event) -> None:
        """Progress is kept where it is news: another stage, or ten percent more."""
        if isinstance(event, StatsSeen):
            return
        if isinstance(event, RankProgress):
            step = None if event.progress is None else int(event.progress * 10)
            news = (event.stage, step)
            if self._progress.get(event.rank) == news:
                return
            self._progress[event.rank] = news
        row = encode_event(event)
        weighty = row["type"] in _WEIGHTY
        self._do(lambda folder: folder.append_event(row, flush=weighty))

    def plan(self, recipe: Recipe, plan: Plan, facts: Mapping[str, NodeFacts | object]) -> None:
        source = masked_source(recipe)
        secrets = secret_values(recipe.env, recipe.args) | plan.secrets

        def work(folder: BootFolder) -> None:
            folder.add_secrets(secrets)
            folder.write_recipe(source)
            folder.write_plan(plan)
            folder.write_facts(facts)

        self._do(work)

    def log(self, rank: int, lines: Sequence[bytes]) -> None:
        data = b"\n".join(lines) + b"\n"
        self._do(lambda folder: folder.append_log(rank, data))

    def held_lines(self, rank: int) -> list[bytes]:
        """Whole lines that an earlier console of this machine kept of this rank's log."""
        if self._path is None:
            return []
        file = self._path / f"rank{rank}.log"
        try:
            with file.open("rb") as stream:
                stream.seek(max(0, file.stat().st_size - _READ_BACK))
                data = stream.read(_READ_BACK)
        except FileNotFoundError:
            return []
        except OSError as error:
            self._failed(error)
            return []
        lines = data.split(b"\n")
        lines.pop()  # what a crash left without a newline comes again whole
        return [line for line in lines if line]

    def past(self) -> list[Event]:
        """The events that an earlier console of this machine kept of this boot."""
        if self._path is None:
            return []
        try:
            found = [decode_event(line.event) for line in read_events(self._path) if line.event is not None]
        except NightdeckError as error:
            self._failed(error)
            return []
        return [event for event in found if event is not None]

    def states(self, states: Mapping[str, Any]) -> None:
        self._do(lambda folder: folder.write_states(states))

    def summary(self, state: BootState) -> None:
        """The ledger's row, when it says something new. What an earlier console knew and this one does not stays."""
        row = summary_of(state, self.lowest)
        row |= {key: value for key, value in self._prior.items() if row.get(key) in (None, "", [], {})}
        if row != self._summary:
            self._summary = row
            self._do(lambda folder: folder.write_summary(row))

    def flush(self) -> None:
        """Wait until all that was asked is on disk."""
        self._thread.submit(lambda: None).result(timeout=30)

    def close(self) -> None:
        self._do(lambda folder: folder.close())
        self._broken = True


def summary_of(state: BootState, lowest: int | None) -> dict[str, Any]:
    return {
        "deployment": state.deployment,
        "boot": state.number,
        "recipe": state.recipe,
        "title": state.title,
        "started_at": state.launched_at,
        "state": "failed" if state.failed_why else str(state.phase),
        "changed": list(state.changed),
        "cause": cause_json(state.cause),
        "failed_why": state.failed_why or None,
        "ready_s": None if state.ready_at is None else round(state.ready_at - state.launched_at, 3),
        "stages": _stages(state),
        "min_available_bytes": lowest,
        "tokens_per_s": state.tokens_per_s,
        "smoke_text": state.smoke_text or None,
        "note": "; ".join(state.notes),
    }


def _stages(state: BootState) -> dict[str, float]:
    """Seconds that the slowest rank spent in each stage, by the engine's own stamps."""
    out: dict[str, float] = {}
    for rank in state.ranks:
        for cell in rank.cells:
            if cell.at is not None and cell.until is not None and cell.until >= cell.at:
                out[cell.stage.word] = max(out.get(cell.stage.word, 0.0), round(cell.until - cell.at, 3))
    return out


def _summary(entry: BootEntry) -> BootSummary:
    row = entry.summary
    cause = row.get("cause")
    sentence = cause.get("sentence") if isinstance(cause, dict) else row.get("failed_why")
    stages = row.get("stages")
    return BootSummary(
        id=entry.id,
        number=entry.number,
        recipe=entry.recipe,
        started_at=_number(row.get("started_at")) or entry.opened_at,
        state=str(row.get("state") or "unknown"),
        changed=tuple(str(c) for c in row.get("changed") or ()),
        cause=str(sentence or entry.trouble or ""),
        ready_s=_number(row.get("ready_s")),
        stages={str(k): float(v) for k, v in stages.items() if _number(v) is not None}
        if isinstance(stages, dict)
        else {},
        min_available_bytes=lowest if isinstance(lowest := row.get("min_available_bytes"), int) else None,
        tokens_per_s=_number(row.get("tokens_per_s")),
        note=str(row.get("note") or ""),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
