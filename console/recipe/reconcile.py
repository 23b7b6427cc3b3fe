"""Keys that repeat a flag of `args`: equal once, different values an error; and the sizes that must fit together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from console.base.errors import FileError
from console.base.findings import Finding, Severity
from console.base.toml_check import named, plain
from console.base.toml_locate import Document, Path
from console.recipe.args import TWINS, Flag, flags
from console.recipe.model import DEFAULT_MASTER_PORT, DEFAULT_PORT, DEFAULT_READY_TIMEOUT_S

# Flags that the console gives to each rank by itself: one value for all ranks cannot be right.
PER_RANK: Final = frozenset({"--node-rank", "--headless"})
READY_ENV: Final = "VLLM_ENGINE_READY_TIMEOUT_S"
LONGEST_S: Final = 1e7  # 115 days: beyond it, a deadline is a slip of the hand
_LIMITS: Final = {"port": 65535, "master_port": 65535}


@dataclass(slots=True)
class Agreed:
    """What keys and flags say together."""

    numbers: dict[str, int]
    backend: str
    errors: list[FileError]
    findings: list[Finding]


def agree(doc: Document, words: Sequence[str], entry_of: Sequence[int]) -> Agreed:
    """Reconcile. `entry_of[i]` is the entry of `args` that gave word i."""
    agreed = Agreed(numbers={}, backend="mp", errors=[], findings=[])
    found = flags(words)
    for key, twin in TWINS.items():
        _one_twin(doc, key, [f for f in found if f.name == twin], entry_of, agreed)
    for flag in found:
        if flag.name in PER_RANK:
            line, _ = doc.place(("args", entry_of[flag.at]), value=True)
            message = f"args: {flag.written} (line {line}) is for one rank; here it would reach all ranks"
            remedy = f"remove {flag.written}: the console gives it where it belongs"
            agreed.findings.append(Finding("args-per-rank-flag", Severity.BLOCK, message, remedy=remedy))
    agreed.errors.extend(_size_errors(doc, agreed.numbers, found))
    return agreed


def _one_twin(doc: Document, key: str, twins: list[Flag], entry_of: Sequence[int], agreed: Agreed) -> None:
    first = doc.data.get(key)
    if isinstance(first, bool) or not isinstance(first, str if key == "distributed_backend" else int):
        first = None  # absent, or of a wrong type: that is another error
    said_by = f"{key} (line {doc.place((key,))[0]})"
    for flag in twins:
        path: Path = ("args", entry_of[flag.at])
        if flag.value is None:
            agreed.errors.append(doc.error(f"{flag.written} needs a value", path))
            continue
        value: object = flag.value
        if key != "distributed_backend":
            number = _number(flag.value, _LIMITS.get(key))
            if number is None:
                allowed = f"1 to {_LIMITS[key]}" if key in _LIMITS else "a whole number from 1"
                agreed.errors.append(doc.error(f"{flag.written} must be {allowed}, found {named(flag.value)}", path))
                continue
            value = number
        if first is None:
            first, said_by = value, f"{flag.written} (line {doc.place(path, value=True)[0]})"
        elif first != value:
            shown = plain(first) if isinstance(first, int | float) else first
            message = f"{flag.written} {flag.value} contradicts {said_by}, which says {shown}"
            agreed.errors.append(doc.error(message, path, remedy="say it once, or the same twice"))
    if isinstance(first, str) and key == "distributed_backend":
        agreed.backend = first
    elif isinstance(first, int):
        agreed.numbers[key] = first


def _number(text: str, most: int | None) -> int | None:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        return None
    number = int(text)
    return number if number >= 1 and (most is None or number <= most) else None


def _size_errors(doc: Document, numbers: Mapping[str, int], found: Sequence[Flag]) -> list[FileError]:
    errors: list[FileError] = []
    sizes = ("required_nodes", "tensor_parallel_size", "pipeline_parallel_size")
    if any(key in doc.data and key not in numbers for key in sizes):
        return errors  # of a wrong type: that is another error
    nodes = numbers.get("required_nodes")
    tensor, pipeline = numbers.get("tensor_parallel_size", 1), numbers.get("pipeline_parallel_size", 1)
    data = next((_number(f.value or "", None) for f in found if f.name == "--data-parallel-size"), None) or 1
    if (
        nodes is not None
        and min(nodes, tensor, pipeline) >= 1
        and nodes not in (tensor * pipeline, tensor * pipeline * data)
    ):
        parts = f"tensor_parallel_size {plain(tensor)} x pipeline_parallel_size {plain(pipeline)}"
        if data > 1:
            parts += f" x data parallel size {plain(data)}"
        message = f"{parts} is {plain(tensor * pipeline * data)}, and required_nodes is {plain(nodes)}"
        key = "tensor_parallel_size" if "tensor_parallel_size" in doc.data else "required_nodes"
        errors.append(doc.error(message, (key,), remedy="their product must equal the ranks, one a node"))
    port, master = numbers.get("port", DEFAULT_PORT), numbers.get("master_port", DEFAULT_MASTER_PORT)
    if port == master:
        key = "master_port" if "master_port" in doc.data else "port"
        message = f"port and master_port are both {plain(port)}, and the head listens on both"
        errors.append(doc.error(message, (key,)))
    return errors


def ready_timeout(doc: Document, env: Mapping[str, Any]) -> tuple[float, list[FileError]]:
    """Seconds until ready: the key, else `env.VLLM_ENGINE_READY_TIMEOUT_S`, else 1800."""
    own = doc.data.get("ready_timeout_s")
    if isinstance(own, int | float) and not isinstance(own, bool):
        return (float(own) if own < LONGEST_S else LONGEST_S), []
    text = env.get(READY_ENV)
    if not isinstance(text, str):
        return DEFAULT_READY_TIMEOUT_S, []
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (0 < seconds <= LONGEST_S):
        message = f"must be a number of seconds from above 0 to {LONGEST_S:.0f}, found {named(text)}"
        return DEFAULT_READY_TIMEOUT_S, [doc.error(message, ("env", READY_ENV))]
    return seconds, []
