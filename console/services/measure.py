"""Speed of what serves, asked from the head itself: streams at once, first tokens, and how much it varies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from console.base.errors import NightdeckError
from console.base.text import clean_bytes, clean_line, decode
from console.boot.spread import spread
from console.services.http import HttpError, request
from console.transport.base import Link, TransportError

# Prose, counting and code: the same engine is up to three times as fast on one as on another, because drafts of
# counting and code are accepted far more often (night-trials 6.7), so every round asks all kinds in the same order.
PROMPTS: Final = (
    "Write a long and calm description of a harbour town in winter.",
    "Count from 1 upwards in words, one number a line.",
    "Write a Python module that parses a log file and prints statistics, with comments.",
    "Explain step by step how a sailing ship tacks against the wind.",
    "List the countries of Europe with their capitals, one a line.",
    "Write a C function that sorts an array, and explain each line.",
)


class MeasureError(NightdeckError):
    """Nothing could be measured, and why."""


@dataclass(frozen=True, slots=True)
class MeasureSpec:
    """concurrency: streams at once, one level after another. repeats: rounds that count; one more comes before them
    and is dropped. max_tokens: of each answer. timeout_s: of one round."""

    concurrency: tuple[int, ...] = (1, 2, 4)
    repeats: int = 3
    max_tokens: int = 128
    timeout_s: float = 300.0
    prompts: tuple[str, ...] = PROMPTS


@dataclass(slots=True)
class _Stream:
    """One answer. first, last: monotonic seconds of its first and last piece."""

    started: float
    first: float | None = None
    last: float | None = None
    pieces: int = 0
    tokens: int | None = None
    text: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def count(self) -> int:
        return self.tokens if self.tokens is not None else self.pieces

    @property
    def rate(self) -> float | None:
        """Tokens a second after the first piece."""
        if self.first is None or self.last is None or self.last <= self.first or self.count < 2:
            return None
        return (self.count - 1) / (self.last - self.first)


async def measure(
    link: Link,
    host: str,
    port: int,
    served: str,
    spec: MeasureSpec,
    *,
    now: Callable[[], float],
    told: Callable[[str], None] = lambda _text: None,
) -> dict[str, Any]:
    """`measure.json`: for each level the spread of tokens/s of one stream and in all, and of the first token's time.

    Raises MeasureError where no round gave an answer. Cancelling ends the requests."""
    levels: list[dict[str, Any]] = []
    sample = ""
    extra: dict[str, Any] = {"ignore_eos": True, "stream_options": {"include_usage": True}}
    for n in spec.concurrency:
        rounds: list[tuple[list[_Stream], float]] = []
        for number in range(spec.repeats + 1):
            streams, took = await _round(link, host, port, served, spec, n, now, extra)
            if extra and all(s.error.startswith("400") for s in streams):
                extra = {}  # an engine that knows neither: answers may then end early, and pieces are counted
                streams, took = await _round(link, host, port, served, spec, n, now, extra)
            if number:  # the first round warms graphs and caches up, and is dropped
                rounds.append((streams, took))
            good = [s for s in streams if not s.error]
            told(f"{n} at once, round {number} of {spec.repeats}: {_in_words(good, took)}")
            if good and not sample:
                sample = clean_line("".join(good[0].text).replace("\n", " "), limit=400)
        levels.append(_level(n, rounds))
    if all(level["total_tokens_per_s"] is None for level in levels):
        why = next((e for level in levels for e in level["errors"]), "no answer held two tokens")
        raise MeasureError(f"nothing could be measured: {why}")
    return {
        "schema": 1,
        "served_name": served,
        "max_tokens": spec.max_tokens,
        "repeats": spec.repeats,
        "dropped_rounds": 1,
        "levels": levels,
        "text": sample,
    }


async def _round(
    link: Link,
    host: str,
    port: int,
    served: str,
    spec: MeasureSpec,
    n: int,
    now: Callable[[], float],
    extra: Mapping[str, Any],
) -> tuple[list[_Stream], float]:
    started = now()
    streams = [_Stream(started) for _ in range(n)]
    await asyncio.gather(
        *(
            _ask(link, host, port, served, spec, spec.prompts[i % len(spec.prompts)], stream, now, extra)
            for i, stream in enumerate(streams)
        )
    )
    return streams, now() - started


async def _ask(
    link: Link,
    host: str,
    port: int,
    served: str,
    spec: MeasureSpec,
    prompt: str,
    stream: _Stream,
    now: Callable[[], float],
    extra: Mapping[str, Any],
) -> None:
    """One streamed answer. What goes wrong is noted in it; the other streams go on."""
    body = {"model": served, "prompt": prompt, "max_tokens": spec.max_tokens, "temperature": 0, "stream": True, **extra}
    try:
        async with (
            asyncio.timeout(spec.timeout_s),
            request(
                link, host, port, "POST", "/v1/completions", body=json.dumps(body).encode(), timeout=spec.timeout_s
            ) as (status, blocks),
        ):
            pending, raw = bytearray(), bytearray()
            async for block in blocks:
                raw += block[: 4096 - len(raw)]
                pending += block
                *lines, rest = bytes(pending).split(b"\n")
                pending = bytearray(rest[: 1 << 20])
                for line in lines:
                    _take(line, stream, now)
        if status != 200:
            stream.error = f"{status}: {clean_bytes(bytes(raw), limit=200)}"
        elif not stream.pieces:
            stream.error = "the answer is empty"
    except TimeoutError:
        stream.error = f"no whole answer in {spec.timeout_s:.0f} s"
    except TransportError as error:
        stream.error = error.what
    except HttpError as error:
        stream.error = f"the API hung up: {clean_line(str(error), limit=120)}"


def _take(line: bytes, stream: _Stream, now: Callable[[], float]) -> None:
    if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
        return
    try:
        data = json.loads(decode(line[5:]))
    except (ValueError, RecursionError):
        return
    if not isinstance(data, dict):
        return
    usage = data.get("usage")
    if isinstance(usage, dict) and isinstance(usage.get("completion_tokens"), int):
        stream.tokens = usage["completion_tokens"]  # a piece may hold several tokens where drafts are accepted
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    text = choice.get("text") if isinstance(choice, dict) else None
    if isinstance(text, str) and text:
        stream.last = now()
        stream.first = stream.first if stream.first is not None else stream.last
        stream.pieces += 1
        if len(stream.text) < 200:
            stream.text.append(text)


def _level(n: int, rounds: Sequence[tuple[list[_Stream], float]]) -> dict[str, Any]:
    good = [(streams, took) for streams, took in rounds if all(not s.error for s in streams)]
    totals = [sum(s.count for s in streams) / took for streams, took in good if took > 0]
    rates = [r for streams, _ in good for s in streams if (r := s.rate) is not None]
    firsts = [s.first - s.started for streams, _ in good for s in streams if s.first is not None]
    errors = list(dict.fromkeys(s.error for streams, _ in rounds for s in streams if s.error))
    counted = "usage" if all(s.tokens is not None for streams, _ in good for s in streams) else "pieces"
    found = {"total_tokens_per_s": totals, "stream_tokens_per_s": rates, "ttft_s": firsts}
    return {
        "concurrency": n,
        "rounds": len(good),
        "failed_rounds": len(rounds) - len(good),
        "counted_by": counted,
        **{name: None if (s := spread(values)) is None else s.as_json() for name, values in found.items()},
        "errors": errors[:5],
    }


def _in_words(good: Sequence[_Stream], took: float) -> str:
    if not good or took <= 0:
        return "no answer"
    firsts = [s.first - s.started for s in good if s.first is not None]
    return (
        f"{sum(s.count for s in good) / took:.1f} tokens/s in all, first token after {max(firsts, default=0.0):.2f} s"
    )
