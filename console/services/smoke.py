"""Asking the head's API, from the head: does it answer, does it serve this model, is its text sane."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from console.base.text import clean_bytes, clean_line, decode
from console.boot.judge import judge_text
from console.services.http import HttpError, fetch, request
from console.transport.base import Link, TransportError, Trouble

HEALTH_TIMEOUT_S = 5.0
# A canary that does not answer in about 90 s means a rank is gone although /health says 200 (launching 2.7).
REQUEST_TIMEOUT_S = 90.0
_ANSWER_LIMIT = 4 << 20
_JUDGED = 16_384
_SAMPLE = 400
DEFAULT_PROMPT = "The capital of France is"
COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
# What engines answer for a route that this model has not: no such route, no such task, no chat template.
_NO_ROUTE = (404, 405, 501)
_NO_TASK = re.compile(rb"chat.template|does not support", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """state: `closed` (nothing listens yet), `starting`, `healthy`, `wrong_model`, `error`, `unknown` (the node did
    not answer, so nothing is known of the API)."""

    state: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SmokeResult:
    """ok: a non-empty, sane answer came within the limit. text: its sample. why: what is wrong, empty when ok.

    tokens: as the engine counts them, where it says so; else pieces of the stream. path: the route that answered.
    notes: worth a word, and no fault. asked: how many requests are behind it."""

    ok: bool
    text: str = ""
    why: str = ""
    first_token_s: float | None = None
    tokens_per_s: float | None = None
    tokens: int | None = None
    path: str = ""
    notes: tuple[str, ...] = ()
    asked: int = 1

    def as_mapping(self) -> Mapping[str, Any]:
        """For JSON and faces."""
        return {
            "ok": self.ok,
            "text": self.text,
            "why": self.why,
            "first_token_s": self.first_token_s,
            "tokens_per_s": self.tokens_per_s,
            "tokens": self.tokens,
            "asked": self.asked,
            "notes": list(self.notes),
        }


def api_address(api_host: str) -> str:
    """Where the head reaches its own API: a wildcard address answers on loopback."""
    return "127.0.0.1" if api_host in ("", "0.0.0.0", "::", "localhost") else api_host


async def ask_health(link: Link, host: str, port: int, served_name: str) -> ApiAnswer:
    """One look at /health, and at the list of served models when it is well. Never raises."""
    try:
        health = await fetch(link, port, "/health", host=host, timeout=HEALTH_TIMEOUT_S)
        if health.status in (404, 405):
            pass  # not every engine has /health; the list of models decides
        elif health.status == 503:
            return ApiAnswer("starting", "the API says 503")
        elif health.status != 200:
            return ApiAnswer("error", f"/health says {health.status}: {clean_bytes(health.body, limit=120)}")
        models = await fetch(link, port, "/v1/models", host=host, timeout=HEALTH_TIMEOUT_S)
    except TransportError as error:
        if error.trouble is Trouble.REFUSED:
            return ApiAnswer("closed", "nothing listens yet")
        if error.trouble is Trouble.DEADLINE:
            return ApiAnswer("error", error.what)
        return ApiAnswer("unknown", error.what)
    except (HttpError, TimeoutError) as error:
        return ApiAnswer("error", f"port {port} does not speak as an API: {clean_line(str(error), limit=120)}")
    names = _served(models.body) if models.status == 200 else None
    if names is None:
        said = clean_bytes(models.body, limit=120)
        return ApiAnswer("wrong_model", f"/v1/models says {models.status}: {said}; is another program on port {port}?")
    if served_name not in names:
        return ApiAnswer("wrong_model", f"{served_name} is not served; listed: {', '.join(names[:5]) or 'nothing'}")
    return ApiAnswer("healthy")


def _served(body: bytes) -> list[str] | None:
    data = _json(body)
    rows = data.get("data") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        return None
    return [clean_line(r["id"], limit=200) for r in rows if isinstance(r, dict) and isinstance(r.get("id"), str)]


def _json(body: bytes) -> Any:
    try:
        return json.loads(decode(body))
    except (ValueError, RecursionError):
        return None


@dataclass(slots=True)
class _Answer:
    """What came so far of one streamed answer. first: monotonic seconds of its first piece."""

    started: float
    first: float | None = None
    ended: float = 0.0
    pieces: list[str] = field(default_factory=list)
    tokens: int | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)[:_JUDGED]

    def result(self, path: str) -> SmokeResult:
        sample = clean_line(self.text.replace("\n", " "), limit=_SAMPLE)
        if not sample.strip():
            return SmokeResult(False, why="the answer is empty", path=path)
        # Drafted tokens come several to a piece, so the engine's own count is the better one.
        count = self.tokens if self.tokens is not None else len(self.pieces)
        first = self.first if self.first is not None else self.ended
        rate = (count - 1) / (self.ended - first) if self.ended > first and count > 1 else None
        return SmokeResult(True, sample, "", first - self.started, rate, count, path)


async def ask_text(
    link: Link,
    host: str,
    port: int,
    served_name: str,
    *,
    now: Callable[[], float],
    prompt: str = DEFAULT_PROMPT,
    max_tokens: int = 32,
    timeout: float = REQUEST_TIMEOUT_S,
    judge: bool = True,
    expect: str | None = None,
    paths: Sequence[str] = (COMPLETIONS, CHAT),
) -> SmokeResult:
    """A greedy request, streamed. now: monotonic seconds. Never raises TransportError: a failure is a result.

    Completions first: a reasoning model answers a raw prompt at once, where a chat would think first. A model that
    has no such route is asked as a chat, and what it thinks counts as text. expect: a regular expression that the
    answer must match; the request ends as soon as it does."""
    body = {"model": served_name, "max_tokens": max_tokens, "temperature": 0, "seed": 0, "stream": True}
    body["stream_options"] = {"include_usage": True}
    wanted = None if expect is None else re.compile(expect)
    answer = _Answer(now())
    result: SmokeResult | None = None
    try:
        async with asyncio.timeout(timeout):
            for path in paths:
                asked = {"messages": [{"role": "user", "content": prompt}]} if path == CHAT else {"prompt": prompt}
                answer = _Answer(now())
                result = await _streamed(link, host, port, path, {**body, **asked}, now, timeout, answer, wanted)
                if result is not None:
                    break
    except TimeoutError:
        why = f"no answer to a short request in {timeout:.0f} s"
        if answer.pieces:
            why = f"no whole answer in {timeout:.0f} s ({len(answer.pieces)} pieces came)"
            garbled = judge_text(answer.text, prompt=prompt) if judge else ""
            if garbled:
                answer.ended = now()
                return replace(answer.result(path), ok=False, why=garbled)
        return SmokeResult(False, why=why)
    except TransportError as error:
        return SmokeResult(False, why=error.what)
    except HttpError as error:
        return SmokeResult(False, why=f"the API hung up: {clean_line(str(error), limit=120)}")
    if result is None:
        return SmokeResult(False, why="the API knows neither completions nor chat")
    if not result.ok:
        return result
    wrong = judge_text(answer.text, prompt=prompt) if judge else ""
    if not wrong and wanted is not None and wanted.search(answer.text) is None:
        wrong = f"the answer does not match {clean_line(wanted.pattern, limit=60)}"
    return result if not wrong else replace(result, ok=False, why=wrong)


async def _streamed(
    link: Link,
    host: str,
    port: int,
    path: str,
    body: dict[str, Any],
    now: Callable[[], float],
    timeout: float,
    answer: _Answer,
    wanted: re.Pattern[str] | None,
) -> SmokeResult | None:
    """None where this model has no such route."""
    raw = bytearray()
    pending = bytearray()
    done = False
    data = json.dumps(body).encode()
    async with request(link, host, port, "POST", path, body=data, timeout=timeout) as (status, blocks):
        async for block in blocks:
            raw += block
            if len(raw) > _ANSWER_LIMIT or done:
                break  # a short request has a short answer; what has no end is judged by its beginning
            pending += block
            *lines, rest = bytes(pending).split(b"\n")
            pending = bytearray(rest[: 1 << 20])
            for line in lines:
                piece, tokens = _piece(line)
                answer.tokens = tokens if tokens is not None else answer.tokens
                if piece:
                    answer.first = answer.first if answer.first is not None else now()
                    answer.pieces.append(piece)
            done = wanted is not None and _matched(wanted, answer.text)
    answer.ended = now()
    if status in _NO_ROUTE or (status == 400 and _NO_TASK.search(raw)):
        return None
    if status == 400 and b"stream_options" in raw and "stream_options" in body:
        plain = {key: value for key, value in body.items() if key != "stream_options"}
        return await _streamed(link, host, port, path, plain, now, timeout, answer, wanted)
    if status != 200:
        return SmokeResult(False, why=f"a short request got {status}: {clean_bytes(bytes(raw), limit=200)}", path=path)
    if not answer.pieces:
        whole = _json(bytes(raw))
        if text := _text_of(whole):
            answer.pieces, answer.first, answer.tokens = [text], answer.ended, _tokens_of(whole)
    return answer.result(path)


def _matched(wanted: re.Pattern[str], text: str) -> bool:
    """Whether the text matches already, with something after the match: what ends the text may yet grow."""
    found = wanted.search(text)
    return found is not None and found.end() < len(text)


def _piece(line: bytes) -> tuple[str, int | None]:
    """The words of one event of a stream, and the count of all tokens where the event tells it."""
    if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
        return "", None
    data = _json(line[5:])
    return _text_of(data), _tokens_of(data)


def _tokens_of(data: Any) -> int | None:
    usage = data.get("usage") if isinstance(data, dict) else None
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else None


def _text_of(data: Any) -> str:
    """The text of a completion or chat answer, whole or a piece of a stream; a thought counts as text."""
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return ""
    choice = choices[0]
    out = choice.get("text")
    if isinstance(out, str):
        return out
    for key in ("delta", "message"):
        part = choice.get(key)
        if isinstance(part, dict):
            words = [part.get(k) for k in ("reasoning_content", "reasoning", "content")]
            return "".join(w for w in words if isinstance(w, str))
    return ""
