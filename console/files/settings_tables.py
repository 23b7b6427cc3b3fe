"""The tables of settings.toml: `[guard]` and `[alarms]`; a wrong value is an error and its default stands in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from console.base.errors import FileError
from console.base.findings import Finding, Severity
from console.base.toml_check import did_you_mean, named, shape_errors
from console.base.toml_locate import Document, key_text
from console.telemetry.alarm_rules import CODES, AlarmPolicy, RuleChange, WaysPolicy
from console.telemetry.guard_policy import GuardPolicy

Word = Literal["info", "warn", "block"]
Number = Annotated[float, Field(allow_inf_nan=False)]
T = TypeVar("T", bound=BaseModel)


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class GuardTable(_Table):
    """`[guard]`: floors in GiB of available memory."""

    enabled: bool = True
    loading_floor_gib: Annotated[float, Field(ge=0, le=1024, allow_inf_nan=False)] = 4.0
    serving_floor_gib: Annotated[float, Field(ge=0, le=1024, allow_inf_nan=False)] = 1.0
    readings: Annotated[int, Field(ge=1, le=1000)] = 3
    serving_after_s: Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)] | None = None


class AlarmsTable(_Table):
    """`[alarms]` itself."""

    enabled: bool = True
    tell_from: Word = "warn"


class RuleTable(_Table):
    """`[alarms.rules.<code>]`."""

    off: bool = False
    enter: Number | None = None
    leave: Number | None = None
    hold_s: Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)] | None = None
    severity: Word | None = None


class WaysTable(_Table):
    """`[alarms.ways]`."""

    bell: bool = True
    terminal: Literal["off", "auto", "osc9", "osc777", "osc99"] = "off"
    command: list[Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]] = []
    webhook: str = ""


_SUB: Final = ("rules", "ways")


class Reader:
    """Reads tables of one document and gathers what is wrong and what is unknown."""

    def __init__(self, doc: Document) -> None:
        self._doc = doc
        self.errors: list[FileError] = []
        self.findings: list[Finding] = []

    def guard(self) -> GuardPolicy:
        read = self._table(GuardTable, self._doc.data.get("guard", {}), ("guard",))
        return GuardPolicy(**{name: getattr(read, name) for name in GuardTable.model_fields})

    def alarms(self) -> AlarmPolicy:
        data = self._doc.data.get("alarms", {})
        read = self._table(AlarmsTable, data, ("alarms",), also=_SUB)
        inner = data if isinstance(data, Mapping) else {}
        ways = self._table(WaysTable, inner.get("ways", {}), ("alarms", "ways"))
        return AlarmPolicy(
            read.enabled,
            Severity(read.tell_from),
            self._rules(inner.get("rules", {})),
            WaysPolicy(ways.bell, ways.terminal, tuple(ways.command), ways.webhook),
        )

    def _rules(self, data: object) -> dict[str, RuleChange]:
        path = ("alarms", "rules")
        if not isinstance(data, Mapping):
            self._not_a_table(data, path)
            return {}
        self._unknown(data, CODES, path, "alarm")
        out: dict[str, RuleChange] = {}
        for code in data:
            if code in CODES:
                read = self._table(RuleTable, data[code], (*path, code))
                severity = Severity(read.severity) if read.severity is not None else None
                out[code] = RuleChange(read.off, read.enter, read.leave, read.hold_s, severity)
        return out

    def _table(self, kind: type[T], data: object, path: tuple[str, ...], also: Iterable[str] = ()) -> T:
        if not isinstance(data, Mapping):
            self._not_a_table(data, path)
            return kind()
        own = {k: v for k, v in data.items() if k not in also}
        self._unknown(own, tuple(kind.model_fields), path, "setting")
        try:
            return kind.model_validate(own)
        except ValidationError as error:
            self.errors += shape_errors(self._doc, error, path, what="settings file")
            wrong = {str(e["loc"][0]) for e in error.errors(include_url=False) if e["loc"]}
            return kind.model_validate({k: v for k, v in own.items() if k not in wrong})

    def _not_a_table(self, data: object, path: tuple[str, ...]) -> None:
        self.errors.append(self._doc.error(f"must be a table, found {named(data)}", path))

    def _unknown(self, data: Mapping[str, Any], known: tuple[str, ...], path: tuple[str, ...], what: str) -> None:
        for key in data:
            if key not in known:
                line, column = self._doc.place((*path, key))
                place = f"{self._doc.file}:{line}:{column}: {key_text((*path, key))}"
                self.findings.append(
                    Finding(
                        "unknown-key",
                        Severity.WARN,
                        f"{place}: unknown {what}, without effect",
                        remedy=did_you_mean(key, known),
                    )
                )
