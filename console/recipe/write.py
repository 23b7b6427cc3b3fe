"""A recipe's values as a recipe file: what is derived from other recipes is written down before it runs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from console.recipe.args import is_flag
from console.recipe.model import DEFAULT_MASTER_PORT, DEFAULT_PORT, LaunchOptions, Recipe
from console.recipe.schema import PLAIN_TABLES

_ESCAPES: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def recipe_toml(recipe: Recipe, *, comment: Sequence[str] = ()) -> str:
    """A file that reads back as these values (the text of the source, its comments and order, is not kept)."""
    lines = [*(f"# {_one_line(c)}" for c in comment)]
    for key, value in (
        ("engine", recipe.engine),
        ("name", recipe.title),
        ("docker_image", recipe.docker_image),
        ("docker_image_dir", recipe.docker_image_dir),
        ("model", recipe.model),
        ("required_nodes", recipe.required_nodes),
        ("tensor_parallel_size", recipe.tensor_parallel_size),
        ("pipeline_parallel_size", recipe.pipeline_parallel_size),
        ("distributed_backend", recipe.distributed_backend),
        ("shm_size", recipe.shm_size),
        ("entrypoint", None if recipe.entrypoint is None else list(recipe.entrypoint)),
        ("gpus", recipe.gpus if recipe.gpus != "all" else None),
        ("ready_timeout_s", recipe.ready_timeout_s),
    ):
        if value is not None:
            lines.append(f"{key} = {_value(value)}")
    if recipe.port != DEFAULT_PORT:
        lines.append(f"port = {recipe.port}")
    if recipe.master_port != DEFAULT_MASTER_PORT:
        lines.append(f"master_port = {recipe.master_port}")
    lines += [
        f"{_key(k)} = {_value(v)}" for k, v in recipe.extra.items() if not isinstance(v, Mapping) and "[" not in k
    ]
    lines += ["", "args = ["]
    lines += [f"    {_value(entry)}," for entry in _entries(recipe.args)]
    lines += ["]"]
    if recipe.env:
        lines += ["", "[env]", *(f"{_key(k)} = {_value(v)}" for k, v in recipe.env.items())]
    for mount in recipe.mounts:
        lines += ["", "[[extra_mounts]]", f"host = {_value(mount.host)}", f"container = {_value(mount.container)}"]
        if mount.read_only:
            lines.append("read_only = true")
    hints = recipe.memory
    memory = [(k, getattr(hints, k)) for k in ("weights_gb", "resident_gb", "process_gb", "reserve_gib")]
    if any(v is not None for _, v in memory):
        lines += ["", "[memory]", *(f"{k} = {_value(float(v))}" for k, v in memory if v is not None)]
    if recipe.nodes.only or recipe.nodes.head or recipe.nodes.prefer:
        lines += ["", "[nodes]"]
        lines += [f"only = {_value(list(recipe.nodes.only))}"] if recipe.nodes.only else []
        lines += [f"head = {_value(recipe.nodes.head)}"] if recipe.nodes.head else []
        lines += [f"prefer = {_value(list(recipe.nodes.prefer))}"] if recipe.nodes.prefer else []
    if changes := recipe.guard.changes():
        lines += ["", "[guard]", *(f"{k} = {_value(v)}" for k, v in changes.items())]
    lines += _launch(recipe)
    if not recipe.smoke_judge:
        lines += ["", "[smoke]", 'judge = "off"']
    for check in recipe.smoke:
        lines += ["", "[[smoke.checks]]", f"prompt = {_value(check.prompt)}", f"max_tokens = {check.max_tokens}"]
        if check.expect is not None:
            lines.append(f"expect = {_value(check.expect)}")
    for key, table in recipe.extra.items():
        if isinstance(table, Mapping) and key not in PLAIN_TABLES and "[" not in key:
            lines += ["", f"[{_key(key)}]", *(f"{_key(k)} = {_value(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _launch(recipe: Recipe) -> list[str]:
    options = recipe.launch
    if options == LaunchOptions():
        return []
    lines = ["", "[launch]"]
    lines += ["drop_caches = true"] if options.drop_caches else []
    lines += [f"sync_image = {_value(options.sync_image)}"] if options.sync_image != "missing" else []
    lines += [f"override = {_value(list(options.override))}"] if options.override else []
    return lines


def _entries(args: Sequence[str]) -> list[str]:
    """Words as entries of `args`: a flag with its values in one entry, quoted where a shell would need it."""
    out: list[list[str]] = []
    for word in args:
        if is_flag(word) or not out:
            out.append([])
        out[-1].append(shlex.quote(word))
    return [" ".join(words) for words in out]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(_ESCAPES.get(c) or (c if " " <= c != "\x7f" else f"\\u{ord(c):04x}") for c in value) + '"'
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(k))} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return _value(json.dumps(value, default=str))


def _key(name: str) -> str:
    return name if name and all(c.isascii() and (c.isalnum() or c in "_-") for c in name) else _value(name)


def _one_line(text: str) -> str:
    return " ".join(text.split())
