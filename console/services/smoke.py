"""Asking the head's API, from the head: does it answer, does it serve this model, is its text sane."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from console.base.text import clean_bytes, clean_line, decode
from console.boot.judge import judge_text
from console.services.http import HttpError, fetch, request
from console.transport.base import Link, TransportError, Trouble

HEALTH_TIMEOUT_S = 5.0
# A canary that does not answer in about 90 s means a rank is gone although /health says 200 (launching 2.7).
REQUEST_TIMEOUT_S = 90.0
_ANSWER_LIMIT = 4 << 20
DEFAULT_PROMPT = "The capital of France is"


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """state: `closed` (nothing listens yet), `starting`, `healthy`, `wrong_model`, `error`, `unknown` (the node did
    not answer, so nothing is known of the API)."""

    state: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SmokeResult:
    """ok: a non-empty, sane answer came within the limit. text: its sample. why: what is wrong, empty when ok."""

    ok: bool
    text: str = ""
    why: str = ""
    first_token_s: float | None = None
    tokens_per_s: float | None = None
    tokens: int | None = None


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
) -> SmokeResult:
    """A greedy request, streamed. now: monotonic seconds. Never raises TransportError: a failure is a result.

    Completions first: a reasoning model answers a raw prompt at once, where a chat would think first. A model that
    has no such route is asked as a chat, and what it thinks counts as text."""
    body = {"model": served_name, "max_tokens": max_tokens, "temperature": 0, "stream": True}
    plain = {**body, "prompt": prompt}
    chat = {**body, "messages": [{"role": "user", "content": prompt}]}
    try:
        async with asyncio.timeout(timeout):
            result = await _streamed(link, host, port, "/v1/completions", plain, now, timeout)
            if result is None:
                result = await _streamed(link, host, port, "/v1/chat/completions", chat, now, timeout)
    except TimeoutError:
        return SmokeResult(False, why=f"no answer to a short request in {timeout:.0f} s")
    except TransportError as error:
        return SmokeResult(False, why=error.what)
    except HttpError as error:
        return SmokeResult(False, why=f"the API hung up: {clean_line(str(error), limit=120)}")
    if result is None:
        return SmokeResult(False, why="the API knows neither completions nor chat")
    if not result.ok or not judge:
        return result
    wrong = judge_text(result.text, prompt=prompt)
    return (
        result
        if not wrong
        else SmokeResult(False, result.text, wrong, result.first_token_s, result.tokens_per_s, result.tokens)
    )


async def _streamed(
    link: Link, host: str, port: int, path: str, body: dict[str, Any], now: Callable[[], float], timeout: float
) -> SmokeResult | None:
    """None where the route does not exist."""
    started = now()
    first: float | None = None
    pieces: list[str] = []
    raw = bytearray()
    pending = bytearray()
    data = json.dumps(body).encode()
    async with request(link, host, port, "POST", path, body=data, timeout=timeout) as (status, blocks):
        async for block in blocks:
            raw += block
            if len(raw) > _ANSWER_LIMIT:
                break  # a short request has a short answer; what has no end is judged by its beginning
            pending += block
            *lines, rest = bytes(pending).split(b"\n")
            pending = bytearray(rest[: 1 << 20])
            for line in lines:
                piece = _piece(line)
                if piece:
                    first = first if first is not None else now()
                    pieces.append(piece)
    ended = now()
    if status == 404:
        return None
    if status != 200:
        return SmokeResult(False, why=f"a short request got {status}: {clean_bytes(bytes(raw), limit=200)}")
    if not pieces:
        whole = _text_of(_json(bytes(raw)))
        if whole:
            pieces, first = [whole], ended
    text = clean_line("".join(pieces).replace("\n", " "), limit=400)
    if not text.strip():
        return SmokeResult(False, why="the answer is empty")
    rate = (len(pieces) - 1) / (ended - first) if first is not None and ended > first and len(pieces) > 1 else None
    return SmokeResult(True, text, "", None if first is None else first - started, rate, len(pieces))


def _piece(line: bytes) -> str:
    if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
        return ""
    return _text_of(_json(line[5:]))


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
