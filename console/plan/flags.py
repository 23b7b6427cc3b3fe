"""An engine's arguments read as flags with their values, the way its own argument parser would."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Short forms that vLLM's `serve` takes for long ones (vllm/engine/arg_utils.py).
VLLM_ALIASES: Final[Mapping[str, str]] = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-q": "--quantization",
    "-cc": "--compilation-config",
    "-O": "--optimization-level",
}
# SGLang's long and short forms (python/sglang/srt/server_args.py).
SGLANG_ALIASES: Final[Mapping[str, str]] = {
    "--tp": "--tp-size",
    "--tensor-parallel-size": "--tp-size",
    "--pp": "--pp-size",
    "--pipeline-parallel-size": "--pp-size",
    "--dp": "--dp-size",
    "--data-parallel-size": "--dp-size",
    "--model": "--model-path",
    "--nccl-init-addr": "--dist-init-addr",
}
_SHORT: Final = re.compile(r"-[A-Za-z][A-Za-z0-9]*$")


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument. flag: its long name with `-`, or None for words before any flag; at: index of its first word;
    count: words taken; written: the flag as the operator wrote it."""

    flag: str | None
    values: tuple[str, ...]
    at: int
    count: int
    written: str = ""

    @property
    def value(self) -> str | None:
        return self.values[-1] if self.values else None


def canonical(name: str, aliases: Mapping[str, str] = VLLM_ALIASES) -> str:
    """A flag's long name: `--max_model_len` and `--max-model-len` are one, `-tp` is `--tensor-parallel-size`."""
    if name.startswith("--"):
        head, dot, path = name.partition(".")
        name = head.replace("_", "-") + dot + path
    return aliases.get(name, name)


def is_flag(word: str) -> bool:
    """True for `--name…` and for `-tp`; a negative number is a value."""
    return (word.startswith("--") and len(word) > 2) or _SHORT.match(word.partition("=")[0]) is not None


def parse_args(args: Sequence[str], aliases: Mapping[str, str] = VLLM_ALIASES) -> tuple[Arg, ...]:
    """Arguments in order. Words before the first flag stand alone; words after a flag are its values. Never raises."""
    out: list[Arg] = []
    at = 0
    while at < len(args):
        word = args[at]
        if not is_flag(word):
            out.append(Arg(None, (word,), at, 1))
            at += 1
            continue
        name, equals, inline = word.partition("=")
        end = at + 1
        if equals:
            values: tuple[str, ...] = (inline,)
        else:
            while end < len(args) and not is_flag(args[end]):
                end += 1
            values = tuple(args[at + 1 : end])
        out.append(Arg(canonical(name, aliases), values, at, end - at, name))
        at = end
    return tuple(out)


def find(args: Iterable[Arg], flag: str) -> Arg | None:
    """The last occurrence of a flag by its long name: the one that counts."""
    found = None
    for arg in args:
        if arg.flag == flag:
            found = arg
    return found


def find_value(args: Iterable[Arg], flag: str) -> str | None:
    """The last value of a flag by its long name, None without the flag or without a value."""
    arg = find(args, flag)
    return arg.value if arg else None


def without(args: Sequence[str], flags: Iterable[str], aliases: Mapping[str, str] = VLLM_ALIASES) -> tuple[str, ...]:
    """The words without some flags and their values."""
    drop = set(flags)
    out: list[str] = []
    for arg in parse_args(args, aliases):
        if arg.flag not in drop:
            out.extend(args[arg.at : arg.at + arg.count])
    return tuple(out)


def whole(text: str | None) -> int | None:
    """A decimal integer, or None for anything else: other alphabets' digits, hexadecimal, empty text."""
    if text is None or not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        return None
    return int(text)


_SIZES: Final[Mapping[str, int]] = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
}


def human_int(text: str | None) -> int | None:
    """An integer as vLLM reads sizes: `64k` is 64,000 and `64K` is 65,536 (vllm/engine/arg_utils.py); else None."""
    if text is None:
        return None
    plain = whole(text)
    if plain is not None:
        return plain
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)([kmgtKMGT])", text.strip())
    return int(float(match[1]) * _SIZES[match[2]]) if match else None


def real(text: str | None) -> float | None:
    """A finite decimal number, or None."""
    if text is None or not re.fullmatch(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})", text.strip()):
        return None
    return float(text)
