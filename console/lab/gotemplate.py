"""The part of Go's templates that `docker --format` is used with."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_ACTION: Final = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|\S+')


class TemplateError(Exception):
    """docker's own words for a template that it cannot use."""


def render(template: str, value: Any) -> str:
    """`template` over one object; `{{json .}}`, `{{.A.B}}`, `{{index .A "b"}}`, `{{.Label "x"}}` and pipes to json."""
    template = template.replace("\\t", "\t").replace("\\n", "\n")
    return _ACTION.sub(lambda m: _action(m.group(1), value), template)


def _action(text: str, value: Any) -> str:
    result: Any = None
    for stage, part in enumerate(text.split("|")):
        words = _WORD.findall(part.strip())
        if not words:
            raise TemplateError(f'template parsing error: template: :1: missing value for command in "{{{{{text}}}}}"')
        result = _call(words, value, [result] if stage else [])
    if result is None:
        return "<no value>"
    if isinstance(result, bool):
        return "true" if result else "false"
    if isinstance(result, list):
        return "[" + " ".join(str(x) for x in result) + "]"
    if isinstance(result, dict):
        return "map[" + " ".join(f"{k}:{v}" for k, v in sorted(result.items())) + "]"
    return str(result)


def _call(words: list[str], value: Any, piped: list[Any]) -> Any:
    name = words[0]
    arguments = [_operand(w, value) for w in words[1:]] + piped
    if name == "json":
        shown = arguments[0] if arguments else None
        if isinstance(shown, dict):
            shown = {k: v for k, v in shown.items() if not k.startswith("_")}
        return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    if name == "index":
        found = arguments[0] if arguments else None
        for key in arguments[1:]:
            found = _index(found, key)
        return "" if found is None else found
    if name in ("len", "lower", "upper", "println", "print") and arguments:
        return len(arguments[0]) if name == "len" else getattr(str(arguments[0]), name, lambda: str(arguments[0]))()
    if name == ".Label" and arguments and isinstance(value, dict):
        return value.get("_labels", {}).get(arguments[0], "")
    if name[0] in ('."`') or name == ".":
        return _operand(name, value)
    raise TemplateError(f'template parsing error: template: :1: function "{name}" not defined')


def _index(found: Any, key: Any) -> Any:
    if isinstance(found, dict):
        return found.get(key)
    if isinstance(found, list) and isinstance(key, int) and 0 <= key < len(found):
        return found[key]
    return None


def _operand(word: str, value: Any) -> Any:
    if word.startswith('"'):
        return json.loads(word)
    if word.startswith("`"):
        return word[1:-1]
    if word.isdigit():
        return int(word)
    if word == ".":
        return value
    if word.startswith("."):
        for key in word[1:].split("."):
            if not isinstance(value, dict) or key not in value:
                raise TemplateError(f'template: :1:2: executing "" at <{word}>: map has no entry for key "{key}"')
            value = value[key]
        return value
    raise TemplateError(f'template parsing error: template: :1: function "{word}" not defined')
