"""The engine's arguments as its own parser would take them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

VERSION: Final = "0.28.1rc1.dev388+g8a728663c"
_INT: Final = frozenset(
    [
        "tensor-parallel-size",
        "pipeline-parallel-size",
        "data-parallel-size",
        "nnodes",
        "node-rank",
        "master-port",
        "port",
        "max-num-seqs",
        "max-num-batched-tokens",
        "block-size",
        "seed",
        "data-parallel-master-port",
    ]
)
_FLOAT: Final = frozenset({"gpu-memory-utilization", "swap-space", "cpu-offload-gb"})
_JSON: Final = frozenset(
    [
        "compilation-config",
        "speculative-config",
        "default-chat-template-kwargs",
        "engram-config",
        "hf-overrides",
        "kv-transfer-config",
        "limit-mm-per-prompt",
        "additional-config",
        "override-generation-config",
    ]
)
_TEXT: Final = frozenset(
    [
        "served-model-name",
        "master-addr",
        "host",
        "max-model-len",
        "distributed-executor-backend",
        "tool-call-parser",
        "reasoning-parser",
        "attention-backend",
        "load-format",
        "safetensors-load-strategy",
        "dtype",
        "quantization",
        "kv-cache-dtype",
        "tokenizer",
        "download-dir",
        "chat-template",
        "api-key",
        "model",
        "revision",
        "tokenizer-mode",
        "moe-backend",
        "mm-processor-cache-gb",
        "kv-cache-memory",
        "uvicorn-log-level",
        "generation-config",
    ]
)
_SWITCHES: Final = frozenset(
    [
        "trust-remote-code",
        "enable-auto-tool-choice",
        "headless",
        "disable-custom-all-reduce",
        "enforce-eager",
        "enable-prefix-caching",
        "no-enable-prefix-caching",
        "enable-chunked-prefill",
        "enable-expert-parallel",
        "disable-log-requests",
        "enable-log-requests",
        "disable-log-stats",
        "language-model-only",
        "async-scheduling",
        "no-async-scheduling",
    ]
)
_SHORT: Final = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-O": "compilation-config",
    "-n": "nnodes",
    "-r": "node-rank",
}
_KNOWN: Final = _INT | _FLOAT | _JSON | _TEXT | _SWITCHES
FLAGS: Final = _KNOWN


class BadArgument(Exception):
    """What argparse says before it exits with 2."""


@dataclass(frozen=True, slots=True)
class EngineArgs:
    """values: by flag without dashes, converted; flags that this simulation does not know are kept as text."""

    model: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def number(self, name: str, default: int) -> int:
        value = self.values.get(name, default)
        return value if isinstance(value, int) else default

    def text(self, name: str, default: str = "") -> str:
        return str(self.values.get(name, default))

    @property
    def world(self) -> int:
        return max(1, self.number("nnodes", 1))

    @property
    def rank(self) -> int:
        return self.number("node-rank", 0)

    @property
    def headless(self) -> bool:
        return bool(self.values.get("headless", False)) or self.rank > 0

    @property
    def served(self) -> str:
        names = self.values.get("served-model-name")
        return str(names).split()[0] if names else self.model

    @property
    def gpu_share(self) -> float:
        value = self.values.get("gpu-memory-utilization", 0.9)
        return float(value) if isinstance(value, (int, float)) else 0.9

    @property
    def max_len(self) -> int:
        text = self.text("max-model-len", "1048576").lower()
        scale = {"k": 1024, "m": 1024**2}.get(text[-1:], 1)
        digits = text.rstrip("km")
        return int(float(digits) * scale) if digits.replace(".", "", 1).isdigit() else 1_048_576

    @property
    def drafts(self) -> int:
        """Tokens drafted a step; 0: no speculation."""
        config = self.values.get("speculative-config")
        return int(config.get("num_speculative_tokens", 0)) if isinstance(config, dict) else 0

    def non_default(self) -> str:
        """The dict that the engine prints at its start; secrets masked as new versions do."""
        shown: dict[str, Any] = {"model_tag": self.model, "model": self.model}
        for key, value in self.values.items():
            if key not in ("headless", "node-rank"):
                shown[key.replace("-", "_")] = (
                    "***" if key == "api-key" else [value] if key == "served-model-name" else value
                )
        return repr(shown)


def parse(words: Sequence[str]) -> EngineArgs:
    """The words after `vllm serve`. Raises BadArgument in argparse's own words."""
    model, values = "", dict[str, Any]()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            if model:
                raise BadArgument(f"unrecognized arguments: {word}")
            model = word
            continue
        name, sep, value = word.partition("=")
        key = _SHORT.get(name, name.lstrip("-").replace("_", "-"))
        if key not in _KNOWN and difflib.get_close_matches(key, _KNOWN, 1, 0.85):
            raise BadArgument(f"unrecognized arguments: {word}")
        if key in _SWITCHES or (key not in _KNOWN and not sep and (not rest or rest[0].startswith("--"))):
            values[key] = True
            continue
        if not sep:
            if not rest:
                raise BadArgument(f"argument {word}: expected one argument")
            value = rest.pop(0)
        values[key] = _convert(key, name, value)
    share = values.get("gpu-memory-utilization", 0.9)
    if not 0 < share <= 1:
        raise BadArgument(f"argument --gpu-memory-utilization: invalid value: {share} must be in (0, 1]")
    return EngineArgs(model or str(values.get("model", "Qwen/Qwen3-0.6B")), values)


def _convert(key: str, flag: str, value: str) -> Any:
    try:
        if key in _INT:
            return int(value)
        if key in _FLOAT:
            return float(value)
    except ValueError as e:
        raise BadArgument(f"argument {flag}: invalid {'int' if key in _INT else 'float'} value: '{value}'") from e
    if key in _JSON:
        try:
            return json.loads(value)
        except ValueError as e:
            raise BadArgument(f"argument {flag}: Value {value} cannot be converted to <function loads>.") from e
    return value
