"""Events as lines of the journal and back, so that a journal drives the same reducer as the night did; states too."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from console.boot.events import Event
from console.files.boot_folder import jsonable

T = TypeVar("T")
TYPE: Final = "type"
_KINDS: Final[dict[str, type]] = {kind.__name__: kind for kind in get_args(Event)}


class _Misfit(Exception):
    """A stored value that does not fit its field."""


def encode_event(event: Event) -> dict[str, Any]:
    """An event as a JSON table: its fields, and `type`."""
    return {TYPE: type(event).__name__, **jsonable(event)}


def decode_event(stored: Mapping[str, Any]) -> Event | None:
    """The event that a line stands for, or None for one of another version or damaged. Never raises.

    Fields that are new since are passed over; fields that are missing take their defaults.
    """
    kind = _KINDS.get(str(stored.get(TYPE)))
    if kind is None:
        return None
    try:
        return cast("Event", _build(kind, stored))
    except _Misfit:
        return None


def decode_as(kind: type[T], stored: Mapping[str, Any]) -> T | None:
    """A value of any of our dataclasses out of what `jsonable` made of it; None for what does not fit. Never raises."""
    try:
        return cast("T", _build(kind, stored))
    except _Misfit:
        return None


def _build(kind: type, stored: Mapping[str, Any]) -> object:
    values: dict[str, Any] = {}
    for item in fields(kind):
        if item.name in stored:
            values[item.name] = _fit(_hints(kind)[item.name], stored[item.name])
        elif item.default is MISSING and item.default_factory is MISSING:
            raise _Misfit
    return kind(**values)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fit(hint: Any, value: Any) -> Any:
    if hint is Any:
        return value
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _first(args, value)
    if hint is type(None):
        return _only(value is None, None)
    if origin is tuple:
        _only(isinstance(value, list), None)
        return tuple(_fit(args[0], v) for v in value)
    if origin is not None:  # Mapping[str, X]
        _only(isinstance(value, dict), None)
        return {str(k): _fit(args[1], v) for k, v in value.items()}
    if is_dataclass(hint):
        _only(isinstance(value, dict), None)
        return _build(cast("type", hint), value)
    if issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError as error:
            raise _Misfit from error
    if hint is float:
        return _only(isinstance(value, int | float) and not isinstance(value, bool), value)
    if hint is int:
        return _only(isinstance(value, int) and not isinstance(value, bool), value)
    return _only(isinstance(value, hint), value)


def _only(fits: bool, value: Any) -> Any:
    if not fits:
        raise _Misfit
    return value


def _first(hints: Sequence[Any], value: Any) -> Any:
    for hint in hints:
        try:
            return _fit(hint, value)
        except _Misfit:
            continue
    raise _Misfit
