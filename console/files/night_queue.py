"""The file of a night: what runs, when, under which conditions, with every error at its line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from console.base.errors import FileError
from console.base.toml_check import FileErrors, did_you_mean, env_errors, named, shape_errors
from console.base.toml_locate import Document, key_text, load_document
from console.base.toml_locate import Path as Key
from console.boot.night_model import Rules, Step
from console.files.read import read_text
from console.plan.codes import CODES
from console.recipe.words import WordError, split_words

_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
# A launch refuses with this word too, though no check of a plan has it: `console.services.lease.NO_LEASE`.
_OTHER_CODES: Final = ("no-lease",)
Text = Annotated[str, Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class MeasureTable(_Table):
    concurrency: Annotated[list[Annotated[int, Field(ge=1, le=256)]], Field(min_length=1, max_length=64)] = [1, 2, 4]
    repeats: Annotated[int, Field(ge=1, le=50)] = 3
    max_tokens: Annotated[int, Field(ge=2, le=8192)] = 128


class StepTable(_Table):
    recipe: Text
    label: Text | None = None
    repeats: Annotated[int, Field(ge=1, le=20)] = 1
    aba: bool = False
    measure: bool = True
    ready_by: Text | None = None
    otherwise: Text | None = None
    flags: Any = None
    env: Any = None


class QueueTable(_Table):
    name: Text | None = None
    zone: Text | None = None
    start_after: Text | None = None
    hard_end: Text
    baseline: Text | None = None
    max_gpu_temp_c: Annotated[float, Field(gt=0, le=110)] = 60.0
    quiet_min: Annotated[float, Field(ge=0, le=1440)] = 15.0
    give_up_after: Annotated[int, Field(ge=1, le=20)] = 2
    override: list[Text] = []
    measure: MeasureTable = MeasureTable()
    steps: Annotated[list[StepTable], Field(min_length=1, max_length=200)]


@dataclass(frozen=True, slots=True)
class NightQueue:
    """A queue, read. Times are epoch seconds, settled when the file was read. override: codes of findings that do not
    keep a launch from being made."""

    name: str
    file: str
    rules: Rules
    steps: tuple[Step, ...]
    override: tuple[str, ...]
    concurrency: tuple[int, ...]
    repeats: int
    max_tokens: int
    warnings: tuple[str, ...] = ()


def load_queue(path: Path, now: float) -> NightQueue:
    """Raises FileErrors. now: epoch seconds; clock times are the next ones after it."""
    try:
        text = read_text(path)
    except FileError as error:
        raise FileErrors([error]) from error
    return parse_queue(text, str(path), now)


def parse_queue(text: str, file: str, now: float) -> NightQueue:
    """Read a queue. Raises FileErrors, which holds every error of the file."""
    try:
        doc = load_document(text, file)
    except FileError as error:
        raise FileErrors([error]) from error
    return _Reader(doc, now).read()


def next_clock(text: str, zone: tzinfo | None, after: float) -> float | None:
    """Epoch seconds of the next HH:MM after `after`; None where the text is none. zone None: this machine's own."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    today = datetime.fromtimestamp(after, zone)
    for days in range(3):
        # A day is added to the calendar, not 24 hours to the clock: the night of a clock change is 23 or 25 long.
        date = (today.replace(tzinfo=None) + timedelta(days=days)).date()
        for fold in (0, 1):  # an hour that the clocks go through twice comes twice
            there = datetime(
                date.year, date.month, date.day, int(match.group(1)), int(match.group(2)), tzinfo=zone, fold=fold
            )
            if there.timestamp() > after:
                return there.timestamp()
    return None


class _Reader:
    """Collects errors while one document is read."""

    def __init__(self, doc: Document, now: float) -> None:
        self.doc = doc
        self.now = now
        self.errors: list[FileError] = []
        self.warnings: list[str] = []

    def read(self) -> NightQueue:
        try:
            table: QueueTable | None = QueueTable.model_validate(self.doc.data)
        except ValidationError as error:
            table = None
            self.errors.extend(shape_errors(self.doc, error, what="night's file"))
        self._unknown(self.doc.data, QueueTable, ())
        self._override(self.doc.data.get("override"))
        zone = self._zone(self.doc.data.get("zone"))
        start = self._time(self.doc.data.get("start_after"), zone, self.now, ("start_after",))
        end = self._time(self.doc.data.get("hard_end"), zone, start or self.now, ("hard_end",))
        steps: list[Step] = []
        rows = self.doc.data.get("steps")
        for i, row in enumerate(rows if isinstance(rows, list) else []):
            if isinstance(row, Mapping):
                self._unknown(row, StepTable, ("steps", i))
                steps.append(self._step(row, i, zone, start or self.now, end))
        if self.errors or table is None or end is None:
            raise FileErrors(list({(e.line, e.column, e.message): e for e in self.errors}.values()))
        rules = Rules(end, start, table.max_gpu_temp_c, 60 * table.quiet_min, table.give_up_after, table.baseline or "")
        measure = table.measure
        return NightQueue(
            table.name or Path(self.doc.file).stem,
            self.doc.file,
            rules,
            tuple(steps),
            tuple(table.override),
            tuple(measure.concurrency),
            measure.repeats,
            measure.max_tokens,
            tuple(self.warnings),
        )

    def _step(self, row: Mapping[str, Any], i: int, zone: tzinfo | None, begin: float, end: float | None) -> Step:
        here: Key = ("steps", i)
        if row.get("aba") is True and not self.doc.data.get("baseline"):
            self._wrong("needs a baseline to be measured against", (*here, "aba"), 'baseline = "NAME" at the top')
        ready_by = self._time(row.get("ready_by"), zone, begin, (*here, "ready_by"))
        if ready_by is not None and end is not None and ready_by > end:
            self._wrong("is after the hard end, and would never be reached", (*here, "ready_by"))
        if row.get("otherwise") and row.get("ready_by") is None:
            self.warnings.append(f"step {i + 1}: without ready_by, `otherwise` is launched only if the boot fails")
        recipe = row.get("recipe")
        label = row.get("label")
        repeats = row.get("repeats", 1)
        return Step(
            recipe=recipe if isinstance(recipe, str) else "",
            label=label if isinstance(label, str) else f"{recipe}",
            repeats=repeats if isinstance(repeats, int) else 1,
            aba=row.get("aba") is True,
            measure=row.get("measure", True) is True,
            ready_by=ready_by,
            otherwise=str(row.get("otherwise") or ""),
            flags=self._flags(row.get("flags", {}), (*here, "flags")),
            env=self._env(row.get("env", {}), (*here, "env")),
        )

    def _flags(self, table: object, path: Key) -> dict[str, tuple[str, ...] | None]:
        """A text is read as shell words, a number as itself, true is a switch, false takes the flag out."""
        if not isinstance(table, Mapping):
            self._wrong(f"must be a table of flags, found {named(table)}", path)
            return {}
        out: dict[str, tuple[str, ...] | None] = {}
        for name, value in table.items():
            here = (*path, name)
            if not name.startswith("-"):
                self._wrong("not a flag", here, f'"--{name}"', value=False)
            elif isinstance(value, bool):
                out[name] = () if value else None
            elif isinstance(value, int | float):
                out[name] = (str(value),)
            elif isinstance(value, str):
                try:
                    out[name] = tuple(split_words(value)) if value else ("",)
                except WordError as error:
                    self._wrong(error.message, here)
            else:
                self._wrong(f"must be a text, a number, true or false, found {named(value)}", here)
        return out

    def _env(self, table: object, path: Key) -> dict[str, str | None]:
        """A text sets a variable, false takes it out."""
        if not isinstance(table, Mapping):
            self._wrong(f"must be a table of texts, found {named(table)}", path)
            return {}
        texts = {k: v for k, v in table.items() if v is not False}
        self.errors.extend(env_errors(self.doc, path, texts))
        return {k: v if isinstance(v, str) else None for k, v in table.items()}

    def _override(self, codes: object) -> None:
        """A code that no check has overrides nothing: the trial that needs it would be refused at 3 a.m."""
        for i, code in enumerate(codes if isinstance(codes, list) else []):
            if isinstance(code, str) and code not in CODES and code not in _OTHER_CODES:
                hint = did_you_mean(code, (*CODES, *_OTHER_CODES))
                self._wrong(
                    f"no check has such a code, found {named(code)}",
                    ("override", i),
                    hint or "docs/preflight.md has all",
                )

    def _zone(self, name: object) -> tzinfo | None:
        if not isinstance(name, str) or name == "local":
            return None
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self._wrong(f"no time zone is called {named(name)}", ("zone",), 'such as "Europe/Berlin", "UTC" or "local"')
            return None

    def _time(self, text: object, zone: tzinfo | None, after: float, path: Key) -> float | None:
        if not isinstance(text, str):
            return None  # absent, or of a wrong type: the shape says so
        found = next_clock(text, zone, after)
        if found is None:
            self._wrong(f"must be a time of day, found {named(text)}", path, 'such as "05:30", in the zone of the file')
        return found

    def _unknown(self, table: Mapping[str, Any], model: type[BaseModel], path: Key) -> None:
        for key in table:
            if key not in model.model_fields:
                hint = did_you_mean(key, [k for k in model.model_fields if k not in table])
                # What a night does not know it would silently not do, so this is an error and no warning.
                self._wrong(f"{key_text((key,))} is no key of a night's file", (*path, key), hint, value=False)

    def _wrong(self, message: str, path: Key, remedy: str = "", *, value: bool = True) -> None:
        self.errors.append(self.doc.error(message, path, value=value, remedy=remedy))
