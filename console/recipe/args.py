"""The engine's arguments as flags: names, values, and which keys of a recipe they repeat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_FLAG: Final = re.compile(r"--[A-Za-z]|-[A-Za-z]")
# Short names of vLLM's own parser (vllm/engine/arg_utils.py) and SGLang's (sglang/srt/server_args.py).
ALIASES: Final = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "--tp": "--tensor-parallel-size",
    "--tp-size": "--tensor-parallel-size",
    "--pp": "--pipeline-parallel-size",
    "--pp-size": "--pipeline-parallel-size",
    "--dp": "--data-parallel-size",
    "--dp-size": "--data-parallel-size",
}
# Keys of a recipe and the flag that says the same thing.
TWINS: Final = {
    "distributed_backend": "--distributed-executor-backend",
    "tensor_parallel_size": "--tensor-parallel-size",
    "pipeline_parallel_size": "--pipeline-parallel-size",
    "port": "--port",
    "master_port": "--master-port",
    "required_nodes": "--nnodes",
}


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag with the values after it. `name`: the long name with `-`; `written`: as it stands; `at`: its index."""

    name: str
    values: tuple[str, ...]
    written: str
    at: int

    @property
    def value(self) -> str | None:
        """The first value, or None for a switch."""
        return self.values[0] if self.values else None


def canonical(name: str) -> str:
    """One name for one flag: `--max_model_len` is `--max-model-len`, `-tp` is `--tensor-parallel-size`."""
    plain = "--" + name[2:].replace("_", "-") if name.startswith("--") else name
    return ALIASES.get(plain, plain)


def is_flag(word: str) -> bool:
    """True for a word that names a flag; a negative number is a value."""
    return _FLAG.match(word) is not None


def flags(args: Sequence[str]) -> list[Flag]:
    """All flags in order, each with its values; words before the first flag are positional and left out."""
    found: list[tuple[str, list[str], int]] = []
    for at, word in enumerate(args):
        if is_flag(word):
            name, eq, value = word.partition("=")
            found.append((name, [value] if eq else [], at))
        elif found:
            found[-1][1].append(word)
    return [Flag(canonical(name), tuple(values), name, at) for name, values, at in found]


def positionals(args: Sequence[str]) -> list[str]:
    """The words before the first flag."""
    out: list[str] = []
    for word in args:
        if is_flag(word):
            break
        out.append(word)
    return out
