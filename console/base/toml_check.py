"""What is wrong with an operator's file, in words: found, allowed, and the nearest valid name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Final

from pydantic import ValidationError

from console.base.errors import FileError, UsageError
from console.base.secrets import is_secret_name, mask_text
from console.base.text import clean_line
from console.base.toml_locate import Document, Path, key_text

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_WANTED: Final = {
    "string_type": "a text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "mapping_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
}


class FileErrors(UsageError):
    """All errors of one file, in the order of its lines."""

    def __init__(self, errors: Iterable[FileError]) -> None:
        self.errors = tuple(sorted(errors, key=lambda e: (e.line or 0, e.column or 0)))
        super().__init__("\n".join(str(e) for e in self.errors))


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that a misspelt one most likely means."""
    names = sorted(allowed)
    by_plain = {n.replace("-", "_").lower(): n for n in names}
    plain = name.replace("-", "_").lower()
    found = difflib.get_close_matches(plain, list(by_plain), n=1, cutoff=0.7)
    return by_plain[found[0]] if found else None


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """`did you mean "x"?`, or an empty text where nothing is near."""
    found = nearest(name, allowed)
    return f'did you mean "{found}"?' if found else ""


def named(value: object) -> str:
    """A TOML value as a message names it: `the text "8"`, `the number 8`, `a list`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'the text "{clean_line(mask_text(value), limit=60)}"'
    if isinstance(value, int | float):
        return f"the number {plain(value)}"
    if isinstance(value, date | datetime | time):
        return "a date or a time"
    return "a list" if isinstance(value, Sequence) else "a table" if isinstance(value, Mapping) else "nothing"


def plain(value: bool | int | float) -> str:
    """A scalar as TOML writes it; a number too long to read is named as that."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, float) or value.bit_length() < 64 else "of more than 19 digits"


def has_control(text: str) -> bool:
    """True where the text holds a control code or a line separator."""
    return _CONTROL.search(text) is not None


def env_errors(doc: Document, path: Path, env: object) -> list[FileError]:
    """What is wrong with an `env` table: names that no shell could export, values that are not text."""
    if not isinstance(env, Mapping):
        return [doc.error(f"must be a table of texts, found {named(env)}", path)]
    errors: list[FileError] = []
    for name, value in env.items():
        here = (*path, name)
        if not _ENV_NAME.fullmatch(name):
            allowed = "letters, digits and _, and no digit first"
            errors.append(doc.error(f"not a name of an environment variable; allowed: {allowed}", here, value=False))
        if not isinstance(value, str):
            secret = is_secret_name(name)
            found = "a value without quotes" if secret else named(value)
            errors.append(
                doc.error(f"must be a text, found {found}", here, remedy="" if secret else _quote_hint(value))
            )
        elif "\0" in value:
            errors.append(doc.error("holds a NUL, which no environment can carry", here))
    return errors


def _quote_hint(value: object) -> str:
    return f'put it in quotes: "{plain(value)}"' if isinstance(value, bool | int | float) else ""


def shape_errors(doc: Document, error: ValidationError, base: Path = (), *, what: str = "file") -> list[FileError]:
    """A pydantic error as errors of the file, one for each thing that is wrong."""
    out: list[FileError] = []
    for item in error.errors(include_url=False):
        path = _existing(doc.data, (*base, *item["loc"]), missing=item["type"] == "missing")
        out.append(_one(doc, path, item, what))
    unique = {(e.line, e.column, e.key, e.message): e for e in out}
    return list(unique.values())


def _existing(data: Any, loc: Path, *, missing: bool) -> Path:
    """pydantic's location without what is not in the file (the tags of unions)."""
    path: Path = ()
    for i, part in enumerate(loc):
        if _holds(data, part):
            data = data[part]
        elif missing and i == len(loc) - 1:
            return (*path, part)
        else:
            break
        path = (*path, part)
    return path


def _holds(data: object, part: str | int) -> bool:
    return part in data if isinstance(data, Mapping) else isinstance(data, list) and isinstance(part, int)


def _one(doc: Document, path: Path, item: Any, what: str) -> FileError:
    kind, found, context = str(item["type"]), item.get("input"), item.get("ctx") or {}
    if kind == "missing":
        return _missing(doc, path, what)
    if kind in _WANTED:
        remedy = _quote_hint(found) if kind == "string_type" else ""
        digits = {"int_type": r"-?[0-9]{1,18}", "float_type": r"-?[0-9]{1,18}(\.[0-9]{1,18})?"}.get(kind)
        if digits and isinstance(found, str) and re.fullmatch(digits, found):
            remedy = f"write {found} without quotes"
        return doc.error(f"must be {_WANTED[kind]}, found {named(found)}", path, remedy=remedy)
    if kind == "greater_than_equal":
        return doc.error(f"must be at least {_limit(context, 'ge')}, found {named(found)}", path)
    if kind == "greater_than":
        return doc.error(f"must be more than {_limit(context, 'gt')}, found {named(found)}", path)
    if kind == "less_than_equal":
        return doc.error(f"must be at most {_limit(context, 'le')}, found {named(found)}", path)
    if kind == "literal_error":
        allowed = str(context.get("expected", "")).replace("'", '"')
        names = re.findall(r'"([^"]+)"', allowed)
        hint = did_you_mean(found, names) if isinstance(found, str) else ""
        return doc.error(f"must be {allowed}, found {named(found)}", path, remedy=hint)
    if kind in ("string_too_short", "too_short"):
        return doc.error("must not be empty", path)
    if kind == "value_error":
        return doc.error(clean_line(str(context.get("error", item["msg"])), limit=400), path)
    return doc.error(f"{clean_line(item['msg'], limit=200)}, found {named(found)}", path)


def _limit(context: Mapping[str, object], name: str) -> str:
    limit = context.get(name)
    return f"{limit:g}" if isinstance(limit, float) else str(limit)


def _missing(doc: Document, path: Path, what: str) -> FileError:
    """A required key that is not there: points at a misspelt one in the same table, if any."""
    table: Any = doc.data
    for part in path[:-1]:
        table = table[part]
    wanted = str(path[-1])
    near = nearest(wanted, [k for k in table if isinstance(k, str)]) if isinstance(table, Mapping) else None
    if near is not None and near != wanted:
        line, column = doc.place((*path[:-1], near))
        message = f'missing, and the {what} needs it; "{clean_line(near, limit=60)}" stands here'
        return FileError(
            message, file=doc.file, line=line, column=column, key=key_text(path), remedy=f'did you mean "{wanted}"?'
        )
    return doc.error(f"missing, and the {what} needs it", path, value=False)
