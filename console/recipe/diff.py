"""What changed between two recipes, flag by flag, in the operator's own words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from console.base.secrets import MASK, is_secret_name, mask_text
from console.base.text import clean_line
from console.recipe.args import flags, positionals
from console.recipe.model import Recipe

Kind = Literal["key", "flag", "env", "mount", "extra"]
_PLAIN_KEYS: Final = {
    "name": "title",
    "engine": "engine",
    "docker_image": "docker_image",
    "docker_image_dir": "docker_image_dir",
    "model": "model",
    "required_nodes": "required_nodes",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "distributed_backend": "distributed_backend",
    "shm_size": "shm_size",
    "port": "port",
    "master_port": "master_port",
    "ready_timeout_s": "ready_timeout_s",
    "gpus": "gpus",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `before`/`after` are texts to show, secrets masked; None: not there; empty: a switch."""

    kind: Kind
    name: str
    before: str | None
    after: str | None

    @property
    def line(self) -> str:
        """One line: `--gpu-memory-utilization 0.91 -> 0.80`, `+ --enforce-eager`, `- env NCCL_DEBUG=INFO`."""
        name = self.name if self.kind in ("flag", "key") else f"{self.kind} {self.name}"
        joint = "=" if self.kind == "env" else " "
        if self.before is None:
            return f"+ {name}{joint}{self.after}".rstrip() if self.after else f"+ {name}"
        if self.after is None:
            return f"- {name}{joint}{self.before}".rstrip() if self.before else f"- {name}"
        if self.before == self.after:  # both masked
            return f"{name} {self.before} (changed)"
        return f"{name} {self.before or '(none)'} -> {self.after or '(none)'}"


def diff_recipes(a: Recipe, b: Recipe) -> list[Change]:
    """Changes from `a` to `b`: keys, then flags, environment, mounts, the rest. Comments and order do not count."""
    out: list[Change] = []
    for key, field in _PLAIN_KEYS.items():
        _compare(out, "key", key, _text(getattr(a, field)), _text(getattr(b, field)))
    _compare(out, "key", "entrypoint", _words(a.entrypoint), _words(b.entrypoint))
    _flags(out, a, b)
    for name in _union(a.env, b.env):
        _env(out, name, a.env.get(name), b.env.get(name))
    mounts_a = {m.container: m.host + (" (read only)" if m.read_only else "") for m in a.mounts}
    mounts_b = {m.container: m.host + (" (read only)" if m.read_only else "") for m in b.mounts}
    for target in _union(mounts_a, mounts_b):
        _compare(out, "mount", target, mounts_a.get(target), mounts_b.get(target))
    for field in ("weights_gb", "resident_gb", "process_gb", "reserve_gib"):
        _compare(out, "key", f"memory.{field}", _text(getattr(a.memory, field)), _text(getattr(b.memory, field)))
    for field in ("only", "head", "prefer"):
        before, after = getattr(a.nodes, field), getattr(b.nodes, field)
        _compare(out, "key", f"nodes.{field}", _names(before), _names(after))
    before_guard, after_guard = a.guard.changes(), b.guard.changes()
    for field in _union(before_guard, after_guard):
        _compare(out, "key", f"guard.{field}", _text(before_guard.get(field)), _text(after_guard.get(field)))
    for field in ("drop_caches", "sync_image"):
        _compare(out, "key", f"launch.{field}", _option(a, field), _option(b, field))
    _compare(out, "key", "launch.override", _names(a.launch.override), _names(b.launch.override))
    _compare(out, "key", "smoke", _smoke(a), _smoke(b))
    _compare(out, "key", "smoke.judge", _judge(a), _judge(b))
    for name in _union(a.extra, b.extra):
        _compare(out, "extra", name, _json(a.extra, name), _json(b.extra, name))
    return out


def _compare(out: list[Change], kind: Kind, name: str, before: str | None, after: str | None) -> None:
    if before != after:
        secret = is_secret_name(name)
        out.append(Change(kind, clean_line(name, limit=120), _shown(before, secret), _shown(after, secret)))


def _env(out: list[Change], name: str, before: str | None, after: str | None) -> None:
    _compare(out, "env", name, before, after)


def _shown(value: str | None, secret: bool) -> str | None:
    if not value:
        return value
    return MASK if secret else clean_line(mask_text(value), limit=400)


def _flags(out: list[Change], a: Recipe, b: Recipe) -> None:
    before, after = _by_name(a), _by_name(b)
    for name in _union(before, after):
        old, new = before.get(name), after.get(name)
        inner_old, inner_new = _object(old), _object(new)
        if inner_old is None or inner_new is None:
            _compare(out, "flag", name, old, new)
            continue
        for key in _union(inner_old, inner_new):
            _compare(out, "flag", f"{name} {key}", _json(inner_old, key), _json(inner_new, key))


def _by_name(recipe: Recipe) -> dict[str, str]:
    """Flags with their values as one text; a flag given several times keeps all of them."""
    found: dict[str, list[str]] = {}
    if words := positionals(recipe.args):
        found["(arguments)"] = [" ".join(words)]
    for flag in flags(recipe.args):
        found.setdefault(flag.name, []).append(" ".join(flag.values))
    return {name: " | ".join(values) for name, values in found.items()}


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None or not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # not JSON: compared as text
        return None
    return value if isinstance(value, dict) else None


def _json(table: Mapping[str, Any], key: str) -> str | None:
    if key not in table:
        return None
    value = table[key]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _union(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([*a, *b]))


def _text(value: object) -> str | None:
    if value is None:
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)


def _words(value: tuple[str, ...] | None) -> str | None:
    return None if value is None else " ".join(value)


def _names(value: tuple[str, ...] | str | None) -> str | None:
    return value or None if isinstance(value, str | None) else ", ".join(value) or None


def _option(recipe: Recipe, name: str) -> str:
    return str(getattr(recipe.launch, name)).lower()


def _judge(recipe: Recipe) -> str:
    return "on" if recipe.smoke_judge else "off"


def _smoke(recipe: Recipe) -> str | None:
    if not recipe.smoke:
        return None
    return "; ".join(f"{s.prompt!r}" + (f" ~ {s.expect}" if s.expect else "") for s in recipe.smoke)
