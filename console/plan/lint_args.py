"""The lint of the engine's arguments: doubled, contradictory, unreadable, or the launcher's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from console.base.findings import Finding
from console.base.secrets import MASK, is_secret_name
from console.plan.codes import finding
from console.plan.effective import Effective
from console.plan.engines import ENGINES
from console.plan.flags import Arg, find, find_value, human_int, real, whole
from console.recipe.model import DEFAULT_MASTER_PORT, DEFAULT_PORT, Recipe

_REPEATABLE: Final = frozenset({"--middleware"})  # argparse action "append"
_WHOLE: Final = frozenset(
    {
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--data-parallel-size",
        "--max-num-seqs",
        "--block-size",
        "--port",
        "--master-port",
        "--seed",
        "--tp-size",
        "--pp-size",
        "--max-running-requests",
    }
)
_SIZED: Final = frozenset({"--max-model-len", "--max-num-batched-tokens", "--context-length"})
_SHARE: Final = frozenset({"--gpu-memory-utilization", "--mem-fraction-static"})
_VALUED: Final = (
    _WHOLE
    | _SIZED
    | _SHARE
    | {
        "--served-model-name",
        "--compilation-config",
        "--speculative-config",
        "--distributed-executor-backend",
        "--host",
        "--quantization",
        "--kv-cache-dtype",
        "--tool-call-parser",
        "--reasoning-parser",
        "--default-chat-template-kwargs",
        "--engram-config",
        "--load-format",
        "--attention-backend",
    }
)
_JSON: Final = frozenset(
    {"--default-chat-template-kwargs", "--hf-overrides", "--mm-processor-kwargs", "--limit-mm-per-prompt"}
)
_DASH: Final = re.compile("-?[\u2010-\u2015\u2212\uff0d].")
_QUOTE: Final = re.compile("^[\u201c-\u201f\u2018-\u201b]|[\u201c-\u201f\u2018-\u201b]$")
_COMMAND: Final = re.compile(r"(vllm serve|sglang (serve|launch)|python3? -m (vllm|sglang)\.)")


def lint_arguments(recipe: Recipe, values: Effective) -> Iterator[Finding]:
    """Findings about args alone and about args against keys."""
    args = values.args
    yield from _doubled(args)
    yield from _keys(recipe, args)
    yield from _words(recipe, args)
    for arg in args:
        yield from _value(arg)
    yield from _batch(values)


def _doubled(args: tuple[Arg, ...]) -> Iterator[Finding]:
    by_flag: dict[str, list[tuple[str, ...]]] = {}
    for arg in args:
        if arg.flag is not None:
            by_flag.setdefault(arg.flag, []).append(arg.values)
    for flag, given in by_flag.items():
        if len(given) > 1 and flag not in _REPEATABLE:
            same = len(set(given)) == 1
            hidden = is_secret_name(flag)
            texts = [(MASK if hidden else " ".join(g)) if g else "(no value)" for g in given]
            yield finding(
                "doubled-argument" if same else "contradictory-argument",
                f"{flag} stands {len(given)} times"
                + (" with one value" if same else f": {', '.join(_short(t) for t in texts)}"),
                observed=", ".join(_short(t) for t in texts),
            )
        opposite = "--no-" + flag.removeprefix("--")
        if flag.startswith("--") and opposite in by_flag:
            yield finding("contradictory-argument", f"{flag} stands beside {opposite}", observed=opposite)


def _keys(recipe: Recipe, args: tuple[Arg, ...]) -> Iterator[Finding]:
    sglang = recipe.engine == "sglang"
    checks: list[tuple[str, str, str]] = [
        ("tensor_parallel_size", "--tp-size" if sglang else "--tensor-parallel-size", str(recipe.tensor_parallel_size)),
        (
            "pipeline_parallel_size",
            "--pp-size" if sglang else "--pipeline-parallel-size",
            str(recipe.pipeline_parallel_size),
        ),
        ("distributed_backend", "--distributed-executor-backend", recipe.distributed_backend),
        ("model", "--model-path" if sglang else "--model", recipe.model),
    ]
    if recipe.port != DEFAULT_PORT:
        checks.append(("port", "--port", str(recipe.port)))
    if recipe.master_port != DEFAULT_MASTER_PORT:
        checks.append(("master_port", "--master-port", str(recipe.master_port)))
    for key, flag, expected in checks:
        given = find_value(args, flag)
        if given is None or given == expected:
            continue
        if expected.isdecimal() and whole(given) == int(expected):
            continue
        yield finding(
            "key-argument-conflict",
            f"{key} = {_short(expected)}, but args say {flag} {_short(given)}",
            observed=_short(given),
            expected=_short(expected),
        )


def _words(recipe: Recipe, args: tuple[Arg, ...]) -> Iterator[Finding]:
    engine = ENGINES.get(recipe.engine)
    dashed = [word for word in recipe.args if _DASH.match(word)]
    said = [f.message for f in recipe.findings if f.code == "args-per-rank-flag"]  # with its line
    command = _command(recipe)
    if command:
        yield finding("command-in-args", f"args begin with `{_short(command)}`", observed=_short(command))
    for word in recipe.args:
        if _QUOTE.search(word):
            yield finding("unicode-quote", f"{_short(word)} holds typographic quotes", observed=_short(word))
    for arg in args:
        if arg.flag is None:
            if dashed or command:
                continue  # a flag that was not read as one leaves its values behind
            yield finding(
                "stray-word", f"{_short(arg.values[0])} stands before any flag", observed=_short(arg.values[0])
            )
        elif engine is not None and arg.flag in engine.owned and not any(f" {arg.flag} " in text for text in said):
            yield finding("launcher-argument", f"{arg.flag} is the launcher's to write", observed=arg.flag)
    for word in dashed:
        yield finding("unicode-dash", f"{_short(word)} begins with a typographic dash", observed=_short(word))


def _command(recipe: Recipe) -> str:
    """The engine's own command at the beginning of args, as people copy it from a shell; empty where there is none."""
    words: list[str] = []
    for word in recipe.args:
        if word.startswith("-") and word != "-m":
            break
        words.append(word)
    line = " ".join(words)
    return line if _COMMAND.match(line) else ""


def _value(arg: Arg) -> Iterator[Finding]:
    flag, value = arg.flag, arg.value
    if flag is None:
        return
    if flag in _VALUED and (value is None or value == ""):
        yield finding("argument-without-value", f"{flag} has no value", observed=flag)
        return
    if value is None:
        return
    if flag in _SHARE:
        share = real(value)
        if share is None or not 0 < share <= 1:
            yield finding(
                "utilisation-range",
                f"{flag} {_short(value)} is not above 0 and at most 1",
                observed=_short(value),
                expected="0 < value <= 1",
            )
    elif flag in _WHOLE:
        if whole(value) is None:
            yield finding("number-expected", f"{flag} {_short(value)} is no whole number", observed=_short(value))
    elif flag in _SIZED:
        if human_int(value) is None and not (flag == "--max-model-len" and value == "auto"):
            yield finding("number-expected", f"{flag} {_short(value)} is no size", observed=_short(value))
    elif _is_json(flag, value):
        yield from _json(flag, value)


def _is_json(flag: str, value: str) -> bool:
    """Only what is plainly meant as JSON: some of these flags also take a word, a number or a file."""
    named = (flag.endswith("-config") and flag != "--config") or flag in _JSON
    return named and value.lstrip()[:1] in ("{", "[", "'", '"')


def _json(flag: str, value: str) -> Iterator[Finding]:
    try:
        json.loads(value)
    except (ValueError, RecursionError) as error:
        quoted = value.strip()[:1] == "'"
        bare = '"' not in value  # the shell's reading took them
        what = "is wrapped in shell quotes" if quoted else "its quotes are gone" if bare else str(error)
        yield finding("json-argument", f"{flag}: not JSON: {what}", observed=_short(value))


def _batch(values: Effective) -> Iterator[Finding]:
    budget = values.max_batched_tokens
    if budget is None:
        return
    if values.max_num_seqs is not None and budget < values.max_num_seqs:
        yield finding(
            "batched-tokens-short",
            f"max-num-batched-tokens {budget} is below max-num-seqs {values.max_num_seqs}",
            observed=str(budget),
            expected=f"at least {values.max_num_seqs}",
        )
    unchunked = find(values.args, "--no-enable-chunked-prefill") is not None
    if unchunked and values.max_model_len is not None and budget < values.max_model_len:
        yield finding(
            "batched-tokens-short",
            f"max-num-batched-tokens {budget} is below max-model-len {values.max_model_len} without chunked prefill",
            observed=str(budget),
            expected=f"at least {values.max_model_len}",
        )


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
