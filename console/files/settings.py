"""settings.toml: how the console looks and behaves; a wrong value is an error and its default stands in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from console.base.errors import FileError
from console.base.findings import Finding, Severity
from console.base.toml_check import did_you_mean, has_control, named, shape_errors
from console.base.toml_locate import Document, key_text, load_document
from console.files.places import Places
from console.files.read import read_text
from console.files.settings_tables import Reader
from console.telemetry.alarm_rules import AlarmPolicy
from console.telemetry.guard_policy import GuardPolicy

Colour = Literal["auto", "truecolor", "256", "16", "none"]
Glyphs = Literal["unicode", "ascii"]


@dataclass(frozen=True, slots=True)
class Settings:
    """theme: by name. color: what the terminal can show. keys: action id -> keys, comma between several.

    poll_interval_s: seconds between a node's samples. keep_boots, keep_gib: how many boots the ledger keeps, and how
    much of the disk they may take in GiB; the oldest go first, 0 is no limit (`console.services.retention`).
    log_lines: lines held in memory. bell: the terminal's bell when a boot ends. guard, alarms: see their own types.
    """

    theme: str = "nightdeck"
    color: Colour = "auto"
    glyphs: Glyphs = "unicode"
    bell: bool = True
    read_only: bool = False
    poll_interval_s: float = 1.0
    keep_boots: int = 500
    keep_gib: float = 20.0
    log_lines: int = 200_000
    keys: Mapping[str, str] = field(default_factory=dict)
    guard: GuardPolicy = field(default_factory=GuardPolicy)
    alarms: AlarmPolicy = field(default_factory=AlarmPolicy)


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """Settings, complete, with what was wrong (`errors`) and what is unknown (`findings`)."""

    settings: Settings
    errors: tuple[FileError, ...] = ()
    findings: tuple[Finding, ...] = ()


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")

    theme: Annotated[str, Field(min_length=1, max_length=40)] = "nightdeck"
    color: Colour = "auto"
    glyphs: Glyphs = "unicode"
    bell: bool = True
    read_only: bool = False
    poll_interval_s: Annotated[float, Field(ge=0.25, le=60, allow_inf_nan=False)] = 1.0
    keep_boots: Annotated[int, Field(ge=0, le=100_000)] = 500
    keep_gib: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] = 20.0
    log_lines: Annotated[int, Field(ge=1000, le=5_000_000)] = 200_000


KNOWN = (*_Table.model_fields, "keys", "guard", "alarms")


def parse_settings(text: str, file: str) -> SettingsFile:
    """Read settings. Raises FileError only for what is not TOML at all."""
    doc = load_document(text, file)
    data = doc.data
    errors: list[FileError] = []
    try:
        table = _Table.model_validate(data)
    except ValidationError as error:
        errors.extend(shape_errors(doc, error, what="settings file"))
        wrong = {str(e["loc"][0]) for e in error.errors(include_url=False) if e["loc"]}
        table = _Table.model_validate({k: v for k, v in data.items() if k not in wrong})
    keys = _keys(doc, data.get("keys", {}), errors)
    tables = Reader(doc)
    settings = Settings(
        **{name: getattr(table, name) for name in _Table.model_fields},
        keys=keys,
        guard=tables.guard(),
        alarms=tables.alarms(),
    )
    errors.extend(tables.errors)
    errors.sort(key=lambda e: (e.line or 0, e.column or 0))
    return SettingsFile(settings, tuple(errors), (*_unknown(doc, data), *tables.findings))


def load_settings(places: Places) -> SettingsFile:
    """The configuration's settings; defaults where there is no file or it cannot be read. Never raises."""
    path = places.settings_file
    if not path.exists() and not path.is_symlink():
        return SettingsFile(Settings())
    try:
        return parse_settings(read_text(path), str(path))
    except FileError as error:
        return SettingsFile(Settings(), (error,))


def _keys(doc: Document, table: object, errors: list[FileError]) -> dict[str, str]:
    if not isinstance(table, Mapping):
        errors.append(doc.error(f"must be a table of actions and keys, found {named(table)}", ("keys",)))
        return {}
    keys: dict[str, str] = {}
    for action, value in table.items():
        if not isinstance(value, str) or not value.strip() or has_control(value):
            message = f'must be a key as a text, such as "l" or "ctrl+l", found {named(value)}'
            errors.append(doc.error(message, ("keys", action)))
        else:
            keys[action] = value.replace(" ", "")
    return keys


def _unknown(doc: Document, data: Mapping[str, Any]) -> list[Finding]:
    out = []
    for key in data:
        if key not in KNOWN:
            line, column = doc.place((key,))
            message = f"{doc.file}:{line}:{column}: {key_text((key,))}: unknown setting, without effect"
            out.append(Finding("unknown-key", Severity.WARN, message, remedy=did_you_mean(key, KNOWN)))
    return out
